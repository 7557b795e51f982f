"""`make bench-first-job`: from a clone to the first finished compiled job, stage by stage, as a newcomer does it.

It makes a clone and an environment in a directory of its own and runs the tutorial's commands and script there, without
Docker. Prints a table; `--write` puts it into docs/how-to/install.md. It downloads 1.2 GB into an empty cache of pip;
`--warm` takes the cache that is there.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from bench import machine, page
from support import walks
from support.walks import INSTALL, ROOT, TUTORIAL, Serving, Terminal

HEAD = ("stage", "seconds", "MB on the disk afterwards")


class Stages:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rows: list[tuple[str, ...]] = []
        self.total = 0.0

    def add(self, name: str, seconds: float) -> None:
        said = subprocess.run(["du", "-sm", self.directory], capture_output=True, text=True, check=True).stdout
        self.total += seconds
        self.rows.append((name, f"{seconds:.1f}", said.split()[0]))
        print(f"first job: {name}: {seconds:.1f} s", flush=True)

    def run(self, terminal: Terminal, name: str, command: str) -> None:
        began = time.monotonic()
        terminal.run(command, seconds=3600)
        self.add(name, time.monotonic() - began)


def measure(directory: Path, *, cold: bool) -> Stages:
    environ = walks.home(directory)
    if cold:
        environ["PIP_CACHE_DIR"] = str(directory / "home" / "pip")
    terminal, stages = Terminal(directory, environ), Stages(directory)
    stages.run(terminal, "`git clone`, from this disk", f"git clone -q {ROOT} clone")
    terminal.run("python3 -m venv .venv")
    terminal.run(". .venv/bin/activate")
    stages.run(terminal, "`pip install` of the clone", "pip install ./clone")
    stages.run(terminal, "`sagelet install-torch`", "sagelet install-torch")
    began = time.monotonic()
    with Serving(terminal, "sagelet up --runtime process"):
        stages.add("`sagelet up` until it answers", time.monotonic() - began)
        (directory / "train.py").write_text(walks.python_blocks(TUTORIAL)[0])
        stages.run(terminal, "the tutorial's 500 steps, compiled", "sagelet submit train.py --compile --wait")
    return stages


def text(stages: Stages, load_before: float, *, cold: bool) -> str:
    rows = [*stages.rows, ("together", f"{stages.total:.0f}", "")]
    cache = "an empty cache of pip" if cold else "pip's cache filled"
    load = f"load average {load_before:g} before and {machine.load():g} after"
    said = f"`make bench-first-job`, {machine.now()}, {load}, {cache}."
    return f"{said}\n{machine.Machine.here()}.\n\n{page.table(HEAD, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warm", action="store_true", help="with pip's cache as it is")
    parser.add_argument("--write", action="store_true", help=f"put the table into {INSTALL}")
    options = parser.parse_args()
    before = machine.load()
    with tempfile.TemporaryDirectory(prefix="sagelet-first-job-") as directory:
        stages = measure(Path(directory), cold=not options.warm)
    found = text(stages, before, cold=not options.warm)
    print(found)
    if options.write:
        page.write(ROOT / INSTALL, found, "first job")


if __name__ == "__main__":
    main()
