"""sagelet's own lines in the log of a job."""

_said: set[str] = set()


def say(text: str) -> None:
    """One line on stdout, at once. Begins with `sagelet:` so that nobody takes it for AWS's or the script's."""
    print(f"sagelet: {text}", flush=True)


def say_once(text: str) -> None:
    """`say`, the first time this process has this to say."""
    if text not in _said:
        _said.add(text)
        say(text)
