"""The command line: options, their environment variables, and errors as one line that names the setting."""

import json
import socket
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import sagelet_engine
from sagelet_api.cli import up
from sagelet_api.cli.main import main
from sagelet_engine.settings import GpuPolicy, RuntimeChoice, Settings
from sagelet_engine.state.owner import lock_directory

DLC = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-trcomp-training:1.13.1-gpu-py39"


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


class Started(Exception):
    """Stands where the server would start."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that `sagelet up` would start with."""
    seen: list[Settings] = []

    def start(settings: Settings, **_: Any) -> Any:
        seen.append(settings)
        raise Started

    monkeypatch.setattr("sagelet_api.serve.Sagelet", start)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return seen


def test_the_version() -> None:
    assert run("--version").output == f"sagelet, version {sagelet_engine.__version__}\n"


def test_every_option_shows_its_variable() -> None:
    text = run("up", "--help").output
    for name in (
        "HOST",
        "PORT",
        "DATA",
        "RUNTIME",
        "GPUS",
        "MAX_JOBS",
        "MAX_HOSTS",
        "FILE_SYSTEM",
        "STOP_GRACE",
        "SPOT_DISCOUNT",
        "IMAGE_RULES",
        "LOG_LEVEL",
    ):
        assert f"SAGELET_{name}" in text.replace("\n", "")


def test_options_reach_the_server(started: list[Settings], tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.touch()
    options = [
        "--host",
        "0.0.0.0",
        "--auth",
        "--tls",
        "--port",
        "0",
        "--runtime",
        "process",
        "--gpus",
        "off",
        "--max-jobs",
        "3",
        "--stop-grace",
        "5",
        "--spot-discount",
        "0.5",
    ]
    result = run("up", *options, "--data", str(tmp_path), "--image-rules", str(rules))
    assert isinstance(result.exception, Started)
    assert started == [
        Settings(
            data=tmp_path.resolve(), host="0.0.0.0", port=0, runtime=RuntimeChoice.PROCESS, gpus=GpuPolicy.OFF,
            auth=True, tls=True, max_jobs=3, stop_grace_seconds=5, spot_discount=0.5, image_rules=rules,
        )
    ]  # fmt: skip


def test_variables_reach_the_server_and_options_win(started: list[Settings], tmp_path: Path) -> None:
    variables = {
        "SAGELET_HOST": "::1",
        "SAGELET_PORT": "1234",
        "SAGELET_DATA": str(tmp_path),
        "SAGELET_RUNTIME": "process",
        "SAGELET_GPUS": "require",
        "SAGELET_MAX_JOBS": "9",
        "SAGELET_STOP_GRACE": "7",
    }
    run("up", "--port", "4321", **variables)
    (settings,) = started
    assert (settings.host, settings.port, settings.data) == ("::1", 4321, tmp_path.resolve())
    assert (settings.runtime, settings.gpus) == (RuntimeChoice.PROCESS, GpuPolicy.REQUIRE)
    assert (settings.max_jobs, settings.stop_grace_seconds) == (9, 7)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--port", "-1"], "--port"),
        (["--port", "70000"], "--port"),
        (["--port", "x"], "--port"),
        (["--max-jobs", "0"], "--max-jobs"),
        (["--stop-grace", "-1"], "--stop-grace"),
        (["--runtime", "podman"], "--runtime"),
        (["--gpus", "many"], "--gpus"),
        (["--allow-host", "http://sagelet"], "--allow-host http://sagelet"),
        (["--allow-host", "sagelet:4599"], "--allow-host sagelet:4599"),
        (["--allow-host", "*"], "--allow-host *"),
        (["--allow-host", "0.0.0.0"], "--allow-host 0.0.0.0"),
        (["--image-rules", "/nowhere.toml"], "--image-rules"),
        (["--data", "/proc/no/such"], "--data"),
        (["--data", "/etc/hostname"], "--data"),
        (["--data", f"/{'a' * 300}"], "--data"),
        (["--host", "256.0.0.1", "--port", "0"], "--host"),
        *((["--host", name, "--auth", "--port", "0"], "--host") for name in ("", "a..b", "a" * 64, "[::1]")),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(tmp_path: Path, options: Sequence[str], named: str) -> None:
    result = run("up", "--runtime", "process", *options, SAGELET_DATA=str(tmp_path / "data"))
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit)
    error = result.output.splitlines()[-1]
    assert error.startswith("Error: ")
    assert named in error


