"""The attacker is a web page, a container outside of any job, a job that has ended, or the author of an archive."""

import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import docker
import pytest

from sagelet_engine.base.keys import read_key_pair
from sagelet_engine.hub.access import reader
from sagelet_engine.hub.names import Kind
from sagelet_engine.hub.store import HubStore
from sagelet_engine.state.archive import ArchiveDamaged
from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from support.data_directory import fill
from support.hub import add_files, ask, write_files
from support.server import SageletProcess
from support.shell_jobs import ShellJobs
from support.tiny_image import ensure

SECRET = b"weights of a customer's"


def add_secret(data: Path, directory: Path) -> None:
    add_files(data, write_files(directory, {"config.json": SECRET}), "m")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    server = SageletProcess(tmp_path_factory.mktemp("hub") / "data", "--runtime", "process", "--auth").start()
    add_secret(server.data, tmp_path_factory.mktemp("source"))
    yield server
    server.stop()


@pytest.mark.parametrize(
    "part", ["", "~owner.", "~.", "~owner.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "~owner", "~job.%C3%BC", "~" + "x" * 2000]
)
def test_whoever_does_not_show_who_it_is_reads_nothing(server: SageletProcess, part: str) -> None:
    """Where signatures are checked: neither files nor lists, nor whether there is something."""
    endpoint = f"{server.endpoint}/_sagelet/hub" + (f"/{part}" if part else "")
    for path in ("m/resolve/main/config.json", "api/models/m", "api/models", "none/resolve/main/a"):
        answer = ask(endpoint, path)
        assert (answer.status, SECRET in answer.body) == (403, False)
        assert "x-error-code" not in answer.headers


def test_a_job_that_nobody_knows_reads_nothing(server: SageletProcess) -> None:
    keys = read_key_pair(server.data)
    assert keys is not None
    assert ask(f"{server.endpoint}/_sagelet/hub/{reader(keys, '0' * 32)}", "api/models").status == 403
    assert ask(f"{server.endpoint}/_sagelet/hub/{reader(keys, 'owner')}", "api/models").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"}, {"Origin": "null"},
    ],
)  # fmt: skip
def test_a_page_of_another_origin_reads_nothing(server: SageletProcess, headers: dict[str, str]) -> None:
    keys = read_key_pair(server.data)
    assert keys is not None
    endpoint = f"{server.endpoint}/_sagelet/hub/{reader(keys, 'owner')}"
    answer = ask(endpoint, "m/resolve/main/config.json", headers=headers)
    assert (answer.status, SECRET in answer.body) == (403, False)
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_file_of_the_hub_has_no_power_over_the_pages(server: SageletProcess, tmp_path: Path) -> None:
    """A model's card that is a web page, opened in a browser on the pages' own origin."""
    page = b"<script>fetch('/_sagelet/reset', {method: 'POST'})</script>"
    add_files(server.data, write_files(tmp_path / "s", {"index.html": page, "a.svg": page}), "page")
    keys = read_key_pair(server.data)
    assert keys is not None
    for name in ("index.html", "a.svg"):
        browser = {"Accept": "text/html,*/*", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none"}
        answer = ask(
            f"{server.endpoint}/_sagelet/hub/{reader(keys, 'owner')}", f"page/resolve/main/{name}", headers=browser
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["content-type"] in ("text/plain; charset=utf-8", "application/octet-stream")


@pytest.mark.parametrize(
    "path",
    [
        "m/resolve/main/..%2f..%2f..%2f..%2fcredentials", "m/resolve/main/%2e%2e/%2e%2e/credentials",
        "..%2f..%2f..%2f/resolve/main/credentials", "m/resolve/..%2f..%2f..%2fcredentials/x",
        "m/resolve/main/%2fetc%2fpasswd", "m/raw/main/.lock", "datasets/..%2fmodels%2fm/resolve/main/config.json",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_a_repository(server: SageletProcess, path: str) -> None:
    keys = read_key_pair(server.data)
    assert keys is not None
    answer = ask(f"{server.endpoint}/_sagelet/hub/{reader(keys, 'owner')}", path)
    assert answer.status == 404
    assert keys.secret.encode() not in answer.body


@pytest.mark.parametrize(
    "quoted", ["%00", "a%0D", "a%0D%0AX-Other:%20b", "a%0Ab", "%7F", "%1b[2J", "%C2%85", "%E2%80%AE", "x" * 9000]
)
@pytest.mark.parametrize("part", ["m/resolve/main/{}", "m/resolve/{}/config.json", "api/models/m/tree/main/{}", "{}"])
def test_any_text_in_a_path_is_refused_in_one_short_line(server: SageletProcess, part: str, quoted: str) -> None:
    """Refusals say in their head what was asked for: control characters there were an internal failure."""
    keys = read_key_pair(server.data)
    assert keys is not None
    answer = ask(f"{server.endpoint}/_sagelet/hub/{reader(keys, 'owner')}", part.format(quoted))
    assert answer.status == 404
    assert "x-other" not in answer.headers
    said = answer.headers["x-error-message"]
    assert len(said) < 4000
    assert said.isascii()
    assert said.isprintable()


def test_a_repository_whose_files_are_links_shows_nothing(server: SageletProcess, tmp_path: Path) -> None:
    """The attacker could write to the data directory's hub, for example through a restored backup."""
    added = add_files(server.data, write_files(tmp_path / "s", {"x": "x" * 40}), "linked")
    blob = server.data / "hub/blobs" / added.commit.files["x"].sha256
    (tmp_path / "secret").write_bytes(b"s" * 40)
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")
    keys = read_key_pair(server.data)
    assert keys is not None
    answer = ask(f"{server.endpoint}/_sagelet/hub/{reader(keys, 'owner')}", "linked/resolve/main/x")
    assert (answer.status, b"ssss" in answer.body) == (500, False)


@pytest.mark.docker
@pytest.mark.programs("busybox")
def test_a_container_that_is_no_job_reads_nothing(tmp_path: Path) -> None:
    """On Docker's bridge the plain path refuses everybody. A job's own path admits that job only."""
    engine = docker.from_env()
    server = SageletProcess(tmp_path / "data", "--runtime", "docker").start()
    try:
        add_secret(server.data, tmp_path / "s")
        jobs = ShellJobs(server, ensure(engine))
        fetch = "$B wget -q -O- $1/m/resolve/main/config.json && echo || echo refused"
        script = f"get() {{ {fetch}; }}; get $HF_ENDPOINT; get ${{HF_ENDPOINT%%/~*}}; get ${{HF_ENDPOINT}}x"
        name = jobs.start(script)
        assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
        said = [line for line in jobs.log(name) if line == "refused" or SECRET.decode() in line]
        assert said == [SECRET.decode(), "refused", "refused"]
        assert ask(f"{server.endpoint}/_sagelet/hub", "m/resolve/main/config.json").body == SECRET
    finally:
        server.stop()
        engine.close()


def hostile(exported: Path, target: Path, name: str, content: bytes) -> Path:
    """An archive with a member more; its digest is wrong, but that is looked at last."""
    with tarfile.open(exported) as old, tarfile.open(target, "w") as new:
        for member in old:
            if member.name == "sagelet-export-end.json":
                extra = tarfile.TarInfo(name)
                extra.size = len(content)
                new.addfile(extra, BytesIO(content))
            new.addfile(member, old.extractfile(member) if member.isreg() else None)
    return target


@pytest.mark.parametrize("name", ["hub/../credentials", "hub/blobs/../../credentials", "hub//credentials"])
def test_an_archive_writes_nowhere_else(tmp_path: Path, name: str) -> None:
    fill(tmp_path / "data")
    add_secret(tmp_path / "data", tmp_path / "s")
    export_data(tmp_path / "data", tmp_path / "saved.tar")
    archive = hostile(tmp_path / "saved.tar", tmp_path / "hostile.tar", name, b"key")
    with pytest.raises(ArchiveDamaged):
        import_data(archive, tmp_path / "new")
    assert not (tmp_path / "new/credentials").exists()
    assert HubStore(tmp_path / "new").find(Kind.MODEL, "m") is None
