"""A processing job whose program could not be started, or whose packages could not be installed."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, Place, Processing
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules import failed_install
from sagelet_engine.doctor.rules.failures import last_error, last_match, quoted

_PYTHON = re.compile(r"can't open file '(?P<file>[^']+)': \[Errno 2\]")
_SHELL = re.compile(r"^\S*sh: (\d+: )?(cannot open )?(?P<file>/\S+): No such file( or directory)?$")
_COMMAND = re.compile(r": command not found$|^/bin/sh: \d+: \S+: not found$")
#: What a runtime says about a program that it could not start: in FailureReason.
_EXEC = re.compile(r"\bexec: ['\"](?P<file>[^'\"]+)['\"]: (?P<why>.+), exit code: \d+$", re.DOTALL)
#: Interpreters by the ends of names.
_INTERPRETERS = {".py": "python3", ".sh": "/bin/bash"}
#: pip warns with the same word about what it installs nevertheless.
_PIP = r"^ERROR: (?!pip's dependency resolver)(Could not find|No matching|Could not open|Invalid|Failed|Cannot install)"
#: Names of files that are listed.
LISTED = 5


def listed(files: tuple[str, ...]) -> str:
    more = f" and {len(files) - LISTED} more" if len(files) > LISTED else ""
    return f"{', '.join(files[:LISTED])}{more}"


def entry_point(case: Case) -> Iterator[Seen]:
    job = case.processing
    if job is None or not case.progress.failed:
        return
    started = _EXEC.search(case.progress.reason)
    file = started["file"] if started else _missing(case, job)
    if started and file and "/" not in file:
        yield Seen(Severity.ERROR, f"The image has no program {file}, with which the command begins", instead=_PROGRAM)
    elif started and file and re.search("permission denied", started["why"], re.IGNORECASE):
        yield Seen(Severity.ERROR, f"The program {file} is not executable", instead=_by_interpreter(file))
    elif file and any(file in place.files for place in job.inputs):
        yield Seen(Severity.ERROR, f"The program {file} could not be started, and an input brings it", instead=_LINES)
    elif file:
        text = f"The command starts {file}, and no input brings {file}{_brought(file, job)}"
        yield Seen(Severity.ERROR, text, instead=_named(file, job))
    elif (line := last_match(case, (_COMMAND.pattern,))) is not None:
        text = f"A shell script called a program that the job does not have: {quoted(line)}"
        yield Seen(Severity.ERROR, text, instead=_PROGRAM)


def _missing(case: Case, job: Processing) -> str | None:
    """Returns the script that Python or a shell did not find."""
    python = last_match(case, (_PYTHON.pattern,))
    if python is not None and (found := _PYTHON.search(python)):
        return found["file"]
    shell = last_match(case, (_SHELL.pattern,))
    found = _SHELL.search(shell) if shell else None
    # A shell says the same about programs that a script of the job calls.
    return found["file"] if found and found["file"] in job.command else None


def _brought(file: str, job: Processing) -> str:
    """Says which files there are where the script should be."""
    around: list[Place] = [one for one in job.inputs if one.holds(file)]
    around = around or [one for one in job.inputs if any(name.endswith((".py", ".sh")) for name in one.files)]
    return "".join(f"; the input {one.name} brings {listed(one.files)}" for one in around if one.files)


def _named(file: str, job: Processing) -> str | None:
    """Returns the place of a file of the same name, or what to do with the input that should have it."""
    name = file.rpartition("/")[2]
    alike = next((path for one in job.inputs for path in one.files if path.rpartition("/")[2] == name), None)
    if alike is not None:
        return f"Name it as it is: {alike}, in ContainerEntrypoint."
    holding = next((one for one in job.inputs if one.holds(file)), None)
    if holding is not None:
        return (
            f"Put the script below the S3Uri of the input {holding.name}, or name in ContainerEntrypoint a file that "
            "is there."
        )
    return None


def _by_interpreter(file: str) -> str:
    interpreter = next((one for end, one in _INTERPRETERS.items() if file.endswith(end)), "python3")
    return (
        f'Start it by its interpreter: ContainerEntrypoint is ["{interpreter}", "{file}"]. Objects of S3 have no mode, '
        "so no file of an input is executable."
    )


_PROGRAM = (
    "Correct the program's name: in ContainerEntrypoint, or in the shell script. Or take an image that has it; a "
    "package's program comes with a FrameworkProcessor's requirements.txt."
)
_LINES = (
    "Its first line (#!) names a program that does not exist, mostly because of a Windows line end: write the file "
    "with `\\n` alone. Or name the interpreter in ContainerEntrypoint, before the file."
)


def install(case: Case) -> Iterator[Seen]:
    line = last_match(case, (_PIP,))
    if line is not None and last_error(case) is None:
        text = f"The installation of packages failed: {quoted(line.removeprefix('ERROR: '))}"
        yield Seen(Severity.ERROR, text, instead=failed_install.remedy(case))


ENTRY_POINT = Rule(
    name="missing-entry-point",
    why="AWS runs ContainerEntrypoint and ContainerArguments in the container as they are written. The container has "
    "the image's files, and each input at its LocalPath.",
    instead="Bring the script by an input: an entry of ProcessingInputs whose S3Uri has it, and whose LocalPath is the "
    "script's directory in ContainerEntrypoint. `code` of a ScriptProcessor does both.",
    section=Section.PROCESSING,
    check=entry_point,
    last_resort=True,
)
INSTALL = Rule(
    name="failed-install",
    why="A FrameworkProcessor installs requirements.txt before it starts the script. Old packages have no builds for "
    "the current Python.",
    instead="Install the same requirements by hand, in the image, and pin what works (`sagelet docs packages`).",
    section=Section.LIBRARIES,
    check=install,
    last_resort=True,
)