@pytest.mark.parametrize("words", [(), ("--detach",)])
def test_a_port_that_is_taken_leaves_no_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    def start(*_: Any) -> Any:
        raise Started

    monkeypatch.setattr("sagelet_api.cli.up.start_detached", start)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = ("127.0.0.1", holder.getsockname()[1])
        data = tmp_path / "new" / "data"
        options = ("--runtime", "process", "--port", str(address[1]), "--data", str(data))
        result = run("up", *words, *options)
    assert result.exit_code == 1
    assert f"127.0.0.1:{address[1]} is in use by process " in result.output
    assert "choose another port with --port (SAGELET_PORT)" in result.output
    assert not (tmp_path / "new").exists()


def test_a_port_that_is_taken_leaves_an_existing_data_directory(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        result = run("up", "--runtime", "process", "--port", port, "--data", str(tmp_path / "empty"))
    assert f"127.0.0.1:{port} is in use by process " in result.output
    assert (tmp_path / "empty").is_dir()


def test_an_address_of_no_machine_leaves_no_data_directory(tmp_path: Path) -> None:
    result = run("up", "--runtime", "process", "--host", "192.0.2.1", "--auth", "--data", str(tmp_path / "data"))
    assert result.exit_code == 1
    assert "Cannot listen on 192.0.2.1:4599 (--host, --port): " in result.output
    assert not (tmp_path / "data").exists()


def test_allowed_hosts_are_options_or_one_variable(started: list[Settings], tmp_path: Path) -> None:
    run("up", "--allow-host", "sagelet", "--allow-host", "fd00::1", SAGELET_DATA=str(tmp_path))
    run("up", SAGELET_DATA=str(tmp_path), SAGELET_ALLOW_HOST="sagelet, sagelet.lan,")
    assert [one.allowed_hosts for one in started] == [("sagelet", "fd00::1"), ("sagelet", "sagelet.lan")]


@pytest.mark.parametrize(("variable", "named"), [("SAGELET_PORT", "--port"), ("SAGELET_GPUS", "--gpus")])
def test_a_wrong_variable_is_named_too(variable: str, named: str) -> None:
    result = run("up", **{variable: "wrong"})
    assert result.exit_code == 2
    assert named in result.output


def test_wrong_image_rules_are_named(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("= no TOML")
    result = run("up", "--runtime", "process", "--data", str(tmp_path), "--image-rules", str(tmp_path / "rules.toml"))
    assert result.exit_code == 1
    assert f"The image rules {tmp_path}/rules.toml are not TOML" in result.output


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    lock = lock_directory(tmp_path)
    result = run("up", "--runtime", "process", "--data", str(tmp_path), "--port", "0")
    lock.close()
    assert result.exit_code == 1
    assert "another sagelet (process " in result.output


def test_what_stands_in_for_a_uri() -> None:
    assert run("image", "resolve", DLC).output.startswith(f"sagelet/training:{sagelet_engine.__version__}  (rule: ")
    found = json.loads(run("image", "resolve", DLC, "--json").output)
    assert found["image"] == f"sagelet/training:{sagelet_engine.__version__}"
    assert found["uri"] == DLC
    assert found["refusal"] is None


def test_own_rules_come_first(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "mine"\nmatch = ".*"\nimage = "own:1"\n')
    for result in (
        run("image", "resolve", DLC, "--image-rules", str(rules)),
        run("image", "resolve", DLC, SAGELET_IMAGE_RULES=str(rules)),
    ):
        assert result.output == "own:1  (rule: mine)\n"


def test_a_uri_that_a_rule_refuses_is_an_error(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "no"\nmatch = ".*"\nrefuse = "there is none"\n')
    result = run("image", "resolve", DLC, "--image-rules", str(rules))
    assert result.exit_code == 1
    assert "there is none" in result.output
    as_json = run("image", "resolve", DLC, "--json", "--image-rules", str(rules))
    assert json.loads(as_json.output)["image"] is None


def test_rules_that_are_wrong_are_named(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nmatch = '('\nimage = 'x'\n")
    result = run("image", "resolve", DLC, "--image-rules", str(rules))
    assert result.exit_code == 1
    assert str(rules) in result.output


@pytest.mark.parametrize("count", [0, 2])
def test_the_list_of_images(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    from datetime import datetime, timezone

    from sagelet_engine.images.listing import LocalImage

    created = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
    images = [
        LocalImage(reference=f"sagelet/training:{n}", id=f"sha256:{n}", kind="training", size=7_100_000_000,
                   created=created, current=n == 0)
        for n in range(count)
    ]  # fmt: skip
    monkeypatch.setattr("sagelet_engine.images.listing.list_images", lambda: images)
    rows = json.loads(run("image", "list", "--json").output)
    assert [row["reference"] for row in rows] == [found.reference for found in images]
    text = run("image", "list").output
    if not count:
        assert text == "no images: `sagelet image build` makes one\n"
        return
    assert rows[0] == {
        "reference": "sagelet/training:0", "id": "sha256:0", "kind": "training", "size": 7_100_000_000,
        "created": "2026-01-02T03:04:00+00:00", "current": True,
    }  # fmt: skip
    assert text.splitlines() == [
        "sagelet/training:0\t7100000000\t2026-01-02T03:04:00.000Z\tyes",
        "sagelet/training:1\t7100000000\t2026-01-02T03:04:00.000Z\tno",
    ]


FIRST, SECOND = "fs-0123456789abcdef0", "fs-0123abcd"


def test_file_systems_are_named_by_option_or_variable(started: list[Settings], tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "c=d").mkdir()
    texts = [f"{FIRST}={tmp_path}/a b", f"{SECOND}={tmp_path}/c=d"]
    run("up", "--data", str(tmp_path / "data"), "--file-system", texts[0], "--file-system", texts[1])
    run("up", "--data", str(tmp_path / "data"), SAGELET_FILE_SYSTEM=":".join(texts), SAGELET_MAX_HOSTS="3")
    for settings in started:
        assert settings.file_systems == {FIRST: tmp_path / "a b", SECOND: tmp_path / "c=d"}
    assert [settings.max_hosts for settings in started] == [None, 3]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["/tmp"], "--file-system /tmp: must be of the form"),
        ([f"{FIRST}=/nowhere/at/all"], "must be a directory that exists"),
        (["fs-1=/tmp"], "a file system's id is fs- and 8 to 18 of"),
        ([f"{FIRST}=/usr", f"{FIRST}=/etc"], f"{FIRST} has a directory already"),
    ],
)
def test_a_bad_file_system_fails_at_start(
    started: list[Settings], tmp_path: Path, texts: list[str], words: str
) -> None:
    options = [word for text in texts for word in ("--file-system", text)]
    result = run("up", "--data", str(tmp_path), *options)
    assert result.exit_code != 0
    assert words in result.output.replace("\n", " ")
    assert started == []


@pytest.mark.parametrize("answer", [b'["version"]', b'"version"', b"5", b'{"version": 1}'])
def test_another_program_at_the_endpoint_is_no_server(answer: bytes) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        result = run("status", "--endpoint", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert result.exit_code == 1
    assert "is not a sagelet server" in result.output


@pytest.mark.parametrize(
    ("endpoint", "shown"),
    [
        ("http://0.0.0.0:4599", "http://localhost:4599"),
        ("https://[::]:80", "https://localhost:80"),
        ("http://10.0.0.1:4599", "http://10.0.0.1:4599"),
    ],
)
def test_a_browser_gets_an_address_that_it_can_open(endpoint: str, shown: str) -> None:
    assert up._for_browsers(endpoint) == shown
