"""Names of Transformers 4.11 to 4.36 and of datasets 1 and 2, for scripts of the images that had them.

Added to what a script imports, and only where they are missing. A name that is there stays as it is.
"""
