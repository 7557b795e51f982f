"""images/training/install_torch.py: which torch it installs, and by which commands of pip."""

import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner

import install_torch
from install_torch import (
    CPU_INDEX,
    CPU_PLUGIN,
    CPU_PLUGIN_NAME,
    TORCH,
    TORCH_XLA,
    Installed,
    Installer,
    Wanted,
    installed_torch,
    is_reachable,
    unneeded_packages,
    wanted,
)
from installing.remote_wheel import NotInRanges, RemoteWheel
from installing.tool import InstallFailed
from sagelet_api.cli.main import main
from sagelet_engine.images import bundle
from sagelet_engine.images.context import DOCKERFILE, find_root
from sagelet_engine.images.own_torch import PREPARED, TorchNotInstalled, install_own_torch, requirements_of_the_extra
from sagelet_engine.images.variants import TorchBuild
from support.small_torch import torch_wheel
from torch_without_cuda.wheel import revision, without_cuda

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

XLA = f"install torch=={TORCH} torch_xla=={TORCH_XLA}"
PLUGIN = [
    f"download --dest DOWNLOADS --no-deps --only-binary :all: --require-hashes -r {CPU_PLUGIN}",
    f"install --force-reinstall --no-index --no-deps --find-links MADE {CPU_PLUGIN_NAME}",
]


class Pip:
    """Remembers what it is asked for. `download` puts a wheel into --dest, and a failing word makes a command fail."""

    def __init__(self, wheel: Path | None = None, failing: str = " ") -> None:
        self.commands: list[str] = []
        #: What the wheel that was to be installed held.
        self.members: list[str] = []
        #: What the plugin's wheel said of itself.
        self.metadata = ""
        self._wheel, self._failing = wheel, failing

    def __call__(self, arguments: Sequence[str]) -> None:
        command = " ".join(arguments)
        if "--dest" in arguments:
            destination = Path(arguments[arguments.index("--dest") + 1])
            destination.mkdir(exist_ok=True)
            if "--require-hashes" in arguments:
                self._write_plugin(destination / "plugin-1-py3-none-any.whl")
            else:
                assert self._wheel is not None
                shutil.copy(self._wheel, destination)
            command = command.replace(str(destination), "DOWNLOADS")
        if "--find-links" in arguments:
            found = Path(arguments[arguments.index("--find-links") + 1])
            with zipfile.ZipFile(next(found.iterdir())) as wheel:
                if arguments[-1] == CPU_PLUGIN_NAME:
                    self.metadata = wheel.read("plugin-1.dist-info/METADATA").decode()
                else:
                    self.members = wheel.namelist()
            command = command.replace(str(found), "MADE")
        self.commands.append(command)
        if self._failing in arguments:
            raise InstallFailed("pip failed")

    def _write_plugin(self, target: Path) -> None:
        with zipfile.ZipFile(target, "w") as wheel:
            wheel.writestr("plugin-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: plugin\nRequires-Dist: jax\n")
            wheel.writestr("plugin-1.dist-info/RECORD", "plugin-1.dist-info/METADATA,,\nplugin-1.dist-info/RECORD,,\n")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return torch_wheel(tmp_path_factory.mktemp("torch"))


def run(want: Wanted, pip: Pip, *, answers: bool = False, installed: Installed | None = None) -> list[str]:
    """Returns what was said."""
    said: list[str] = []
    Installer(want, pip, lambda url: answers, installed, said.append).run()
    return said


def test_pytorch_s_cpu_index_comes_first() -> None:
    pip = Pip()
    run(Wanted("cpu", torchvision="0.24.0"), pip, answers=True)
    assert pip.commands == [
        f"install --index-url {CPU_INDEX} torch=={TORCH}",
        f"install --index-url {CPU_INDEX} torch=={TORCH} torchvision==0.24.0",
        XLA,
        *PLUGIN,
        f"install torch=={TORCH} torchvision==0.24.0",
    ]


def test_the_ordinary_wheel_is_installed_without_its_kernels(wheel: Path) -> None:
    pip = Pip(wheel)
    said = run(Wanted("cpu", torchaudio="2.9.0"), pip)
    assert pip.commands == [
        f"download --no-deps --only-binary :all: --dest DOWNLOADS torch=={TORCH}",
        f"install --no-index --no-deps --force-reinstall --find-links MADE torch=={TORCH}",
        f"install torch=={TORCH}",
        XLA,
        *PLUGIN,
        f"install torch=={TORCH} torchaudio==2.9.0",
    ]
    assert "torch/lib/libcudart.so.12" in pip.members
    assert "torch/lib/libtorch_cuda_linalg.so" not in pip.members
    assert said[0] == f"{CPU_INDEX} does not answer"


