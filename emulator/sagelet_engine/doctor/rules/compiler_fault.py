"""Faults of the compiler and of its runtime."""

import re
from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules import device_mixing, out_of_memory, unreadable_checkpoint
from sagelet_engine.doctor.rules.failures import failed_at, last_match, quoted
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources

#: In the failure of a compiled job whose traceback leads into torch_xla. Other patterns say what failed.
MARK = r"SMTrainingCompiler Error"
ERROR = r"^(?!ExecuteUserScriptError)[\w.]*(Error|Exception)\b: \S"
FLAGS = (
    r"Unknown flags? in XLA_FLAGS",
    r"Couldn't interpret value .* for flag xla_",
    r'Could not open file .* environment variable "XLA_FLAGS"',
)
DEVICE = r"No PjRtPlugin registered for"
PATTERNS = (
    r"\bXlaRuntimeError\b",
    r"RuntimeError: (Bad StatusOr access: )?(INTERNAL|UNIMPLEMENTED|INVALID_ARGUMENT|FAILED_PRECONDITION): ",
    r"Could not run 'aten::\S+' with arguments from the '\w*XLA' backend",
    *FLAGS,
    r"Missing XLA configuration",
    DEVICE,
    r"Check failed: .*\b(xla|torch_xla)\b",
)
_FLAG = re.compile(r"Unknown flags? in XLA_FLAGS: -*(\w+)|for flag (xla_\w+)")
#: Remedies for a wrong setting. The graphs and a job without the compiler would show nothing.
SETTINGS = {
    "|".join(FLAGS): "Correct XLA_FLAGS in the script or in the job's Environment. On CPUs, SAGELET_XLA_CLIENT=builtin "
    "in the Environment chooses torch_xla's own XLA, of 2025: it knows flags that XLA's CPU plugin no longer has.",
    DEVICE: "Leave PJRT_DEVICE out of the script and of the job's Environment, or set it to CPU: sagelet chooses the "
    "device that the host has.",
}


def check(case: Case) -> Iterator[Seen]:
    known = (*device_mixing.ELSEWHERE, *device_mixing.CUDA, *out_of_memory.DEVICE, *unreadable_checkpoint.PATTERNS)
    if not case.setup.compiled or case.by_inductor or last_match(case, known) is not None:
        return
    marked = last_match(case, (MARK,))
    line = last_match(case, PATTERNS) or (marked and last_match(case, (ERROR,))) or marked
    if line is None:
        return
    place = failed_at(case) or _flag(case.sources, line)
    remedy = next((text for pattern, text in SETTINGS.items() if re.search(pattern, line)), None)
    yield Seen(Severity.ERROR, f"XLA gave up: {quoted(line)}{case.sources.quoted(place)}", place, instead=remedy)


def _flag(sources: Sources, line: str) -> SourceLine | None:
    """Returns where a script sets the flag that XLA cannot use. Such a flag ends the process without a traceback."""
    found = _FLAG.search(line)
    for script in sources if found else ():
        for number, text in enumerate(script.text.splitlines(), 1):
            if found and (found[1] or found[2]) in text:
                return SourceLine(script.path, number)
    return None


RULE = Rule(
    name="compiler-fault",
    why="The script asked for something that XLA, or the device's plugin, cannot do, or was given settings that it "
    "does not know.",
    instead="TrainingCompilerConfig(debug=True) writes the graphs to compiler/ of output.tar.gz: look there for the "
    "operation. Without the compiler (enabled=False) the same job shows whether the script itself is right.",
    section=Section.TROUBLESHOOTING,
    check=check,
)
