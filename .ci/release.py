"""Refuses a release that says what is not true: `make release VERSION=X.Y.Z`.

It checks version, changelog, generated pages and links, builds the wheel, installs it into a fresh environment, and
leaves the wheel and the notes in dist/. It makes no tag and publishes nothing.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
VERSION_FILE = Path("emulator/sagelet_engine/__init__.py")
CHANGELOG = Path("CHANGELOG.md")
#: What `make docs` writes.
GENERATED = Path("docs/reference")
#: Versions that pip orders as people do.
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_HEADING = re.compile(r"^## (?P<version>\S+)(?: \((?P<date>[^)]*)\))?$", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
#: Tests of links, indexes, generated pages, and of versions in files that others copy.
TRUE_PAGES = ("tests/unit/docs", "tests/unit/doctor/test_docs.py", "tests/unit/test_around_it.py")


class Refused(Exception):
    """The release is not to be. Its text says what to do."""


def notes(changelog: str, version: str) -> str:
    """Returns the changelog's section of a version, without its heading. Raises Refused if the section is not ready."""
    headings = list(_HEADING.finditer(changelog))
    newest = headings[0] if headings else None
    if newest is None or newest["version"] != version:
        found = newest["version"] if newest else "nothing"
        raise Refused(f"The first section of {CHANGELOG} is of {found}: write one `## {version} (YYYY-MM-DD)` above it")
    if not _DATE.fullmatch(newest["date"] or ""):
        raise Refused(f"The section {version} of {CHANGELOG} says `{newest['date']}`: write its date, YYYY-MM-DD")
    end = headings[1].start() if len(headings) > 1 else len(changelog)
    text = changelog[newest.end() : end].strip()
    if not text:
        raise Refused(f"The section {version} of {CHANGELOG} is empty")
    return text


def check_version(root: Path, version: str) -> None:
    """Raises Refused unless the version is one, and the package has it."""
    if not _VERSION.fullmatch(version):
        raise Refused(f"{version!r} is no version: X.Y.Z, or X.Y.Zrc1")
    found = re.search(r'^__version__ = "(.+)"$', (root / VERSION_FILE).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None or found[1] != version:
        raise Refused(f"{VERSION_FILE} says {found and found[1]}: set it to {version}")


def check_tree(root: Path, version: str, *, tagged: bool) -> None:
    """Raises Refused unless all changes are committed and the tag is free. `tagged`: the tag has to be at HEAD."""
    if changed := _git(root, "status", "--porcelain"):
        raise Refused(f"There are changes that are not committed:\n{changed}")
    at = _git(root, "tag", "--points-at", "HEAD").split()
    if tagged and f"v{version}" not in at:
        raise Refused(f"HEAD has no tag v{version}")
    if not tagged and _git(root, "tag", "--list", f"v{version}"):
        raise Refused(f"There is a tag v{version} already")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def _run(*command: str | Path) -> None:
    said = " ".join(str(part) for part in command)
    print(f"release: {said}", flush=True)
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise Refused(f"`{said}` failed")


def check_pages() -> None:
    """Raises Refused if a generated page is not what `make docs` makes, or a link leads nowhere."""
    _run("make", "docs")
    if changed := _git(ROOT, "status", "--porcelain", "--", str(GENERATED)):
        raise Refused(f"Pages were not what `make docs` makes of them. Commit them:\n{changed}")
    _run(sys.executable, "-m", "pytest", "-q", *TRUE_PAGES)


def build(version: str) -> Path:
    """Builds the wheel into dist/ and tries it in a fresh environment. Returns its path."""
    for old in DIST.glob("*"):
        old.unlink()
    _run(sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-deps", "-q", "-w", DIST, ROOT)
    (wheel,) = DIST.glob(f"sagelet-{version}-*.whl")
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        fresh = Path(scratch) / "bin"
        _run(fresh / "python", "-m", "pip", "install", "--disable-pip-version-check", "-q", wheel)
        said = subprocess.run(
            [fresh / "sagelet", "--version"], cwd=scratch, capture_output=True, text=True, check=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        ).stdout  # fmt: skip
    if version not in said.split():
        raise Refused(f"The installed wheel says {said.strip()!r}")
    return wheel


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--tagged", action="store_true", help="the tag is at HEAD already (the release workflow)")
    given = parser.parse_args()
    try:
        check_version(ROOT, given.version)
        text = notes((ROOT / CHANGELOG).read_text(encoding="utf-8"), given.version)
        check_tree(ROOT, given.version, tagged=given.tagged)
        _run("make", "lint")
        check_pages()
        wheel = build(given.version)
    except Refused as reason:
        print(f"release: refused. {reason}", file=sys.stderr)
        return 1
    (DIST / "notes.md").write_text(f"{text}\n", encoding="utf-8")
    print(f"release: {wheel.relative_to(ROOT)} and dist/notes.md are ready. Then:")
    print(f"  git tag -a v{given.version} -m v{given.version} && git push origin v{given.version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
