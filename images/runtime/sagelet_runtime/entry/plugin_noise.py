"""Lines of torch_xla and of PJRT plugins that say nothing about the job. The relay leaves them out of its log.

A line is left out only if its source file and its whole text are in the list, so that no other message is lost with it.
Add one only with the reason why no user can do anything about it.
"""

from __future__ import annotations

import re

#: TSL's form: `2026-11-25 19:48:54.921781: W torch_xla/csrc/runtime/profiler.cpp:103] TEXT`. The number of the line
#: differs between versions.
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] ([\w./]+):\d+\] (.*)")
#: Source file and text of each, and why it says nothing.
NOISE: dict[tuple[str, str], str] = {
    (
        "torch_xla/csrc/runtime/profiler.cpp",
        "Profiler API not found for PJRT plugin",
    ): "torch_xla asks each plugin for an extension that only profiling needs, and trains without it",
}


def is_noise(line: str) -> bool:
    found = _LINE.fullmatch(line)
    return found is not None and (found.group(1), found.group(2)) in NOISE
