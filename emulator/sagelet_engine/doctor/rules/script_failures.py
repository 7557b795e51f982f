"""Rules for the end of a script: by its own error, its arguments, an exit code, or a signal."""

import re
import signal
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_error, last_match, quoted

#: Errors of argparse, and of transformers' parser based on it.
_REFUSED = (
    r"^[^\s:]+: error: (unrecognized arguments|ambiguous option|argument \S+?:|the following arguments are required)",
    r"^ValueError: Some specified arguments are not used by the HfArgumentParser",
)
_UNKNOWN = re.compile(r"error: unrecognized arguments: (?P<name>--[\w-]+)")
_REQUIRED = "the following arguments are required"
_FLAG = re.compile(r"error: unrecognized arguments: (True|False)$", re.IGNORECASE)
_VARIABLE = re.compile(r"^KeyError: '(?P<name>[A-Za-z]\w*)'$", re.ASCII)
#: Errors, and what to do.
_REMEDIES = (
    (
        r"^(SyntaxError|IndentationError|TabError)\b",
        "Correct the line. `python -m py_compile` on the file finds such an error without a job.",
    ),
    (
        r"^TypeError: .*got an unexpected keyword argument '",
        "Look up the argument's name: libraries rename arguments from one version to the next. A script of 2021 to "
        "2023 runs unchanged in an image of its day: `sagelet image build --variant py39`, "
        "`sagelet docs images-of-their-day`.",
    ),
    (
        r"^(KeyError: |ValueError: Usecols do not match columns)",
        "What the script reads has no such column or key: print what it has (`list(frame.columns)`, `list(row)`) "
        "before this line, and compare. Mind capitals, blanks, a byte order mark (encoding='utf-8-sig'), and a file "
        "without a line of names.",
    ),
    (
        r"\(most likely due to a circular import\)",
        "Two modules import each other: move one import into the function that needs it, or what both need into a "
        "third module. A file of yours with a library's name (torch.py) hides that library: rename it.",
    ),
    (
        r"^(ImportError|OSError): \S+\.so[\d.]*: cannot open shared object file",
        "The image lacks this library of the system, and pip cannot install it. Take a package that needs none "
        "(opencv-python-headless instead of opencv-python), or an image of your own that has it.",
    ),
    (
        r"^RuntimeError: Error\(s\) in loading state_dict for ",
        "The checkpoint is of another model; the log lists the keys and sizes that differ. Make the model with the "
        "hyperparameters of the job that saved it. Keys that begin with `module.` are of DistributedDataParallel: save "
        "model.module.state_dict().",
    ),
    (
        r"\benvironment variable (RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set",
        "Nothing has launched workers. Ask for a launcher: distribution={'torch_distributed': {'enabled': True}} of "
        "the estimator. Or call init_process_group only where WORLD_SIZE is in os.environ.",
    ),
)
_OF_TRAINING = (
    "A processing job has no variables SM_..., which training jobs have. Read the inputs at their LocalPath, options "
    "from ContainerArguments, and the names of the hosts from /opt/ml/config/resourceconfig.json."
)
#: Messages of AWS's toolkit, in its log and in FailureReason.
_CODE = re.compile(r"\bExitCode (?P<code>-?\d{1,9})\b")
#: Lines that AWS's toolkit and sagelet print before or after the script's own.
_NOT_THE_SCRIPTS = re.compile(
    r"sagemaker-training-toolkit|"
    r"^(sagelet\b|ExitCode |ErrorMessage |Command \"|Invoking script|[A-Z][A-Z0-9_]*=|/\S+ )"
)
#: What AWS's toolkit prints last before the script begins.
_BEGINS = "Invoking script with the following command"
_LARGEST_SIGNAL = 64
#: An exit code of a shell: 128 + the signal's number.
_SHELL = 128

