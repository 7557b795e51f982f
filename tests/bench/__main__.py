"""`make bench`: sections one after the other, each a module of `bench.sections` with `run(scale, directory)`.

Prints each section's tables with the machine and its load. --write also puts them into the section's page.
"""

import argparse
import importlib
import os
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

from bench import machine, page
from bench.tables import Scale, Table


def run(section: str, scale: Scale) -> list[Table]:
    module = importlib.import_module(f"bench.sections.{section.replace('-', '_')}")
    with tempfile.TemporaryDirectory(prefix=f"bench-{section}-") as directory:
        tables: list[Table] = module.run(scale, Path(directory))
    return tables


def measured(section: str, scale: Scale) -> tuple[str, list[str]]:
    """Returns a section's text, and the counts that are not as planned."""
    when, load, began = datetime.now(timezone.utc), machine.load(), time.monotonic()
    tables = run(section, scale)
    head = (
        f"`make bench-{section}`, {when:%Y-%m-%d %H:%M} UTC, {time.monotonic() - began:,.0f} s, load average {load:g} "
        f"before and {machine.load():g} after, scale {scale.value}; {machine.here()}."
    )
    return "\n\n".join([head, *map(str, tables)]), [one for table in tables for one in table.wrong]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", default=page.USUAL,
        help=f"those of docs/benchmarks.md, unless named: {', '.join(page.PAGES)}",
    )  # fmt: skip
    parser.add_argument("--scale", type=Scale, default=Scale.FULL, choices=list(Scale), metavar="full|short")
    parser.add_argument("--write", action="store_true", help="into the sections' pages; not with --scale short")
    arguments = parser.parse_args()
    # Servers start as for a user, whose first start has left bytecode. Without it sagelet would be compiled each time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if unknown := set(arguments.sections) - set(page.PAGES):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(page.PAGES)}")
    if arguments.write and arguments.scale is not Scale.FULL:
        parser.error("the pages show full runs only")
    wrong = []
    for section in arguments.sections:
        text, failures = measured(section, arguments.scale)
        print(f"{text}\n", flush=True)
        wrong += failures
        if arguments.write and not failures:
            page.write(section, text)
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
