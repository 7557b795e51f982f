"""The meaning of `sagelet`'s exit codes. docs/reference/command-line.md is made from this."""

from sagelet_engine.base.errors import SageletError

DONE, ERROR, USAGE, FAILED, STOPPED, TIMED_OUT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

MEANINGS = {
    DONE: "done",
    ERROR: "an error; the message names the remedy",
    USAGE: "wrong usage: an unknown option or argument, or an invalid value",
    FAILED: "a job that the command waited for failed",
    STOPPED: "a job that the command waited for was stopped",
    TIMED_OUT: "the time to wait was over",
    INTERRUPTED: "Ctrl-C",
}


class EndedWith(SageletError):
    """An error with an exit code of its own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code
