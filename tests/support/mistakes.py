"""A mistake that is made on purpose must be found by what it does, not by a double that does not fit any more."""

_MISFITS = (TypeError, AttributeError, NameError)


def found_by_its_effect(error: BaseException) -> None:
    """`error`: what the history failed with."""
    cause: BaseException | None = error
    while cause is not None:
        assert not isinstance(cause, _MISFITS), f"the mistake itself is broken: {cause!r}"
        cause = cause.__cause__
