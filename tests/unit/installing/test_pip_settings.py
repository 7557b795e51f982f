"""images/training/installing/pip_settings.py: what a person has configured for pip holds for uv."""

import sys
from pathlib import Path

import pytest

from installing.pip_settings import options_of, read, translate, words_for_uv

NO_CERTIFICATES = {"UV_NATIVE_TLS", "UV_SYSTEM_CERTS"}


def variables(environ: dict[str, str] | None = None, **options: str) -> dict[str, str]:
    """What `translate` makes of the options, without what it always says."""
    result = translate({name.replace("_", "-"): value for name, value in options.items()}, environ or {}).variables
    return {name: value for name, value in result.items() if name not in {*NO_CERTIFICATES, "UV_INDEX_STRATEGY"}}


def test_pip_s_files_and_variables_are_read_as_pip_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable goes before the section of `pip install`, and that before the global one."""
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://global\ntimeout = 7\nretries = 9\n[install]\nindex-url = https://install\n"
        "timeout = 8\n[freeze]\nall = yes\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://variable")
    options = read(sys.executable)
    assert (options["index-url"], options["timeout"], options["retries"]) == ("https://variable", "8", "9")
    assert "all" not in options


def test_without_pip_nothing_is_configured(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    assert read(str(tmp_path / "python")) == {}


def test_values_that_are_empty_or_of_other_commands_do_not_count() -> None:
    assert options_of([":env:.index-url=''", "list.format='json'", "nonsense", "global.pre='1'"]) == {"pre": "1"}


def test_indexes_certificates_and_proxies_are_translated() -> None:
    assert variables(index_url="https://a/simple", extra_index_url="https://b\nhttps://c") == {
        "UV_DEFAULT_INDEX": "https://a/simple",
        "UV_INDEX": "https://b https://c",
    }
    assert variables(cert="/ca.pem", client_cert="/me.pem", trusted_host="a:8080 b") == {
        "SSL_CERT_FILE": "/ca.pem",
        "SSL_CLIENT_CERT": "/me.pem",
        "UV_INSECURE_HOST": "a:8080 b",
    }
    assert set(variables(proxy="http://p:3128")) == {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}
    assert variables(pre="true", no_cache_dir="0") == {"UV_PRERELEASE": "allow"}


def test_the_best_version_of_all_indexes_is_taken() -> None:
    assert translate({}, {}).variables["UV_INDEX_STRATEGY"] == "unsafe-best-match"


def test_a_directory_that_is_not_there_is_passed_over_as_by_pip(tmp_path: Path) -> None:
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.mkdir()
    found = variables(find_links=f"{there} {gone} https://a", extra_index_url=f"file://{gone}/simple file://{there}")
    assert found == {"UV_FIND_LINKS": f"{there},https://a", "UV_INDEX": f"file://{there}"}
    assert variables(find_links=str(gone)) == {}


def test_certificates_are_those_of_requests_where_pip_names_none(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    assert variables({"REQUESTS_CA_BUNDLE": str(bundle)}) == {"SSL_CERT_FILE": str(bundle)}
    assert variables({"REQUESTS_CA_BUNDLE": str(bundle)}, cert="/mine") == {"SSL_CERT_FILE": "/mine"}
    assert variables({"CURL_CA_BUNDLE": "/nonexistent"}) == {}


def test_a_setting_of_uv_s_own_goes_before() -> None:
    assert variables({"UV_DEFAULT_INDEX": "https://mine"}, index_url="https://pip") == {}


def test_what_uv_has_no_counterpart_for_is_named() -> None:
    """Also what nobody has thought of: it is safer to let pip install."""
    translation = translate({"only-binary": ":all:", "a-new-option": "1", "quiet": "2", "no-index": "1"}, {})
    assert translation.untranslated == ["a-new-option", "no-index", "only-binary"]


def test_words_of_pip_are_words_of_uv() -> None:
    assert words_for_uv(["--index-url", "https://a", "--yes", "x"]) == ["--default-index", "https://a", "x"]
