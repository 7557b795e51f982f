"""The library's errors, which AWS's toolkit looks for in the output of a script."""


class SMDDPError(Exception):
    """Base class."""


class SMDDPConfigurationError(SMDDPError):
    """The variables by which the job's workers find each other are missing."""
