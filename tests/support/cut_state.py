"""Ends an import or a reset right before each of its steps on the disk, and says what the next owner then finds.

It is a program of its own because it forks, which a process with threads should not. Usage: cut_state.py WORK
import|reset. Prints one JSON object: how often the directory was the old or the new one, and everything else seen.
"""

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.state.resetting import reset_data
from support.data_directory import contents, fill

#: Audit events that Python raises before it changes anything on the disk.
STEPS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "os.chmod", "shutil.rmtree")
KILLED = 9
#: Steps from one cut to the next. SAGELET_TEST_CUTS=1 cuts at every step.
STRIDE = int(os.environ.get("SAGELET_TEST_CUTS", "2"))


def in_child(work: Callable[[], Any], limit: int | None) -> int:
    """Runs `work` in a process that ends before its step `limit`. Returns its exit status."""
    child = os.fork()
    if child == 0:
        try:
            if limit is not None:
                cut_at(limit)
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def cut_at(limit: int) -> None:
    left = limit

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in STEPS or (event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wxa")):
            left -= 1
            if left < 0:
                os._exit(KILLED)

    sys.addaudithook(hook)


def described(data: Path) -> str:
    """Returns the contents. File systems list a directory in different orders."""
    return json.dumps(contents(data), default=str, sort_keys=True)


def main() -> None:
    work, what = Path(sys.argv[1]), sys.argv[2]
    # The machine itself does not go down, so nothing needs to be flushed to its disk.
    os.fsync = lambda fd: None
    fill(work / "one", "one", ["a", "d//"])
    fill(work / "two", "two", ["a", "a/b"])
    export_data(work / "two", work / "two.tar")
    shutil.rmtree(work / "empty", ignore_errors=True)
    (work / "empty").mkdir()
    known = {described(work / "one"): "old", described(work / ("two" if what == "import" else "empty")): "new"}
    data = work / "data"

    def change() -> None:
        if what == "import":
            import_data(work / "two.tar", data, replace=True)
        else:
            reset_data(data, "all", [])

    seen: Counter[str] = Counter()
    status, limit = KILLED, 0
    while status == KILLED:
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(work / "one", data, symlinks=True)
        status = in_child(change, limit)
        # The next owner may be cut off, too.
        in_child(lambda: lock_directory(data), limit % 5)
        in_child(lambda: lock_directory(data), None)
        left = sorted({path.name for path in data.iterdir()} - {"lock", "identity.json", "sagelet.db", "s3", "jobs"})
        found = "" if left else known.get(described(data), "neither")
        seen[str(left) if left else found] += 1
        limit += STRIDE
    print(json.dumps({"status": status, "last": found, "seen": seen}))


if __name__ == "__main__":
    main()
