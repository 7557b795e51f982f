"""Files that a job looks for and does not find, or may not write."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_error, last_match, quoted

_CODE = "/opt/ml/code/"
_PYTHON = re.compile(rf"can't open file '{_CODE}(?P<file>[^']+)': \[Errno 2\]")
_STARTED = re.compile(rf"^FileNotFoundError: \[Errno 2\] No such file or directory: '{_CODE}(?P<file>[^']+)'$")
_SHELL = re.compile(r"^/bin/sh: \d+: (\./)?(?P<file>\S+): not found$")
_COMMAND = re.compile(r"(?P<command>\S+): command not found$")
#: AWS's toolkit.
_UNNAMED = "training entry point name is empty"
_ARCHIVE = (
    r"^tarfile\.(ReadError|CompressionError|EOFHeaderError|InvalidHeaderError)\b",
    r"^(gzip\.BadGzipFile|EOFError|zlib\.error)\b",
    r"^botocore\.exceptions\.ClientError: An error occurred \((403|404)\) when calling the HeadObject operation",
)
#: The toolkit's frame that fetches the archive of the scripts.
_FETCH = r"\bsagemaker_training/files\.py\b.*\bin (download_and_extract|s3_download)\b"
_CHANNEL = re.compile(r"/opt/ml/input/data/(?P<path>[\w.-]+)|^KeyError: 'SM_CHANNEL_(?P<variable>\w+)'")
_ABSENT = re.compile(r"^(FileNotFoundError|NotADirectoryError)\b")
_FULL = (r"^(OSError|IOError): \[Errno (28|122)\]", r"\bNo space left on device\b", r"\bDisk quota exceeded\b")
_FORBIDDEN = (r"^(OSError: \[Errno 30\]|PermissionError: \[Errno (1|13)\])", r": Read-only file system\b")
#: `evaluate`, of a module that neither the source directory nor the hub has: not_in_the_hub.
_OF_THE_HUB = "Couldn't find a module script at"
#: Names of files that are listed.
_LISTED = 5


def entry_point(case: Case) -> Iterator[Seen]:
    if case.progress.failed and _UNNAMED in case.progress.reason:
        yield Seen(
            Severity.ERROR,
            "The job does not say which script to run",
            instead="Set `entry_point` of the estimator, or the hyperparameter `sagemaker_program`, to the script's "
            "path in the source directory. An image of your own needs ContainerEntrypoint instead.",
        )
        return
    line = last_match(case, (_PYTHON.pattern,))
    found = (_PYTHON.search(line) if line else None) or _unstarted(case)
    if found:
        text = f"The archive of the scripts has no {found['file']}{_instead_has(case)}"
        yield Seen(Severity.ERROR, text, instead=_named(case, found["file"]))
        return
    line = last_match(case, (_SHELL.pattern, _COMMAND.pattern))
    if line is not None and _COMMAND.search(line):
        text, instead = f"A shell script called a program that the job does not have: {quoted(line)}", _PROGRAM
        yield Seen(Severity.ERROR, text, instead=instead)
    elif line is not None:
        yield Seen(Severity.ERROR, f"The shell could not start the script: {quoted(line)}", instead=_SCRIPT)


def _unstarted(case: Case) -> re.Match[str] | None:
    """Finds the script that AWS's toolkit could not start: a name without .py or .sh is to be a program."""
    is_toolkits = case.progress.reason.startswith("AlgorithmError: Framework Error") and failed_at(case) is None
    return _STARTED.search(last_error(case) or "") if is_toolkits else None


_PROGRAM = (
    "Correct the program's name, or put the package that brings it into the requirements.txt of the source directory; "
    "`sagelet docs reference/packages` says what the image has."
)
_SCRIPT = (
    "Look whether the archive has the file at this path. If it has, its first line (#!) names a program that does "
    "not exist, mostly because of a Windows line end: write the file with `\\n` alone."
)


def _instead_has(case: Case) -> str:
    names = list(case.sources.paths)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"; it has {', '.join(names[:_LISTED])}{more}" if names else "; it has no Python file"


def _named(case: Case, wanted: str) -> str | None:
    """Returns a file of the same name in another directory, or with .py."""
    name = wanted.rpartition("/")[2]
    alike = [path for path in case.sources.paths if path.rpartition("/")[2] in (name, f"{name}.py")]
    if not alike:
        return None
    return f"Name it as it is in the source directory: {alike[0]}."


