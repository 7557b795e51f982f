"""Files that a processing job looks for and does not find, and results that it writes elsewhere."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, Place, Processing
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_error, quoted
from sagelet_engine.doctor.rules.processing_programs import listed

_ABSENT = re.compile(r"^(FileNotFoundError|NotADirectoryError)\b|\b[Cc]annot save file into a non-existent directory\b")
_PATH = re.compile(r"['\"](?P<path>/opt/ml/[^'\"]+)['\"]")
#: Below it are inputs and outputs; /opt/ml/config and /opt/ml/output are there, too.
_ROOT = "/opt/ml/processing/"
_THERE = (_ROOT, "/opt/ml/config/", "/opt/ml/output/")


def missing_input(case: Case) -> Iterator[Seen]:
    error, job = last_error(case), case.processing
    found = _PATH.search(error) if error and _ABSENT.search(error) else None
    if error is None or job is None or found is None:
        return
    text, instead = _explained(found["path"], job)
    place = failed_at(case)
    yield Seen(Severity.ERROR, f"{text}: {quoted(error)}{case.sources.quoted(place)}", place, instead=instead)


def _explained(path: str, job: Processing) -> tuple[str, str | None]:
    """Returns what happened, and what to do if the rule's own words are too general."""
    if not path.startswith(_THERE):
        return "The script uses a path of training jobs, which a processing job does not have", None
    given = next((one for one in job.inputs if one.holds(path)), None)
    if given is not None:
        return f"The input {given.name} does not have this file", _input_has(given)
    made = next((one for one in job.outputs if one.holds(path)), None)
    if made is not None and path.rpartition("/")[0] != made.path:
        return f"The directory does not exist in the output {made.name}", _MAKE
    if made is not None:
        return f"The output {made.name} does not have this file", _EMPTY
    names = [f"{one.name} at {one.path}" for one in (*job.inputs, *job.outputs)]
    has = f"; the job has {', '.join(names)}" if names else "; the job has neither"
    return f"No input or output has this LocalPath{has}", _LOCAL_PATH


def _input_has(given: Place) -> str:
    names = tuple(path.removeprefix(f"{given.path}/") for path in given.files)
    brought = f"The input brought {listed(names)}. " if names else ""
    return (
        f"{brought}List the objects below its S3Uri: an input has what is below the prefix, without the prefix itself. "
        "With ShardedByS3Key each host has only a part of them."
    )


_MAKE = (
    "Make it first: `os.makedirs(directory, exist_ok=True)`. Only an output's LocalPath itself is there at the start."
)
_EMPTY = (
    "An output's directory is empty when the job starts. Read what another job wrote by an entry of ProcessingInputs."
)
_LOCAL_PATH = (
    "To read there, give an entry of ProcessingInputs this LocalPath (`destination` of ProcessingInput). To write "
    "there, give it to an output (`source` of ProcessingOutput), or make the "
    "directory with `os.makedirs` for what is in passing."
)


def missing_file(case: Case) -> Iterator[Seen]:
    error = last_error(case)
    if error is not None and _ABSENT.search(error) and not _PATH.search(error):
        place = failed_at(case)
        text = f"The script looked for what is not there: {quoted(error)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place)


def nothing_written(case: Case) -> Iterator[Seen]:
    job = case.processing
    if job is None or not job.down or case.progress.status != "Completed":
        return
    for one in job.outputs:
        if not one.files:
            text = f"The job completed without a file in {one.path}, the LocalPath of the output {one.name}"
            other = f"; it wrote {listed(job.elsewhere)}, which no output uploads" if job.elsewhere else ""
            yield Seen(Severity.WARNING, text + other)


MISSING_INPUT = Rule(
    name="missing-input",
    why="A processing job has each input at its LocalPath, and an empty directory at the LocalPath of each output. It "
    "has no other directory below /opt/ml but config and output.",
    instead="Bring the data by an entry of ProcessingInputs with a LocalPath such as /opt/ml/processing/input/NAME, "
    "and read it there.",
    section=Section.PROCESSING,
    check=missing_input,
    last_resort=True,
)
MISSING_FILE = Rule(
    name="missing-file",
    why="A relative path starts in the image's working directory. Nothing of your machine is in a job but its inputs.",
    instead="Bring the file by an entry of ProcessingInputs, and read it at that LocalPath. Small files may be beside "
    "the script, in the source_dir of a FrameworkProcessor.",
    section=Section.PROCESSING,
    check=missing_file,
    last_resort=True,
)
NOTHING_WRITTEN = Rule(
    name="nothing-written",
    why="When the job ends, the files below the LocalPath of each output go to its S3Uri. What a script writes "
    "elsewhere is lost.",
    instead="Write the results to the LocalPath of the output, or name as its LocalPath (`source` of ProcessingOutput) "
    "the directory that the script writes.",
    section=Section.PROCESSING,
    check=nothing_written,
)