def test_an_index_that_answers_and_has_no_torch_is_passed_over(wheel: Path) -> None:
    pip = Pip(wheel, failing=CPU_INDEX)
    said = run(Wanted("cpu"), pip, answers=True)
    assert pip.commands[1].startswith("download")
    assert f"{CPU_INDEX}: pip failed" in said


def test_a_wheel_that_cannot_be_made_smaller_is_installed_as_it_is(tmp_path: Path) -> None:
    pip = Pip(torch_wheel(tmp_path / "torch", has_cuda=False))
    said = run(Wanted("cpu"), pip)
    assert pip.commands[1:] == [f"install torch=={TORCH}", XLA, *PLUGIN]
    assert "The ordinary torch is taken, because" in said[-1]


def test_an_index_of_the_user_s_is_asked_alone() -> None:
    pip = Pip()
    run(Wanted("cpu", index_url="https://mine", torchvision="0.24.0", torch_xla=None), pip, answers=True)
    assert pip.commands == [
        f"install --index-url https://mine torch=={TORCH}",
        f"install --index-url https://mine torch=={TORCH} torchvision==0.24.0",
    ]


def test_cuda_is_what_pip_does() -> None:
    pip = Pip()
    run(Wanted("cuda"), pip, answers=True)
    assert pip.commands == [f"install torch=={TORCH}", XLA, *PLUGIN]


def test_xla_s_cpu_plugin_is_installed_where_it_can_be_had() -> None:
    pip = Pip()
    run(Wanted("cuda"), pip)
    assert pip.commands[-2:] == PLUGIN
    assert pip.metadata == "Metadata-Version: 2.1\nName: plugin\n", "it requires nothing"
    failing = Pip(failing="--require-hashes")
    assert "Without XLA's CPU plugin" in run(Wanted("cuda"), failing)[-1]
    assert failing.commands[-1] == PLUGIN[0]
    older = Pip()
    run(Wanted("cuda", torch_xla="2.1.0"), older)
    assert PLUGIN[0] not in older.commands, "torch_xla 2.1 loads no plugin"
    there = Pip()
    Installer(Wanted("cuda"), there, lambda url: True, None, has_cpu_plugin=True).run()
    assert PLUGIN[0] not in there.commands


def test_a_download_has_the_same_plugin(wheel: Path, tmp_path: Path) -> None:
    pip = Pip(wheel)
    Installer(Wanted("cpu"), pip, lambda url: False, None, has_cpu_plugin=True).download(tmp_path)
    assert pip.commands[1:] == PLUGIN[:1]
    with zipfile.ZipFile(tmp_path / "plugin-1-py3-none-any.whl") as left:
        assert left.read("plugin-1.dist-info/METADATA").decode() == "Metadata-Version: 2.1\nName: plugin\n"
        assert {member.compress_type for member in left.infolist()} == {zipfile.ZIP_DEFLATED}
    said: list[str] = []
    (tmp_path / "without").mkdir()
    failing = Pip(wheel, failing="--require-hashes")
    Installer(Wanted("cpu"), failing, lambda url: False, None, said.append).download(tmp_path / "without")
    assert [file.name for file in (tmp_path / "without").iterdir()] == [wheel.name]
    assert "Without XLA's CPU plugin" in said[-1]


def test_the_plugin_is_the_one_that_a_bundle_has() -> None:
    (pinned,) = [line for line in CPU_PLUGIN.read_text().splitlines() if not line.startswith("#")]
    assert re.fullmatch(rf"{re.escape(bundle.CPU_PLUGIN)} --hash=sha256:[0-9a-f]{{64}}", pinned)


@pytest.mark.parametrize(
    "found", [Installed(TORCH, revision(), has_cuda=False), Installed(f"{TORCH}+cpu", None, has_cuda=False)]
)
def test_what_is_installed_is_left(found: Installed) -> None:
    pip = Pip()
    said = run(Wanted("cpu"), pip, installed=found)
    assert pip.commands == [XLA, *PLUGIN]
    assert "is installed" in said[0]


