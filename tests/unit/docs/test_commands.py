"""Each command that README, the tutorial and two more pages print is run by a walk, or has a reason not to be."""

import pytest

from support import walks

PAGES = (walks.README, walks.TUTORIAL, walks.INSTALL, walks.NOTEBOOKS)


@pytest.mark.parametrize("page", PAGES)
def test_each_printed_command_is_walked_or_has_a_reason(page: str) -> None:
    found = walks.unaccounted(page)
    assert not found, f"add {[*found]} to WALKED or LEFT of tests/support/walks.py"
    known = {command for walk in walks.WALKED.values() for command in walk.get(page, ())} | set(walks.LEFT[page])
    assert known == set(walks.printed(page)), "a walk runs what the page does not print"


@pytest.mark.parametrize("page", PAGES)
def test_each_printed_program_is_saved_by_a_walk(page: str) -> None:
    assert len(walks.python_blocks(page)) == walks.PYTHON_BLOCKS[page]


def test_comments_beside_a_command_are_no_part_of_it() -> None:
    commands = walks.printed(walks.README)
    assert "make demo" in commands
    assert not [command for command in commands if "#" in command]
