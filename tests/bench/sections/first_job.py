"""From a clone to the first finished compiled job, stage by stage, as a newcomer does it.

It makes a clone and an environment in a directory, and runs the tutorial's commands and script there, without Docker.
The full form downloads into empty caches of pip and uv. The short form uses the caches of the machine.
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from bench.tables import Scale, Table
from support import walks
from support.clients import ROOT
from support.walks import TUTORIAL, Serving, Terminal

HEADS = (("stage", "seconds", "MB on the disk afterwards"),)


def run(scale: Scale, directory: Path) -> list[Table]:
    environ = walks.home(directory)
    if scale is Scale.FULL:
        environ.update({f"{name}_CACHE_DIR": str(directory / "home" / name.lower()) for name in ("PIP", "UV")})
    rows = _stages(directory, Terminal(directory, environ))
    together = sum(seconds for _, seconds, _ in rows)
    cache = "empty caches of pip and uv" if scale is Scale.FULL else "the caches of pip and uv as they were"
    return [Table("Stages", HEADS[0], [*rows, ("together", together, "")], f"With {cache}.")]


def _stages(directory: Path, terminal: Terminal) -> list[tuple[str, float, int]]:
    rows: list[tuple[str, float, int]] = []

    def stage(name: str, work: Callable[[], object]) -> None:
        began = time.monotonic()
        work()
        seconds = time.monotonic() - began
        said = subprocess.run(["du", "-sm", directory], capture_output=True, text=True, check=True).stdout
        rows.append((name, seconds, int(said.split()[0])))

    def command(name: str, line: str) -> None:
        stage(name, lambda: terminal.run(line, seconds=3600))

    command("`git clone`, from this disk", f"git clone -q {ROOT} clone")
    terminal.run("python3 -m venv .venv")
    terminal.run(". .venv/bin/activate")
    command("`pip install` of the clone", "pip install ./clone")
    command("`sagelet install-torch`", "sagelet install-torch")
    serving = Serving(terminal, "sagelet up --runtime process")
    stage("`sagelet up` until it answers", serving.__enter__)
    try:
        (directory / "train.py").write_text(walks.python_blocks(TUTORIAL)[0])
        command("the tutorial's 500 steps, compiled", "sagelet submit train.py --compile --wait")
    finally:
        serving.__exit__()
    return rows
