"""`make release` refuses what is not true, and the workflows call what there is."""

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import sagelet_engine
from support.programs import asks

ROOT = Path(__file__).parents[2]
WORKFLOWS = {path.stem: path for path in (ROOT / ".github/workflows").glob("*.yml")}
DONE = "# Changelog\n\n## 1.2.0 (2026-11-24)\n\nJobs:\n\n- Faster.\n\n## 1.1.0 (2026-01-01)\n\n- Old.\n"


def _release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci/release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = _release()


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", "-C", root, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
@asks("git")
def checkout(tmp_path: Path) -> Path:
    package = tmp_path / "emulator/sagelet_engine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('"""Engine."""\n\n__version__ = "1.2.0"\n')
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


def test_the_notes_are_the_newest_section() -> None:
    assert release.notes(DONE, "1.2.0") == "Jobs:\n\n- Faster."


@pytest.mark.parametrize(
    ("changelog", "why"),
    [
        (DONE.replace("## 1.2.0 (2026-11-24)", "## 1.2.0 (unreleased)"), "says `unreleased`"),
        (DONE.replace("1.2.0", "1.3.0"), "is of 1.3.0"),
        ("# Changelog\n", "is of nothing"),
        ("# Changelog\n\n## 1.2.0 (2026-11-24)\n\n## 1.1.0 (2026-01-01)\n", "is empty"),
    ],
)
def test_a_changelog_that_is_not_ready_is_refused(changelog: str, why: str) -> None:
    with pytest.raises(release.Refused, match=re.escape(why)):
        release.notes(changelog, "1.2.0")


def test_another_version_is_refused(checkout: Path) -> None:
    release.check_version(checkout, "1.2.0")
    with pytest.raises(release.Refused, match=r"says 1\.2\.0: set it to 1\.3\.0"):
        release.check_version(checkout, "1.3.0")
    with pytest.raises(release.Refused, match="is no version"):
        release.check_version(checkout, "v1.2")


def test_a_tree_with_changes_and_a_tag_that_is_taken_are_refused(checkout: Path) -> None:
    release.check_tree(checkout, "1.2.0", tagged=False)
    with pytest.raises(release.Refused, match=r"no tag v1\.2\.0"):
        release.check_tree(checkout, "1.2.0", tagged=True)
    git(checkout, "tag", "v1.2.0")
    release.check_tree(checkout, "1.2.0", tagged=True)
    with pytest.raises(release.Refused, match="already"):
        release.check_tree(checkout, "1.2.0", tagged=False)
    (checkout / "new").write_text("")
    with pytest.raises(release.Refused, match="not committed"):
        release.check_tree(checkout, "1.2.0", tagged=True)


@pytest.fixture
def pages(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one generated page, whose tests of links pass."""
    (checkout / "docs/reference").mkdir(parents=True)
    (checkout / "docs/reference/page.md").write_text("made\n")
    (checkout / "Makefile").write_text(".PHONY: docs\ndocs:\n\t@echo made > docs/reference/page.md\n")
    (checkout / "test_links.py").write_text("def test_links(): pass\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "pages")
    monkeypatch.setattr(release, "ROOT", checkout)
    monkeypatch.setattr(release, "TRUE_PAGES", ("test_links.py",))
    return checkout


def test_a_page_that_is_not_what_the_program_says_is_refused(pages: Path) -> None:
    release.check_pages()
    (pages / "docs/reference/page.md").write_text("written by hand\n")
    git(pages, "commit", "-q", "-a", "-m", "by hand")
    with pytest.raises(release.Refused, match=r"not what `make docs` makes of them(?s:.*)page\.md"):
        release.check_pages()


def test_a_link_that_leads_nowhere_is_refused(pages: Path) -> None:
    (pages / "test_links.py").write_text("def test_links(): assert False\n")
    with pytest.raises(release.Refused, match=r"-m pytest -q test_links\.py` failed"):
        release.check_pages()


def test_a_failing_lint_ends_a_release(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "CHANGELOG.md").write_text(DONE)
    (checkout / "Makefile").write_text("lint:\n\t@false\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "lint")
    monkeypatch.setattr(release, "ROOT", checkout)
    monkeypatch.setattr("sys.argv", ["release.py", "1.2.0"])
    assert release.main() == 1
    assert "release: refused. `make lint` failed" in capsys.readouterr().err


def test_an_unreleased_version_is_refused_here() -> None:
    """The repository as it is now: its changelog says `unreleased` until somebody means it."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if f"## {sagelet_engine.__version__} (unreleased)" in changelog:
        with pytest.raises(release.Refused, match="unreleased"):
            release.notes(changelog, sagelet_engine.__version__)
    else:
        assert release.notes(changelog, sagelet_engine.__version__)


def steps(workflow: str) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(WORKFLOWS[workflow].read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("workflow", ["ci", "release"])
def test_workflows_call_targets_and_files_that_exist(workflow: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(str(step.get("run", "")) for step in steps(workflow))
    assert set(re.findall(r"\bmake ([\w-]+)", text)) <= targets
    for path in re.findall(r"(?:\s|^)(\.ci/\S+|tests/\S+|images/\S+)", text):
        assert (ROOT / path).exists(), path
    # A tag of an action can be moved, a commit cannot.
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in steps(workflow) if "uses" in step)


@pytest.mark.parametrize("workflow", ["ci", "release"])
def test_a_step_has_no_right_that_it_does_not_need(workflow: str) -> None:
    whole = yaml.safe_load(WORKFLOWS[workflow].read_text())
    assert "write" not in str(whole["permissions"])
    checkouts = [step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    # What GitHub fills in becomes part of the script: a tag may be called `$(...)`.
    assert not [step for step in steps(workflow) if "${{" in str(step.get("run", ""))]


def test_the_unit_tests_run_on_every_python_that_the_package_admits() -> None:
    matrix = yaml.safe_load(WORKFLOWS["ci"].read_text())["jobs"]["unit"]["strategy"]["matrix"]["python"]
    assert 'requires-python = ">=3.10,<3.14"' in (ROOT / "pyproject.toml").read_text()
    assert matrix == ["3.10", "3.11", "3.12", "3.13"]


def test_hooks_and_templates_are_valid() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = {hook["entry"].split(".venv/bin/")[1].split()[0] for hook in local["hooks"]}
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    assert tools == set(re.findall(r"\$\(BIN\)/([\w-]+)", lint))
    for name in ("bug", "feature"):
        form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
        assert {"name", "description", "body"} <= form.keys()
        assert all(part["attributes"]["label"] for part in form["body"])
