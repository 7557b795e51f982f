"""The authorities that jobs of a server with --tls trust."""

from pathlib import Path

import certifi
import pytest

from sagelet_engine.execution.ca_certificates import write_bundle


def test_those_of_the_world_and_the_servers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "own").write_text("OWN")
    write_bundle(tmp_path / "own", tmp_path / "bundle")
    assert (tmp_path / "bundle").read_text() == f"{Path(certifi.where()).read_text().rstrip()}\nOWN"
    # A proxy's, that this machine's clients trust.
    (tmp_path / "proxy").write_text("PROXY\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "proxy"))
    write_bundle(tmp_path / "own", tmp_path / "bundle")
    assert (tmp_path / "bundle").read_text() == "PROXY\nOWN"
