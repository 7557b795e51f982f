"""`sagelet bundle`: what it asks pip for, what it leaves, and what its install.sh does on the other machine."""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

import sagelet_engine
from sagelet_api.cli.main import main
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.images import bundle
from sagelet_engine.images.bundle import BundleFailed, Gpu, Wanted, make_bundle
from sagelet_engine.images.variants import CPU_PLUGIN, TorchBuild

VERSION = sagelet_engine.__version__
SAGELET = f"sagelet-{VERSION}-py3-none-any.whl"


def write_wheel(directory: Path, name: str, version: str, requires: Sequence[str] = ()) -> None:
    """A package of one module, and a command of its name that prints its version."""
    module = name.replace("-", "_")
    information = f"{module}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Provides-Extra: tuning"]
    metadata += ["Provides-Extra: xla", *(f"Requires-Dist: {one}" for one in requires)]
    files = {
        f"{module}/__init__.py": f"def main():\n    print('{name} {version}')\n",
        f"{information}/METADATA": "\n".join(metadata) + "\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{information}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
    }
    files[f"{information}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{information}/RECORD"])
    with zipfile.ZipFile(directory / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for file, content in files.items():
            wheel.writestr(file, content)


class Pip:
    """Stands in for pip, which would download: each command leaves the small wheels that it would leave."""

    def __init__(self, failing: str = "nothing", *, has_cpu_plugin: bool = True) -> None:
        self.commands: list[list[str]] = []
        self._failing = failing
        self._has_cpu_plugin = has_cpu_plugin

    def __call__(self, command: Sequence[str]) -> int:
        words = list(command[1:])
        self.commands.append(words)
        into = Path(words[words.index("--download" if "--download" in words else "--wheel-dir") + 1])
        if self._failing in words or words[-1].endswith(self._failing):
            return 3
        if "--download" in words:
            write_wheel(into, "torch", "2.9.0")
            if self._has_cpu_plugin:
                write_wheel(into, *CPU_PLUGIN.split("=="))
        elif words[-2] == "--no-deps":
            write_wheel(into, "sagelet", VERSION, ["torch==2.9.0; extra == 'xla'"])
        return 0

    @property
    def packages(self) -> list[str]:
        """The names of what the command for all packages was asked for."""
        words = self.commands[-1]
        return [Path(word).name for word in words[words.index("--wheel-dir") + 2 :]]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    directory = tmp_path / "a bundle"
    make_bundle(directory, Wanted(), Pip())
    return directory


def install(directory: Path, environment: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Runs install.sh where no package index answers."""
    return subprocess.run(
        [directory / "install.sh", environment], capture_output=True, text=True, timeout=300, check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, "PIP_INDEX_URL": "http://127.0.0.1:9/", **variables},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "packages"),
    [
        (Wanted(), [f"{SAGELET}[tuning,xla]", "torch-2.9.0-py3-none-any.whl"]),
        (Wanted(torch_build=None), [f"{SAGELET}[tuning]"]),
        (
            Wanted(Gpu.CUDA13),
            [f"{SAGELET}[tuning,xla]", "torch-2.9.0-py3-none-any.whl", "jax-cuda13-plugin[with-cuda]"],
        ),
    ],
)
def test_pip_is_asked_for_everything_at_once(tmp_path: Path, wanted: Wanted, packages: list[str]) -> None:
    pip = Pip()
    make_bundle(tmp_path / "bundle", wanted, pip)
    assert pip.packages == packages
    requirements = (tmp_path / "bundle" / "requirements.txt").read_text().splitlines()
    assert requirements == [*wanted.requirements, *([] if wanted.torch_build is None else [CPU_PLUGIN])]


def test_a_bundle_without_the_cpu_plugin_does_not_require_it(tmp_path: Path) -> None:
    make_bundle(tmp_path / "bundle", Wanted(), Pip(has_cpu_plugin=False))
    assert (tmp_path / "bundle" / "requirements.txt").read_text().splitlines() == Wanted().requirements


@pytest.mark.parametrize("build", [TorchBuild.CPU, TorchBuild.CUDA])
def test_the_build_of_torch_is_the_one_that_was_chosen(tmp_path: Path, build: TorchBuild) -> None:
    pip = Pip()
    make_bundle(tmp_path / "bundle", Wanted(torch_build=build), pip)
    (words,) = (words for words in pip.commands if "--download" in words)
    assert words[1:7] == ["--build", build.value, "--torch", "2.9.0", "--torch-xla", "2.9.0"]


def test_the_sums_are_those_of_all_files(made: Path) -> None:
    sums = dict(line.split("  ")[::-1] for line in (made / "SHA256SUMS").read_text().splitlines())
    files = {str(file.relative_to(made)): file for file in made.rglob("*") if file.is_file()}
    assert sums.keys() == files.keys() - {"SHA256SUMS", "install.sh"}
    assert sums == {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in sums}


def test_another_machine_installs_it_without_an_index(made: Path, tmp_path: Path) -> None:
    done = install(made, tmp_path / "an environment")
    assert done.returncode == 0, done.stdout + done.stderr
    scripts = tmp_path / "an environment" / "bin"
    for command in ("sagelet", "torch", CPU_PLUGIN.partition("=")[0]):
        assert subprocess.run([scripts / command], capture_output=True, text=True, check=True).stdout
    assert done.stdout.endswith(f"Next: {tmp_path}/an environment/bin/sagelet doctor\n")
    checked = subprocess.run([scripts / "python", "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert checked.stdout == "No broken requirements found.\n"


def test_a_file_that_was_cut_on_the_way_is_not_installed(made: Path, tmp_path: Path) -> None:
    with (made / "wheels" / SAGELET).open("r+b") as wheel:
        wheel.truncate(100)
    done = install(made, tmp_path / "environment")
    assert done.returncode == 1
    assert f"wheels/{SAGELET}: FAILED" in done.stdout
    assert not (tmp_path / "environment").exists()


def test_another_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bundle.sys, "version_info", (3, 99, 0))
        make_bundle(tmp_path / "bundle", Wanted(torch_build=None), Pip())
    done = install(tmp_path / "bundle", tmp_path / "environment")
    assert done.returncode == 1
    assert "No Python 3.99 here" in done.stderr
    assert not (tmp_path / "environment").exists()


@pytest.mark.parametrize("failing", ["--download", "--no-deps"])
def test_nothing_is_left_of_a_bundle_that_fails(tmp_path: Path, failing: str) -> None:
    with pytest.raises(BundleFailed, match="exit status 3"):
        make_bundle(tmp_path / "bundle", Wanted(), Pip(failing))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_exists_stays_as_it_is(made: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in made.rglob("*")}
    with pytest.raises(SettingsError, match="exists already"):
        make_bundle(made, Wanted(), Pip())
    assert {file: file.stat().st_mtime_ns for file in made.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing/bundle", "--without-torch"], "missing is not a directory"),
        (["bundle", "--gpu", "cuda12", "--without-torch"], "--gpu cuda12 needs torch: leave out --without-torch"),
    ],
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["bundle", *words])
    assert done.exit_code == 1
    assert done.output == f"Error: {message}\n"
