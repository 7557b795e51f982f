"""The container side of sagelet: imports neither `sagelet` nor `sagelet_api`, and torch only after the user has."""

__version__ = "0.1.0"
