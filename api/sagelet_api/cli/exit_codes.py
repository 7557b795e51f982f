"""The meaning of `sagelet`'s exit codes. docs/reference/command-line.md is made from this."""

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