def archive(case: Case) -> Iterator[Seen]:
    error = last_error(case)
    if error is None or last_match(case, (_FETCH,)) is None or failed_at(case) is not None:
        return
    if any(re.search(one, error) for one in _ARCHIVE):
        yield Seen(Severity.ERROR, f"The archive of the scripts could not be fetched or unpacked: {quoted(error)}")


def missing_input(case: Case) -> Iterator[Seen]:
    error = last_error(case)
    found = _CHANNEL.search(error) if error else None
    if error is None or not found or not (_ABSENT.match(error) or found["variable"]):
        return
    name = found["path"] or found["variable"].lower()
    has = f"the job has {', '.join(case.setup.channels)}" if case.setup.channels else "the job has no channel"
    known = name.lower() in (channel.lower() for channel in case.setup.channels)
    place = failed_at(case)
    if known and found["variable"]:
        right = f"SM_CHANNEL_{name.upper()}"
        text = f"The variable of the channel {name} is {right}: {quoted(error)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place, instead=f"Read os.environ['{right}']: its name is in capitals.")
    elif known:
        text = f"The channel {name} does not have this file: {quoted(error)}{case.sources.quoted(place)}"
        instead = (
            "List the objects below the channel's S3Uri: a channel has what is below its prefix, without the prefix "
            "itself. With ShardedByS3Key each host has only a part of them."
        )
        yield Seen(Severity.ERROR, text, place, instead=instead)
    else:
        text = f"The script reads the channel {name}, and {has}: {quoted(error)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place)


def missing_file(case: Case) -> Iterator[Seen]:
    error = last_error(case)
    if (
        error is not None
        and _unstarted(case) is None
        and _ABSENT.match(error)
        and not _CHANNEL.search(error)
        and _OF_THE_HUB not in error
    ):
        place = failed_at(case)
        text = f"The script looked for what is not there: {quoted(error)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place)


def unwritable(case: Case) -> Iterator[Seen]:
    full, forbidden = last_match(case, _FULL), last_match(case, _FORBIDDEN)
    place = failed_at(case)
    if full is not None:
        instead = (
            "Make room on the disk of the data directory (`sagelet gc` removes files of ended jobs), or write less. "
            "/opt/ml and /tmp of a job are on that disk."
        )
        text = f"The disk was full: {quoted(full)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place, instead=instead)
    elif forbidden is not None:
        text = f"The script may not write there: {quoted(forbidden)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place)


ENTRY_POINT = Rule(
    name="missing-entry-point",
    why="AWS's toolkit unpacks the archive of the source directory into /opt/ml/code and starts the script that "
    "sagemaker_program names there.",
    instead="Put the script into the source directory, and name it as `entry_point`, relative to that directory.",
    section=Section.RUNNING,
    check=entry_point,
    last_resort=True,
)
ARCHIVE = Rule(
    name="source-archive",
    why="The hyperparameter sagemaker_submit_directory names an object in S3: a .tar.gz with the scripts at its root.",
    instead="Upload the archive again, to the URI that sagemaker_submit_directory names: "
    "`tar -czf sourcedir.tar.gz -C DIRECTORY .` makes one. The SDK makes and uploads it by itself.",
    section=Section.LIBRARIES,
    check=archive,
    last_resort=True,
)
MISSING_INPUT = Rule(
    name="missing-input",
    why="A channel NAME of InputDataConfig is the directory /opt/ml/input/data/NAME, and the variable SM_CHANNEL_NAME, "
    "in capitals, has that path. A job has the channels of its request and no others.",
    instead="Name the channel as the script does: `estimator.fit({'NAME': URI})`, ChannelName in InputDataConfig.",
    section=Section.STORAGE,
    check=missing_input,
    last_resort=True,
)
MISSING_FILE = Rule(
    name="missing-file",
    why="A relative path starts in /opt/ml/code, where the source directory is. Nothing else of your machine is in a "
    "job.",
    instead="Put small files into the source directory, and read data from a channel "
    "(os.environ['SM_CHANNEL_TRAINING']).",
    section=Section.STORAGE,
    check=missing_file,
    last_resort=True,
)
UNWRITABLE = Rule(
    name="not-writable",
    why="What a job may write is /opt/ml, /tmp and its home directory. The rest of a container is read-only here; on "
    "AWS it is lost when the job ends.",
    instead="Write the model to os.environ['SM_MODEL_DIR'], other results to os.environ['SM_OUTPUT_DATA_DIR'], and "
    "what is in passing to /tmp (`sagelet docs containers`).",
    section=Section.STORAGE,
    check=unwritable,
    last_resort=True,
)
