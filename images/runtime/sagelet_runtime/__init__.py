"""The part of sagelet that runs in a job's container.

It imports neither `sagelet` nor `sagelet_api`, and imports torch only after the user's script has.
"""

__version__ = "0.1.0"
