"""A host of a training job whose /opt/ml is a temporary directory."""

from pathlib import Path

import pytest

from support.training_host import TrainingHost


@pytest.fixture
def host(tmp_path: Path) -> TrainingHost:
    return TrainingHost(tmp_path)
