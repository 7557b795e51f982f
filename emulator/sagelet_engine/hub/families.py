"""The families of which a small random model can be made, and which models belong to them by their names."""

NAMES = ("gpt2", "bert", "distilbert", "roberta", "t5")
#: Beginnings of models' names, and their families. The first that fits counts.
_BEGINNINGS = (("distilgpt2", "gpt2"), ("distilroberta", "roberta"), *((name, name) for name in NAMES))


def model_name(repository: str) -> str:
    """Returns the repository's name without its organisation, in small letters."""
    return repository.rpartition("/")[2].lower()


def family_of(repository: str) -> str:
    """Returns the family that a repository's name says. Empty if it says none."""
    name = model_name(repository)
    return next((family for beginning, family in _BEGINNINGS if name.startswith(beginning)), "")


def command(repository: str) -> str:
    """Returns the command that makes the model. Where the name says no family, the user has to name one."""
    like = "" if family_of(repository) else " --like FAMILY"
    return f"sagelet hub make-tiny {repository}{like}"
