"""A TOML file of rules: which partition, account and QOS a job gets by its role, its tags and its instance type.

    [default]
    partition = "cpu"

    [[rule]]
    role = "arn:aws:iam::*:role/nlp-*"
    tags = { project = "gpt*" }
    instance-type = "ml.p*"
    partition = "gpu"
    account = "nlp"
    qos = "high"
    constraint = "a100"
    gres = "gpu:a100:4"
    memory = "200G"
    cpus = "32"
    options = ["--exclude=old[1-4]"]

The first rule applies whose patterns all match (as in a shell, case-sensitive). Members that it leaves out come from
the default. Slurm decides what neither of them sets. A rule with `refuse` fails the job with that text.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from sagelet_engine.base.errors import ClientFault, SettingsError
from sagelet_engine.base.wire import JsonObject

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PATTERNS = ("role", "instance-type")
_REFUSE = "refuse"
_OPTIONS = "options"
#: Characters of Slurm's names and feature expressions, without any that end a shell's word or a line.
_VALUE = re.compile(r"[\w.,:&|*!@+=()\[\]-]+", re.ASCII)
#: A further option of sbatch: one word. Options that a rule or the runtime sets are refused.
_OPTION = re.compile(r"--[a-z][a-z-]*(=[\w.,:&|*!@+=()\[\]/%-]+)?", re.ASCII)
_HEADER = re.compile(r"^\s*\[\[\s*rule\s*\]\]", re.MULTILINE)
#: sbatch's options for the members of a rule.
_PLACES = {
    "partition": "partition",
    "account": "account",
    "qos": "qos",
    "constraint": "constraint",
    "reservation": "reservation",
    "gres": "gres",
    "memory": "mem",
    "cpus": "cpus-per-task",
}
#: Options that only the runtime may set.
_RUNTIMES_OWN = frozenset(
    (
        "array",
        "begin",
        "chdir",
        "comment",
        "dependency",
        "export",
        "hold",
        "job-name",
        "kill-on-invalid-dep",
        "no-requeue",
    )
) | {
    "nodes",
    "ntasks",
    "ntasks-per-node",
    "open-mode",
    "output",
    "error",
    "input",
    "requeue",
    "signal",
    "time",
    "wait",
    "wrap",
}


@dataclass(frozen=True)
class Placement:
    """What a rule asks of sbatch. The runtime takes the rest from the instance type, or leaves it to Slurm."""

    #: By the file's names: partition, account, qos, constraint, reservation, gres, memory, cpus.
    places: Mapping[str, str] = field(default_factory=dict)
    #: Further options of sbatch, passed unchanged.
    extra: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        """Returns the options for sbatch's command line."""
        return [*(f"--{_PLACES[key]}={self.places[key]}" for key in _PLACES if key in self.places), *self.extra]

    def over(self, default: "Placement") -> "Placement":
        return Placement({**default.places, **self.places}, self.extra or default.extra)


@dataclass(frozen=True)
class Rule:
    placement: Placement
    #: Patterns, or None for any.
    role: str | None = None
    instance_type: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    #: Why no job that matches may run, or None if it may.
    refuse: str | None = None

    def fits(self, role: str, tags: Mapping[str, str], instance_types: Sequence[str]) -> bool:
        """True if all patterns match. For several instance types, one that matches is enough."""
        return (
            (self.role is None or fnmatchcase(role, self.role))
            and (self.instance_type is None or any(fnmatchcase(one, self.instance_type) for one in instance_types))
            and all(key in tags and fnmatchcase(tags[key], pattern) for key, pattern in self.tags.items())
        )


@dataclass(frozen=True)
class SlurmRules:
    """The rules of a file. Without a file everything is left to Slurm."""

    rules: tuple[Rule, ...] = ()
    default: Placement = Placement()

    def placement(self, role: str, tags: Mapping[str, str], instance_types: Sequence[str]) -> Placement:
        """Returns the placement of a job. Raises ClientFault with the text of a rule that refuses it."""
        for rule in self.rules:
            if rule.fits(role, tags, instance_types):
                if rule.refuse is not None:
                    raise ClientFault(rule.refuse)
                return rule.placement.over(self.default)
        return self.default


def read_rules(path: Path) -> SlurmRules:
    """Reads the file. Raises SettingsError that names the file, and the line or rule that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"--slurm-rules {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"--slurm-rules {path}: {error}") from error
    try:
        return _rules_of(data, text)
    except ValueError as error:
        raise SettingsError(f"--slurm-rules {path}: {error}") from None


def _rules_of(data: JsonObject, text: str) -> SlurmRules:
    _only(data, ("default", "rule"), "the file")
    default, rules = data.get("default", {}), data.get("rule", [])
    if not isinstance(default, dict) or not isinstance(rules, list) or not all(isinstance(one, dict) for one in rules):
        raise ValueError("write one [default] and a [[rule]] for each rule")
    _only(default, (*_PLACES, _OPTIONS), "[default]")
    lines = [text.count("\n", 0, header.end()) + 1 for header in _HEADER.finditer(text)]
    named = [
        # A header inside a multi-line text would shift the line numbers. Then only the rule's number is given.
        f"rule {number} (line {lines[number - 1]})" if len(lines) == len(rules) else f"rule {number}"
        for number in range(1, len(rules) + 1)
    ]
    return SlurmRules(
        tuple(_rule(one, name) for one, name in zip(rules, named, strict=True)), _placement(default, "[default]")
    )


def _rule(data: JsonObject, name: str) -> Rule:
    _only(data, (*_PATTERNS, "tags", _REFUSE, *_PLACES, _OPTIONS), name)
    for key in (*_PATTERNS, _REFUSE):
        if key in data and not (isinstance(data[key], str) and data[key]):
            raise ValueError(f"{name}: {key} must be a text that is not empty")
    tags = data.get("tags", {})
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise ValueError(f'{name}: tags must be a table of texts: tags = {{ project = "nlp" }}')
    placement = _placement(data, name)
    if (_REFUSE in data) == bool(placement.options):
        raise ValueError(f"{name}: give it one or more of {', '.join(_PLACES)}, options, or else refuse")
    return Rule(placement, data.get("role"), data.get("instance-type"), tags, data.get(_REFUSE))


def _placement(data: JsonObject, name: str) -> Placement:
    found = {key: data[key] for key in _PLACES if key in data}
    for key, value in found.items():
        if not isinstance(value, str) or _VALUE.fullmatch(value) is None:
            raise ValueError(f"{name}: {key} = {value!r} is not a value that Slurm accepts")
    extra = data.get(_OPTIONS, [])
    if not isinstance(extra, list):
        raise ValueError(f'{name}: options must be a list of texts: options = ["--exclude=n1"]')
    for option in extra:
        if not isinstance(option, str) or _OPTION.fullmatch(option) is None:
            raise ValueError(f"{name}: {option!r} is not an option of sbatch of the form --name or --name=value")
        word = option[2:].partition("=")[0]
        if word in _RUNTIMES_OWN or word in _PLACES.values():
            raise ValueError(f"{name}: --{word} cannot be given as an option")
    return Placement(found, tuple(extra))


def _only(data: JsonObject, known: Sequence[str], name: str) -> None:
    unknown = sorted(data.keys() - set(known))
    if unknown:
        raise ValueError(f"{name}: unknown key {unknown[0]!r}; known are {', '.join(known)}")
