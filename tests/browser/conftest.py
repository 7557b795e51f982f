"""The browser of a file of tests, and a tab of it for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.devtools import Browser, Page, driven


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with driven(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab, whose console has nothing to complain of when the test is over."""
    page = browser.page()
    yield page
    complaints = page.complaints()
    page.close()
    assert complaints == []


@pytest.fixture(scope="module")
def axe() -> str:
    return (Path(__file__).parents[2] / ".axe" / "axe_playwright_python" / "axe.min.js").read_text()
