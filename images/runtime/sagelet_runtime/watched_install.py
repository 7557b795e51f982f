"""An installation of requirements, watched: `python -m sagelet_runtime.watched_install torch==2.9.0 -- WORD...`.

Runs the words as a Python of their own, passes on what that prints, and writes the failure file that AWS's toolkit
would have written; SDK v3's driver leaves that as it is. In a compiled job it also looks at torch_xla afterwards:
before the two dashes is what was there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from sagemaker_training import errors, files

from sagelet_runtime import requirements
from sagelet_runtime.lines import LineSplitter
from sagelet_runtime.pip_errors import PipErrors

_CHUNK = 64 * 1024


def main(words: Sequence[str]) -> int:
    """The exit code of the installation, or 1."""
    before, command = words[: words.index("--")], [sys.executable, *words[words.index("--") + 1 :]]
    code, said = _run(command)
    try:
        if code:
            raise errors.InstallRequirementsError(cmd=" ".join(command), return_code=code, output=said)
        if os.environ.get("SM_TRAINING_COMPILER_CONFIGURED") == "1":
            requirements.check(before)
    except errors.ClientError as error:
        files.write_failure_file(str(error))
        print(error, flush=True)
        return code or 1
    return 0


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Runs pip, and passes on what it prints, and a request to end: it takes its own files away."""
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
