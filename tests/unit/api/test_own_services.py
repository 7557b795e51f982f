"""A new operation, and a new page, is announced to people and to the server."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any
from unittest.mock import MagicMock

import pytest
from flask import Blueprint

import sagelet_api.web
from sagelet_api.protocol.operations import RefusedOperation
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.app import create_app
from support.api_world import ApiWorld

ROOT = Path(__file__).parents[3]


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def test_pages_name_every_operation_of_sagemaker_that_sagelet_answers(world: ApiWorld) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    known = set(re.findall(r"\w+", text))
    table = world.sagelet.own.tables["sagemaker"]
    answered = {name for name, one in table.items() if not isinstance(one, RefusedOperation)}
    assert answered - known == set()


def test_every_blueprint_of_the_pages_is_in_the_app() -> None:
    site: Any = MagicMock(name="site")
    app = create_app(site)
    modules = [import_module(f"sagelet_api.web.{one.name}") for one in iter_modules(sagelet_api.web.__path__)]
    makers = [module.blueprint for module in modules if hasattr(module, "blueprint")]
    assert len(makers) > 10
    made: list[Blueprint] = [make(site) for make in makers]
    assert {blueprint.name for blueprint in made} == set(app.blueprints)
