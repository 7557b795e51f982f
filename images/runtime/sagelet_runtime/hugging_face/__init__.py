"""Names of Transformers 4.11 to 4.36 and of datasets 1 and 2, for scripts of the images that had them.

They are added to the modules that a script imports, and only where they are missing. An existing name stays as it is.
"""
