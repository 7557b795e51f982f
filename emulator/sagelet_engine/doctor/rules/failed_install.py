"""A job whose packages could not be installed, or that cannot load torch_xla afterwards."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_match, quoted
from sagelet_engine.doctor.rules.missing_package import SDK

#: Errors of AWS's toolkit, of SDK v3's driver or of a script that ran pip itself, and of `@step` and `@remote`.
REPORTED = (
    r"\bInstall(Requirements|Module)Error\b",
    r"^subprocess\.CalledProcessError: Command .*\bpip[\d.]*\b\W+install\b",
    r"\bRuntimeEnvironmentError: Encountered error while running command .*\bpip[\d.]* install\b",
)
#: images/runtime, requirements/held_packages.py.
BROKEN = r"was installed, and torch_xla cannot be used after it"
ERROR = r"^(ERROR|error): (?!ResolutionImpossible|Exception:|subprocess-exited-with-error)"
#: What the toolkit shows if pip itself prints no error: it was killed, or git failed.
MESSAGE = r'^ErrorMessage "(?!"$)'
#: Not a constraint of the job's own. pip indents by four. An ErrorMessage, which repeats these words of pip with the
#: remedy after them, indents by one.
CONSTRAINED = r"^\s{2,}The user requested \(constraint\) torch([-_.]?xla|vision|audio)?(?![-_.]?\w)"
ASKED = r"^\s{2,}(The user requested [^(\s]|\S+ \S+ depends on )"
UNREACHED = (r"\bRetrying \(Retry\(", r"\bCould not fetch URL\b", r"\b(NewConnectionError|NameResolutionError)\b")
#: The runtime's question (images/runtime, requirements/near_names.py).
MEANT = re.compile(r"\bDid you mean (?P<name>[\w.-]*\w)\? requirements\.txt says (?P<wrong>[\w.-]*\w)")
#: pip finds nothing that fits this Python, or cannot build it. `from versions: none` does not say that: nothing of that
#: name may be there.
UNFIT = (
    r"\(from versions: (?!none\))",
    r"\brequires? a different [Pp]ython\b",
    r"\b[Ff]ailed (building wheel|to build)\b",
    r"\bCould not build wheels\b",
    r"\bmetadata-generation-failed\b",
)
EXACT = "SAGELET_PINS=exact in the job's Environment"
KEPT = (
    "Ask for a version that fits the installed torch, or leave it out of requirements.txt and let pip choose. "
    f"{EXACT} installs what the file says: for a native job."
)
THEN = (
    "Ask for a version that has a build for this Python; pip's line says which there are. Pins of 2021 to 2023 "
    "install in an image of their day: `sagelet image build --variant py39`, `sagelet docs images-of-their-day`. In "
    "the process runtime install sagelet into Python 3.10."
)
INVALID = (r"\bInvalid requirement\b", r"\bCould not open requirements file\b", r"\bInvalid URL\b")
SPELLING = (
    "Correct the line of requirements.txt that pip names: `pip install -r requirements.txt --dry-run` tries it without "
    "a job."
)
HASHES = (r"\bDO NOT MATCH THE HASHES\b", r"\bHashes are required in --require-hashes mode\b")
HASH = (
    "Look where the file that pip names comes from, and put its hash into requirements.txt. Once one package there has "
    "a hash, all need one, also those that they require."
)
#: The SDK makes its jobs ask for its own release.
NO_SDK = r"\bNo matching distribution found for sagemaker(-core)?\b(?!-)"
#: Any version is accepted.
UNKNOWN = r"\bNo matching distribution found\b"
NAME = (
    "Look at the spelling: the package index has no package of that name for this Python. PIP_INDEX_URL (of the "
    "server, or in the job's Environment) names another index."
)
NETWORK = (
    "Let the job reach a package index: PIP_INDEX_URL (of the server, or in the job's Environment) names another one. "
    "A job with EnableNetworkIsolation reaches none: put wheels into the source directory, and `--no-index` and "
    "`--find-links .` into requirements.txt."
)


def check(case: Case) -> Iterator[Seen]:
    broken = last_match(case, (BROKEN,))
    if broken is not None:
        instead = f"{KEPT} A compiled job does without {EXACT}."
        yield Seen(Severity.ERROR, f"The installation changed torch: {quoted(broken)}", instead=instead)
        return
    reported = last_match(case, REPORTED)
    if reported is not None:
        line = re.sub(f"{ERROR}|{MESSAGE}", "", last_match(case, (ERROR,)) or last_match(case, (MESSAGE,)) or reported)
        text = f"The installation of packages failed: {quoted(line)}{_collision(case)}"
        yield Seen(Severity.ERROR, text, failed_at(case), instead=remedy(case))


def _collision(case: Case) -> str:
    """Returns what asked for something other than the constraint that pip was given."""
    kept, asked = last_match(case, (CONSTRAINED,)), last_match(case, (ASKED,))
    if kept is None:
        return ""
    return f"; {asked or 'a requirement'} collides with {kept.split()[-1]}, which sagelet keeps"


def remedy(case: Case) -> str | None:
    """Returns what to do, by pip's words. None if they say nothing of it."""
    if last_match(case, (CONSTRAINED,)) is not None:
        return KEPT
    if last_match(case, UNREACHED) is not None:
        return NETWORK
    if last_match(case, INVALID) is not None:
        return SPELLING
    if last_match(case, HASHES) is not None:
        return HASH
    if last_match(case, (NO_SDK,)) is not None:
        return SDK
    if (line := last_match(case, (MEANT.pattern,))) and (meant := MEANT.search(line)):
        return (
            f"Correct the name in requirements.txt: probably `{meant['name']}` in place of `{meant['wrong']}`. Do not "
            "ask for another version of a name that you did not mean: an index may have such packages of other people."
        )
    if last_match(case, UNFIT) is not None:
        return THEN
    return NAME if last_match(case, (UNKNOWN,)) is not None else None


RULE = Rule(
    name="failed-install",
    why="A job starts its script after all of requirements.txt is installed. Old packages have no builds for the "
    "current Python. torch_xla works with one version of torch only, so sagelet makes pip keep that version.",
    instead="Install the same requirements by hand, in the image, and pin what works (`sagelet docs packages`).",
    section=Section.LIBRARIES,
    check=check,
)
