"""What the path of an unsigned request tells, whichever release of botocore is installed."""

from collections.abc import Iterator

import pytest

from sagelet_api.protocol import operation_names, rest_paths
from sagelet_api.protocol.calls import Protocol
from sagelet_api.protocol.rest_paths import rest_protocol


@pytest.fixture
def a_service_has_gone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """botocore drops services that AWS closes."""
    known = operation_names.rest_models()
    monkeypatch.setattr(rest_paths, "rest_models", lambda: ["a-closed-service", *known])
    rest_paths._beginnings.cache_clear()
    yield
    rest_paths._beginnings.cache_clear()


@pytest.mark.usefixtures("a_service_has_gone")
def test_paths_are_known_without_the_services_that_botocore_has_dropped() -> None:
    assert rest_protocol("/2015-03-31/functions") is Protocol.JSON
    assert rest_protocol("/2015-03-31/photos") is None


def test_a_service_that_botocore_has_dropped_has_no_operations() -> None:
    assert operation_names._model("a-closed-service", "Closed json").operations == frozenset()
