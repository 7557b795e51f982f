"""The library's errors, which AWS's toolkit looks for in the output of a script."""


class SMDDPError(Exception):
    """Base class."""


class SMDDPConfigurationError(SMDDPError):
    """The job's workers do not know each other."""
