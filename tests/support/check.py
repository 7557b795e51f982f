"""`make check`: lint, types and the nearest tests of what changed since the merge base with main.

Its aim is 90 seconds.

mypy checks everything: its cache makes that what changed and what imports it. Without a cache it takes half of a minute
of one core, beside the tests. Tests start in their order until the time is used up. Those that are left are counted.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from support.changes import Concerned, changed_files
from support.import_graph import ROOT, Imports

#: No test starts later than this. What has begun goes on.
TESTS_SECONDS = 55
#: Files of tests, because each process reads all of them.
MOST_FILES = 24
BIN = Path(sys.executable).parent


def main() -> int:
    begin = time.monotonic()
    changed = changed_files()
    if not changed:
        print("make check: nothing differs from main")
        return 0
    scripts = [str(path.relative_to(ROOT)) for path in changed if path.suffix == ".py"]
    print(
        f"make check: files that changed: {len(changed)}; lint, types, and tests that begin within {TESTS_SECONDS} s",
        flush=True,
    )
    failed = [shown for shown, words in _lint(scripts) if subprocess.run([BIN / "ruff", *words], cwd=ROOT).returncode]
    # Beside the tests: each waits for files and processes.
    others = {name: _start(name, *words) for name, words in (("mypy", ()), ("lint-imports", ()))}
    if _test(Concerned(changed, Imports()).files(), begin + TESTS_SECONDS):
        failed.append("pytest")
    for name, process in others.items():
        output = process.communicate()[0]
        if process.returncode:
            print(output)
            failed.append(name)
    print(f"make check: {'failed: ' + ', '.join(failed) if failed else 'passed'}, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


def _lint(scripts: list[str]) -> list[tuple[str, list[str]]]:
    """Returns calls of ruff, each with what is said of its failure."""
    if not scripts:
        return []
    return [
        ("ruff check", ["check", "--force-exclude", *scripts]),
        ("ruff format (`make format` does it)", ["format", "--check", "--force-exclude", *scripts]),
    ]


def _start(name: str, *words: str) -> subprocess.Popen[str]:
    # import-linter finds the runtime's package there, as in `make lint`.
    environment = {**os.environ, "PYTHONPATH": "images/runtime"}
    return subprocess.Popen(
        [BIN / name, *words], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _test(files: Sequence[Path], until: float) -> int:
    """Runs the nearest files of tests and names how many others the change concerns. Returns pytest's status."""
    nearest = [str(path.relative_to(ROOT)) for path in files[:MOST_FILES]]
    words = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", f"--begin-until={until}", "-q", *nearest]
    status = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT).returncode
    if further := len(files) - len(nearest):
        print(f"make check: the change concerns {further} further files of tests: `make test` runs them")
    return status


if __name__ == "__main__":
    sys.exit(main())
