"""`make bench`: sections one after the other in one run, each a module of `bench.sections` with `run(scale)`.

Prints every table with its bars and the machine. With --write the figures go into docs/benchmarks/figures.json, from
which docs/benchmarks.md and its picture are made; sections that did not run keep theirs.
"""

import argparse
import importlib
import time

from rich.console import Console

from bench import document, figures, machine, terminal
from bench.figures import SECTIONS, Measured
from bench.tables import Scale, Table


def run(section: str, scale: Scale) -> list[Table]:
    tables: list[Table] = importlib.import_module(f"bench.sections.{section}").run(scale)
    return tables


def measure(section: str, scale: Scale) -> Measured:
    here, when, load, began = machine.Machine.here(), machine.now(), machine.load(), time.monotonic()
    tables = tuple(run(section, scale))
    return Measured(scale, when, round(time.monotonic() - began, 1), load, machine.load(), here, tables)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"all, unless named: {', '.join(SECTIONS)}")
    parser.add_argument("--scale", type=Scale, default=Scale.FULL, choices=[scale.value for scale in Scale])
    parser.add_argument("--write", action="store_true", help="into docs/benchmarks.md; not with --scale short")
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    if arguments.write and arguments.scale is not Scale.FULL:
        parser.error("docs/benchmarks.md shows full runs only")
    # A file that the output goes to has no width of its own.
    console = Console(width=None if Console().is_terminal else 160)
    for section in arguments.sections or SECTIONS:
        measured = measure(section, arguments.scale)
        terminal.show(console, section, measured)
        if arguments.write:
            figures.write({section: measured})
            document.write(figures.read())


if __name__ == "__main__":
    main()