@pytest.mark.parametrize(
    "found",
    [
        Installed(TORCH, "older", has_cuda=False),
        Installed("2.8.0+cpu", None, has_cuda=False),
        Installed(TORCH, None, has_cuda=True),
    ],
    ids=["another revision", "another version", "with CUDA"],
)
def test_another_torch_is_replaced(wheel: Path, found: Installed) -> None:
    pip = Pip(wheel)
    run(Wanted("cpu"), pip, installed=found)
    assert any("--force-reinstall" in command for command in pip.commands)


def test_cuda_replaces_a_torch_without_it() -> None:
    pip = Pip()
    run(Wanted("cuda"), pip, installed=Installed(TORCH, revision(), has_cuda=False))
    assert pip.commands[0] == f"install --force-reinstall --no-deps torch=={TORCH}"


def test_others_come_last_beside_the_same_torch() -> None:
    pip = Pip()
    run(wanted(["--build", "cuda", "transformers<5", "accelerate"]), pip)
    assert pip.commands[-1] == f"install torch=={TORCH} transformers<5 accelerate"


class Remote(RemoteWheel):
    """A wheel of which parts are asked for, beside this one."""

    def fetch(self, folder: Path, dropped: re.Pattern[str], progress: Callable[[int, int], None]) -> Path:
        if self.environ:
            raise NotInRanges("the index does not send ranges")
        progress(1, 2)
        return Path(shutil.copy(self.url, folder))


def test_what_is_for_gpus_is_not_downloaded_where_the_index_allows_it(wheel: Path) -> None:
    pip, said = Pip(wheel), list[str]()
    Installer(
        Wanted("cpu"), pip, lambda url: False, None, said.append, find_wheel=lambda _: Remote(str(wheel), {})
    ).run()
    assert pip.commands[0].startswith("install --no-index"), "nothing is downloaded by pip"
    assert "torch/lib/libtorch_cuda_linalg.so" not in pip.members
    assert "150 MB of 900 MB" in said[1]


def test_the_whole_wheel_is_downloaded_where_the_index_sends_no_ranges(wheel: Path) -> None:
    pip, said = Pip(wheel), list[str]()
    refusing = Remote(str(wheel), {"refuses": "1"})
    Installer(Wanted("cpu"), pip, lambda url: False, None, said.append, find_wheel=lambda _: refusing).run()
    assert pip.commands[0].startswith("download")
    assert "The whole wheel is downloaded, because the index does not send ranges" in said


def test_a_bundle_has_the_whole_wheel_where_it_cannot_be_made_smaller(tmp_path: Path) -> None:
    """The one that was read in parts lacks what the ordinary torch loads."""
    other = torch_wheel(tmp_path / "torch", has_cuda=False)
    pip = Pip(other)
    (tmp_path / "bundle").mkdir()
    remote = Remote(str(other), {})
    want = Wanted("cpu", torch_xla=None)
    Installer(want, pip, lambda url: False, None, find_wheel=lambda _: remote).download(tmp_path / "bundle")
    assert pip.commands == [f"download --no-deps --only-binary :all: --dest DOWNLOADS torch=={TORCH}"]
    assert [file.name for file in (tmp_path / "bundle").iterdir()] == [other.name]


