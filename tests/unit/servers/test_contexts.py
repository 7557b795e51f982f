"""The file of contexts: what is in it, who changes it, and what is said of one that cannot be read."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_api.servers.contexts import Context, changed_contexts, contexts_file, made_context, read_contexts
from sagelet_engine.base.errors import SettingsError


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"SAGELET_CONTEXTS": str(tmp_path / "config" / "contexts.json")}


def test_what_is_written_is_read(environ: dict[str, str]) -> None:
    whole = made_context("ci", "https://ci:4599/", "/keys", "123456789012", "eu-west-1", "/ca.pem")
    with changed_contexts(environ) as contexts:
        contexts.named |= {"ci": whole, "mine": made_context("mine", data="/mine")}
        contexts.current = "ci"
    found = read_contexts(environ)
    assert found.current == "ci"
    assert found.named["ci"] == whole
    assert found.named["mine"] == Context("mine", data=Path("/mine"))
    assert (whole.endpoint, whole.data, whole.ca) == ("https://ci:4599", Path("/keys"), Path("/ca.pem"))
    assert stat.S_IMODE(contexts_file(environ).stat().st_mode) == 0o600


def test_where_there_is_no_file_there_are_no_contexts(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert (read_contexts(environ).current, read_contexts(environ).named) == ("default", {})

    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    assert read_contexts({}).named == {}
    with pytest.raises(SettingsError, match="SAGELET_CONTEXTS"), changed_contexts({}):
        pass


def test_where_the_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert contexts_file({}) == tmp_path / ".config/sagelet/contexts.json"
    assert contexts_file({"XDG_CONFIG_HOME": "relative"}) == tmp_path / ".config/sagelet/contexts.json"
    assert contexts_file({"XDG_CONFIG_HOME": "/etc/x"}) == Path("/etc/x/sagelet/contexts.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting property name"),
        ("[]", "must hold an object"),
        ("[" * 100_000, "recursion"),
        (b"\xff", "not UTF-8"),
        ('{"contexts": []}', "must hold an object"),
        ('{"contexts": {}, "current": 1}', "`current` must be a name"),
        ('{"contexts": {"a": 1}}', "'a' is not a context"),
        ('{"contexts": {"default": {"data": "/x"}}}', "'default' is not a context"),
        ('{"contexts": {"a b": {"data": "/x"}}}', "'a b' is not a name"),
        ('{"contexts": {"a": {}}}', "names no server"),
        ('{"contexts": {"a": {"data": 1}}}', "is not a text"),
        ('{"contexts": {"a": {"data": "x"}}}', "must be absolute"),
        ('{"contexts": {"a": {"endpoint": "x"}}}', "is not an http:// or https:// URL"),
        ('{"contexts": {"a": {"data": "/x", "account": "1"}}}', "12 digits"),
        ('{"contexts": {"a": {"data": "/x", "region": "A B"}}}', "is not a region"),
        ('{"contexts": {"a": {"data": "/x", "token": "y"}}}', "member 'token' that this sagelet does not know"),
    ],
)
def test_a_garbled_file_is_an_error_that_names_it(environ: dict[str, str], text: str | bytes, why: str) -> None:
    path = contexts_file(environ)
    path.parent.mkdir()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError, match=why) as error:
        read_contexts(environ)
    assert str(error.value).startswith(f"{path}, which has your contexts, is garbled (")
    before = path.read_bytes()
    with pytest.raises(SettingsError), changed_contexts(environ):
        pass
    assert path.read_bytes() == before


def test_a_name_that_is_not_there(environ: dict[str, str]) -> None:
    with changed_contexts(environ) as contexts:
        contexts.named["staging"] = made_context("staging", "http://staging")
    found = read_contexts(environ)
    with pytest.raises(SettingsError, match=r"There is no context 'stagin'. Did you mean staging\?"):
        found.get("stagin")
    with pytest.raises(SettingsError, match="`sagelet context create` makes one"):
        found.get("xyz")
    assert found.get("default") is None


def test_a_change_that_fails_changes_nothing(environ: dict[str, str]) -> None:
    with changed_contexts(environ) as contexts:
        contexts.named["one"] = made_context("one", "http://one")

    def fail() -> None:
        with changed_contexts(environ) as contexts:
            contexts.named.clear()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [*read_contexts(environ).named] == ["one"]
    assert [path.name for path in contexts_file(environ).parent.iterdir() if path.suffix != ".lock"] == [
        "contexts.json"
    ]


def test_what_a_link_leads_to_is_changed(environ: dict[str, str], tmp_path: Path) -> None:
    link = contexts_file(environ)
    link.parent.mkdir()
    link.symlink_to(tmp_path / "dotfiles.json")
    with changed_contexts(environ) as contexts:
        contexts.named["one"] = made_context("one", "http://one")
    assert link.is_symlink()
    assert "one" in json.loads((tmp_path / "dotfiles.json").read_text())["contexts"]


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environ = {"SAGELET_CONTEXTS": str(tmp_path / "file" / "contexts.json")}
    assert read_contexts(environ).named == {}
    with pytest.raises(SettingsError, match="cannot be changed"), changed_contexts(environ):
        pass


def test_changes_of_two_programs_are_both_kept(environ: dict[str, str]) -> None:
    program = (
        "import sys; from sagelet_api.servers.contexts import changed_contexts, made_context\n"
        "for number in range(25):\n"
        "    with changed_contexts() as contexts:\n"
        "        name = f'{sys.argv[1]}{number}'\n"
        "        contexts.named[name] = made_context(name, f'http://{name}')\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", program, name], env=environ) for name in ("one", "two")]
    assert [one.wait(timeout=120) for one in both] == [0, 0]
    assert len(read_contexts(environ).named) == 50