_SIGNALS = {
    "SIGSEGV": "A native library crashed. Set PYTHONFAULTHANDLER=1 in the job's Environment: Python then prints the "
    "line of the script. Look first at packages of requirements.txt that were built for another torch or numpy.",
    "SIGABRT": "A native library gave up; its message is in the log. Set PYTHONFAULTHANDLER=1 in the job's "
    "Environment: Python then prints the line of the script.",
    "SIGILL": "A package was built for another processor. Ask in requirements.txt for a version that is built for "
    "this one.",
    "SIGBUS": "Shared memory or a mapped file was full or cut off. Give the DataLoader fewer workers, or look at the "
    "free space of the data directory's disk.",
    "SIGFPE": "A native library divided an integer by zero. Set PYTHONFAULTHANDLER=1 in the job's Environment: Python "
    "then prints the line of the script.",
    "SIGKILL": "Something killed the script; sagelet did not, and it knows of no full memory. Look for `kill -9`, a "
    "timeout, or a launcher that ended the other workers. If the machine's memory was full, its kernel's log says so "
    "(`dmesg`): then lower the batch size.",
    "SIGTERM": "Something in the job ended the script; sagelet sends SIGTERM only when a job is stopped. Look for "
    "`kill`, a timeout, or a launcher that ended the other workers.",
}
#: Messages of sagelet about one of several workers (workers/cause.py), and of torchrun.
_KILLED_WORKER = (r"\bworker \d+\b.* was killed by SIGKILL\b", r"\bSignal 9 \(SIGKILL\) received by PID\b")
#: The failure file of AWS's toolkit, and sagelet's text in FailureReason if there is no such file.
_TOOLKITS = re.compile(r"\w+Error:\s*\nExitCode |Framework Error: |OutOfMemory: ")
#: What an engine says about a container whose program it could not start.
_NOT_STARTED = re.compile(r"(?<=unable to start container process: )exec: \"(?P<file>[^\"]+)\": .+")
_PROGRAM = (
    "Give the image an executable program `train` on its PATH, or an ENTRYPOINT: a training job runs the image as "
    "`docker run IMAGE train`. Or name another program: ContainerEntrypoint in AlgorithmSpecification."
)
_TOLD = "Correct what the reason names. `sagelet logs` shows what the job printed before."
_ANY_SIGNAL = "Look in the log for what sent it: a timeout, a launcher, or a native library."


def arguments(case: Case) -> Iterator[Seen]:
    line = last_match(case, _REFUSED)
    if line is not None:
        remedy = _argument(line) if case.processing is None else _processing_argument(line)
        yield Seen(Severity.ERROR, f"The script refused its arguments: {quoted(line)}", instead=remedy)


def _processing_argument(line: str) -> str | None:
    if _FLAG.search(line):
        return "A flag of action='store_true' takes no value: leave the value out of ContainerArguments."
    unknown = _UNKNOWN.search(line)
    if unknown:
        return (
            f"Declare it in the script (`parser.add_argument('{unknown['name']}')`), or take it out of "
            "ContainerArguments (`arguments` of the processor's run)."
        )
    if _REQUIRED in line:
        return (
            "Pass it in ContainerArguments (`arguments` of the processor's run), name and value as two texts. Or give "
            "the argument a default."
        )
    return None


def _argument(line: str) -> str | None:
    if _FLAG.search(line):
        return (
            "A flag of action='store_true' takes no value, and each hyperparameter has one. Declare it with "
            "type=lambda text: text.lower() == 'true'."
        )
    unknown = _UNKNOWN.search(line)
    if unknown:
        return (
            f"Declare it in the script (`parser.add_argument('{unknown['name']}')`), take it out of HyperParameters, "
            "or read with parser.parse_known_args(), which leaves unknown arguments alone."
        )
    if _REQUIRED in line:
        return (
            "Pass it as a hyperparameter, or give the argument a default: a directory of data is "
            "os.environ['SM_CHANNEL_TRAINING'] for the channel `training`."
        )
    return None


def error(case: Case) -> Iterator[Seen]:
    line = last_error(case)
    if line is not None:
        place = failed_at(case)
        text = f"The script ended with an error: {quoted(line)}{case.sources.quoted(place)}"
        yield Seen(Severity.ERROR, text, place, instead=_error(case, line, case.sources.quoted(place)))


def _error(case: Case, line: str, source: str) -> str | None:
    """`source`: the script's line."""
    variable = _VARIABLE.match(line)
    if variable and "environ" in source:
        if case.processing is not None:
            return _OF_TRAINING if variable["name"].startswith("SM_") else _processing_variable(variable["name"])
        return (
            f"Give the job the variable {variable['name']}: Environment of CreateTrainingJob, `environment` of the "
            "estimator, `sagelet submit --env`. Variables of your own shell reach no job."
        )
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, line)), None)


def _processing_variable(name: str) -> str:
    return (
        f"Give the job the variable {name}: Environment of CreateProcessingJob, `env` of the processor. Variables of "
        "your own shell reach no job."
    )


