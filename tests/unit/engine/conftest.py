from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.world import World


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(**settings: Any) -> World:
        worlds.append(World(tmp_path / str(len(worlds)), **settings))
        return worlds[-1]

    yield make
    for world in worlds:
        world.engine.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