def test_options_and_the_setting(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("SAGELET_TORCH_BUILD", raising=False)
    assert wanted([]) == Wanted("cpu")
    monkeypatch.setenv("SAGELET_TORCH_BUILD", "cuda")
    assert wanted(["--index-url", "", "--torch-xla", ""]) == Wanted("cuda", torch_xla=None)
    assert wanted(["--build", "auto"]).build == "cpu", "an option goes before the setting"
    monkeypatch.setenv("SAGELET_TORCH_BUILD", "gpu")
    with pytest.raises(SystemExit):
        wanted([])
    assert "SAGELET_TORCH_BUILD=gpu" in capsys.readouterr().err


def test_a_failure_of_pip_is_an_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SAGELET_INSTALLER", "pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert install_torch.main(["--build", "cuda", "--torch", "0.0.1"]) == 1
    assert "torch was not installed: pip failed: install torch==0.0.1" in capsys.readouterr().err
    monkeypatch.setenv("SAGELET_INSTALLER", "conda")
    assert install_torch.main([]) == 1
    assert "SAGELET_INSTALLER=conda: it is auto, uv, pip" in capsys.readouterr().err


class Answer(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/there/torch/" else 404)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def test_an_index_is_reachable_if_it_has_torch() -> None:
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        try:
            assert is_reachable(f"{address}/there", environ={})
            assert not is_reachable(f"{address}/elsewhere", environ={})
        finally:
            server.shutdown()
            thread.join()
    assert not is_reachable(f"{address}/there", environ={}), "nobody listens"
    assert not is_reachable(address, environ={"PIP_CERT": "/nonexistent"})


Distributions = Callable[..., list[Distribution]]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory that packages are looked for in."""

    def found(**_: object) -> list[Distribution]:
        return [PathDistribution(path) for path in sorted(tmp_path.glob("*.dist-info"))]

    def named(name: str) -> Distribution:
        for one in found():
            if one.metadata["Name"] == name:
                return one
        raise install_torch.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(install_torch.importlib.metadata, "distributions", found)
    monkeypatch.setattr(install_torch.importlib.metadata, "distribution", named)
    return tmp_path


def package(site: Path, name: str, *requires: str) -> None:
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir()
    lines = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{lines}")


def test_an_installed_torch_says_how_it_was_built(site: Path, wheel: Path, tmp_path: Path) -> None:
    assert installed_torch() is None
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    assert installed_torch() == Installed("2.9.0", None, has_cuda=True)
    (tmp_path / "made").mkdir()
    with zipfile.ZipFile(without_cuda(wheel, tmp_path / "made")) as archive:
        archive.extractall(site)
    assert installed_torch() == Installed("2.9.0", revision(), has_cuda=False)


def test_packages_that_only_an_earlier_torch_needed_are_named(site: Path) -> None:
    package(site, "nvidia-cudnn-cu12")
    package(site, "nvidia_nccl_cu12")
    package(site, "triton")
    package(site, "nvidia-ml-py")
    package(site, "other", "nvidia-nccl-cu12>=2; python_version > '3'")
    assert unneeded_packages() == ["nvidia-cudnn-cu12", "triton"]


def test_all_places_name_the_same_versions() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert f"torch=={TORCH}" in project["optional-dependencies"]["xla"]
    assert f"torch_xla=={TORCH_XLA}" in project["optional-dependencies"]["xla"]
    arguments = dict(re.findall(r"(?m)^ARG (TORCH\w*)=(.*)$", (find_root() / DOCKERFILE).read_text()))
    assert (arguments["TORCH"], arguments["TORCH_XLA"]) == (TORCH, TORCH_XLA)
    assert arguments["TORCH_BUILD"] == "cpu"


EXTRA = ["torch==2.9.0", "torch_xla==2.9.0", "transformers<5,>=4.57"]


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["docker<8,>=7.1", *(f"{line}; extra == 'xla'" for line in EXTRA), "ruff>=0.14; extra == 'dev'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)


@pytest.mark.usefixtures("metadata")
def test_sagelet_s_own_environment_gets_the_whole_extra() -> None:
    commands: list[list[str]] = []
    install_own_torch(TorchBuild.AUTO, lambda command: commands.append(list(command)) or 0)
    installer = str(find_root() / "training" / "install_torch.py")
    options = ["--build", "auto", "--torch", "2.9.0", "--torch-xla", "2.9.0"]
    assert commands == [
        [sys.executable, installer, *options, "transformers<5,>=4.57"],
        ["env", f"PYTHONPATH={find_root() / 'runtime'}", sys.executable, "-m", PREPARED],
    ]
    assert requirements_of_the_extra() == EXTRA


@pytest.mark.usefixtures("metadata")
def test_sagelet_s_own_environment_says_when_pip_fails() -> None:
    with pytest.raises(TorchNotInstalled, match=r"exit status 3.*ensurepip"):
        install_own_torch(TorchBuild.CPU, lambda command: 3)


def test_the_command_says_what_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    builds: list[TorchBuild] = []
    monkeypatch.setattr("sagelet_engine.images.own_torch.install_own_torch", builds.append)
    done = CliRunner().invoke(main, ["install-torch"])
    assert (done.exit_code, builds) == (0, [TorchBuild.AUTO])
    last = done.stdout.splitlines()[-1]
    assert last.startswith("Next: `sagelet demo`")
    assert "started again" in last