def ended(case: Case) -> Iterator[Seen]:
    """Reports the end of a script that printed no error: its own failure file, an exit code, or a signal."""
    if case.progress.failed and (worker := last_match(case, _KILLED_WORKER)):
        text = f"A worker was ended by the signal SIGKILL ({quoted(worker)})"
        yield Seen(Severity.ERROR, text, instead=_SIGNALS["SIGKILL"])
        return
    code = _exit_code(case)
    if code is None:
        return
    reason = _own_reason(case)
    message = case.processing.message.strip().partition("\n")[0] if case.processing else ""
    if program := _NOT_STARTED.search(reason):
        text = f"The program {program['file']} of the container could not be started: {quoted(program[0])}"
        yield Seen(Severity.ERROR, text, instead=_PROGRAM)
        return
    if reason:
        yield Seen(Severity.ERROR, f"The job gave its reason: {quoted(reason)}", instead=_TOLD)
        return
    name = _signal(code)
    said = f"; its last line was {quoted(last)}" if (last := _last_words(case)) else ""
    said = f"; its exit message is {quoted(message)}" if message else said
    if name is not None:
        text = f"The script was ended by the signal {name}{said}"
        yield Seen(Severity.ERROR, text, instead=_SIGNALS.get(name, _ANY_SIGNAL))
    elif message:
        text = f"The script ended with exit code {code}{said}"
        yield Seen(
            Severity.ERROR, text, instead="Correct what the exit message names. The log has what came before it."
        )
    else:
        yield Seen(Severity.ERROR, f"The script ended with exit code {code} and without a traceback{said}")


def _own_reason(case: Case) -> str:
    """Returns the first line of a failure file that the container wrote itself. Empty if AWS's toolkit wrote it, or if
    there is none.
    """
    if case.processing is not None:
        return ""
    text = case.progress.reason.removeprefix("AlgorithmError: ").rpartition(", exit code: ")[0].strip()
    return "" if _TOOLKITS.match(text) else text.partition("\n")[0]


def _exit_code(case: Case) -> int | None:
    """Returns the script's own exit code, or the host's if no toolkit reports the script's."""
    if not case.progress.failed or not case.progress.reason.startswith("AlgorithmError"):
        return None
    told = _CODE.search(case.progress.reason) or _CODE.search(last_match(case, (_CODE.pattern,)) or "")
    return int(told["code"]) if told else case.progress.exit_code


def _signal(code: int) -> str | None:
    number = -code if code < 0 else code - _SHELL
    if not 0 < number <= _LARGEST_SIGNAL:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"number {number}"


def _last_words(case: Case) -> str | None:
    """Returns the script's last line. None if it printed nothing."""
    lines = [line.strip() for line in case.progress.last_lines]
    # Before the command the toolkit prints its own lines, of many forms.
    begun = max((number for number, line in enumerate(lines) if line.startswith(_BEGINS)), default=-1)
    own = reversed(lines[begun + 1 :])
    return next((line for line in own if line and not _NOT_THE_SCRIPTS.search(line)), None)


ARGUMENTS = Rule(
    name="refused-arguments",
    why="Each hyperparameter reaches the script as `--name value`, and as text. A script that declares its arguments "
    "with argparse ends with exit code 2 if one is unknown, missing, or of another type.",
    instead="Make HyperParameters and add_argument agree: the same name, and a value that the argument's type can "
    "read.",
    section=Section.RUNNING,
    check=arguments,
    last_resort=True,
)
ERROR = Rule(
    name="script-error",
    why="A script that raises an error ends with exit code 1, and its job fails. FailureReason has the first 1,024 "
    "characters of what AWS's toolkit collects; the log has all of it.",
    instead="Correct the script at this place. `sagelet logs` shows the whole traceback, and a debugger can wait there "
    "(`sagelet docs debug`).",
    section=Section.DESCRIBE,
    check=error,
    last_resort=True,
)
ENDED = Rule(
    name="script-exit",
    why="Any exit code but 0 fails the job. FailureReason says why only if the script raised an error, or if the job "
    "wrote its reason to /opt/ml/output/failure.",
    instead="Raise an exception instead of calling sys.exit: its traceback becomes the FailureReason. Or write the "
    "reason to /opt/ml/output/failure.",
    section=Section.OUTPUT,
    check=ended,
    last_resort=True,
)
