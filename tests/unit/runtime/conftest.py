"""A host of a training job whose /opt/ml is a temporary directory."""

from pathlib import Path

import pytest

from support.training_host import TrainingHost


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test that runs a job on a host: it needs AWS's toolkit, which `make setup` installs."""
    own = (item for item in items if item.path.is_relative_to(Path(__file__).parent))
    for item in own:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if "host" in getattr(item, "fixturenames", ()) and "host" not in parameters:
            item.add_marker(pytest.mark.xla)


@pytest.fixture
def host(tmp_path: Path) -> TrainingHost:
    return TrainingHost(tmp_path)
