"""`sagelet docs`, and the pages that texts of the program name."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli.docs import all_pages
from sagelet_api.cli.main import main
from support.clients import ROOT

#: Programs whose texts users read: messages of commands, pages, findings of the doctor, and lines in a job's log.
PROGRAMS = ("api/sagelet_api", "emulator/sagelet_engine", "images/runtime/sagelet_runtime")
COMMENT = re.compile(r'^\s*(#.*|""".*?"""$)|  #.*$', re.DOTALL)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["docs", *arguments])


def sources() -> list[Path]:
    return [path for program in PROGRAMS for path in (ROOT / program).rglob("*.py")]


@pytest.mark.parametrize("name", ["hub", "how-to/hub", "docs/how-to/hub.md"])
def test_a_page_is_printed(name: str) -> None:
    done = run(name)
    assert (done.exit_code, done.output) == (0, (ROOT / "docs" / "how-to" / "hub.md").read_text())


def test_all_pages_are_listed_by_name_and_title() -> None:
    lines = run().output.splitlines()
    assert len(lines) == len(all_pages()) > 40
    assert any(re.fullmatch(r"compare +Compare a native and a compiled job", line) for line in lines)


def test_of_two_pages_of_one_name_the_second_has_its_directory() -> None:
    taken = [name for name in all_pages() if "/" in name]
    for name in taken:
        assert run(f"docs/{name}.md").output == (ROOT / "docs" / f"{name}.md").read_text()
        assert run(name.partition("/")[2]).output != run(name).output


def test_a_mistyped_page_gets_a_suggestion() -> None:
    done = run("hubb")
    assert done.exit_code == 1
    assert "There is no page hubb. Did you mean `sagelet docs hub`?" in done.output


def test_no_page_hides_another_of_its_name() -> None:
    folders = ("tutorial", "how-to", "reference", "explanation")
    assert len(all_pages()) == sum(len(list((ROOT / "docs" / one).glob("*.md"))) for one in folders) + 3


def test_each_page_that_a_text_names_is_there() -> None:
    named = {name for path in sources() for name in re.findall(r"`sagelet docs ([a-z0-9/-]+)`", path.read_text())}
    assert {"hub", "reference/packages", "gpu"} <= named
    assert named - {"list", *all_pages()} == set()


def test_no_text_names_a_file_that_a_wheel_does_not_have() -> None:
    """Messages are strings; comments and docstrings are for those who have the sources."""
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources()
        for line in re.sub(r'(^|\n)\s*"""(?s:.*?)"""', "", path.read_text()).splitlines()
        if re.search(r"docs/[a-z/-]+\.md", re.sub(r"#.*", "", line))
    ]
    assert found == []
