"""Watches an installation of requirements.

Called as `python -m sagelet_runtime.requirements.watched_install torch==2.9.0 -- WORD...`.

Runs the words after the dashes as the arguments of another Python and passes on what it prints. On failure it writes
the failure file that AWS's toolkit would have written, which SDK v3's driver leaves as it is. In a compiled job it also
checks torch_xla afterwards. Before the dashes are the versions that were installed before.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sagemaker_training import environment, errors, files

from sagelet_runtime.base.lines import LineSplitter
from sagelet_runtime.base.variables import CONFIGURED, is_on_xla
from sagelet_runtime.requirements import held_packages as requirements
from sagelet_runtime.requirements.pip_errors import PipErrors

_CHUNK = 64 * 1024


def main(words: Sequence[str]) -> int:
    """Returns the exit code of the installation, or 1 if torch_xla cannot be used after it."""
    before, command = words[: words.index("--")], [sys.executable, *words[words.index("--") + 1 :]]
    file = next((word for word in reversed(command) if word.endswith(".txt")), "requirements.txt")
    with requirements.within_bounds(environment.base_dir, Path(file)):
        code, said = _run(command)
    try:
        if code:
            raise errors.InstallRequirementsError(cmd=" ".join(command), return_code=code, output=said)
        if os.environ.get(CONFIGURED) == "1" and is_on_xla(os.environ):
            requirements.check(before)
    except errors.ClientError as error:
        files.write_failure_file(str(error))
        print(error, flush=True)
        return code or 1
    return 0


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Runs pip and returns its exit code and the text of its failure.

    Passes on what pip prints. Forwards SIGTERM to pip, which then removes its temporary files.
    """
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    signal.signal(signal.SIGTERM, lambda number, _frame: child.send_signal(number))
    collector, splitter = PipErrors(), LineSplitter()
    assert child.stdout is not None
    while chunk := os.read(child.stdout.fileno(), _CHUNK):
        _pass_on(splitter.feed(chunk), collector)
    _pass_on(splitter.close(), collector)
    code = child.wait()
    return code if code >= 0 else 128 - code, collector.text()


def _pass_on(lines: Sequence[bytes], collector: PipErrors) -> None:
    for line in lines:
        text = line.decode("utf-8", "replace")
        print(text, flush=True)
        collector.feed(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
