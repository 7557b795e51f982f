"""Checks that a deliberate mistake is found by its effect, and not because a test double no longer fits."""

_MISFITS = (TypeError, AttributeError, NameError)


def found_by_its_effect(error: BaseException) -> None:
    """Fails if the history's `error` comes from a double that does not fit."""
    cause: BaseException | None = error
    while cause is not None:
        assert not isinstance(cause, _MISFITS), f"the mistake itself is broken: {cause!r}"
        cause = cause.__cause__
