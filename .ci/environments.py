"""Makes the environments of this checkout: `python .ci/environments.py .venv .venv-sdk`. The Makefile calls it.

`python .ci/environments.py install ARGUMENTS` installs packages by uv or pip.

It says first what comes and what it takes, shows on one line what it does, and prints the seconds of each step. What uv
and pip say is in `setup.log` of the environment, and is shown if a command fails. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "images/training"))

from installing.progress import Progress, Step  # noqa: E402
from installing.tool import InstallFailed, choose  # noqa: E402

TORCH_INSTALLER = ROOT / "images/training/install_torch.py"
RUNTIME = ROOT / "images/runtime"
SAGELET = f"{ROOT}[xla,dev]"
#: What install_torch.py installs while the others come: uv leaves out a requirement whose marker is never true.
NO_TORCH = "".join(f"{name}; python_version < '3'\n" for name in ("torch", "torch_xla"))


@dataclass(frozen=True)
class Target:
    """Packages in a directory of an environment, because their versions do not fit those beside them."""

    name: str
    requirements: tuple[str, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Environment:
    #: What is in it, and what it takes.
    title: str
    #: A file in `tests`. Empty: sagelet itself, with torch.
    requirements: str = ""
    targets: tuple[Target, ...] = ()


#: transformers 4.17 comes without its tokenizers, which have no wheel for this Python; nothing here needs them.
ENVIRONMENTS: Mapping[str, Environment] = {
    ".venv": Environment(
        "sagelet, torch without CUDA and the tools: 2.1 GB, of which 400 MB are downloaded (SAGELET_TORCH_BUILD=cuda: "
        "7.9 GB); a minute or two"
    ),
    ".venv-sdk": Environment(
        "the SageMaker SDK v2 and the AWS CLI: 1.0 GB; a minute or two", "clients-requirements.txt"
    ),
    ".venv-sdk3": Environment("the SageMaker SDK v3; a minute", "clients-v3-requirements.txt"),
    ".venv-s3": Environment(
        "other people's S3 clients; a minute",
        "s3-clients-requirements.txt",
        (Target("boto3-1.26", ("boto3>=1.26,<1.27",)),),
    ),
    ".venv-hub": Environment(
        "clients of the Hugging Face Hub; a minute",
        "hub-clients-requirements.txt",
        (
            Target("2021", ("transformers==4.17.0", "huggingface_hub==0.4.0"), ("--no-deps",)),
            Target("2022", ("huggingface_hub==0.10.1",), ("--no-deps",)),
        ),
    ),
}


@dataclass
class Commands:
    """Runs commands whose output goes into a log, and shows each line of it in the step that the thread works at."""

    log: Path
    lock: threading.Lock = field(default_factory=threading.Lock)
    steps: dict[int, Step] = field(default_factory=dict)

    @contextmanager
    def showing(self, step: Step) -> Iterator[None]:
        self.steps[threading.get_ident()] = step
        try:
            yield
        finally:
            del self.steps[threading.get_ident()]

    def __call__(self, command: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
        step = self.steps.get(threading.get_ident())
        with subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self._write(line)
                if step is not None and line.strip():
                    step.now = line.strip()
        return process.returncode

    def _write(self, text: str) -> None:
        with self.lock, self.log.open("a", encoding="utf-8") as log:
            log.write(text)


def missing_for_extensions() -> str | None:
    """Returns what to do if sagemaker-training, which has a C extension and no wheel, cannot be built. Else None."""
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python.h is not installed, which one dependency needs: apt-get install python3-dev"
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        return "A C compiler is not installed, which one dependency needs: apt-get install gcc"
    return None


class Setup:
    """Makes one environment in its directory, which may be a link to one that outlives this checkout."""

    def __init__(self, directory: Path, environment: Environment) -> None:
        self.directory = directory
        self.environment = environment
        self.progress = Progress()
        self.python = str(directory / "bin/python")
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / "setup.log"
        self.log.unlink(missing_ok=True)
        self.commands = Commands(self.log)

    def run(self) -> None:
        """Raises InstallFailed."""
        self._do("Python's environment and what installs", self._begin)
        if self.environment.requirements:
            file = str(ROOT / "tests" / self.environment.requirements)
            self._do("packages", lambda: self.tool(["install", "-r", file]))
        else:
            self._install_sagelet()
        for target in self.environment.targets:
            self._do(target.name, lambda target=target: self._fill(target))

    def _begin(self) -> None:
        if not self.environment.requirements and (missing := missing_for_extensions()):
            raise InstallFailed(missing)
        if not Path(self.python).exists():
            self._run([sys.executable, "-m", "venv", str(self.directory)])
        beside = [str(ROOT / ".venv/bin/python")]
        self.tool = choose(self.python, beside, self.progress.say, self.commands)

    def _install_sagelet(self) -> None:
        """torch and the other packages side by side where uv installs. Two pips would get in each other's way."""
        if self.tool.uv is None:
            self._do("torch", self._install_torch)
        else:
            with ThreadPoolExecutor(2) as threads:
                torch = threads.submit(self._do, "torch", self._install_torch)
                others = threads.submit(self._do, "the other packages", self._install_others)
            torch.result()
            others.result()
        self._do("sagelet", lambda: self.tool(["install", "-e", SAGELET]))

    def _install_torch(self) -> None:
        self._run([self.python, str(TORCH_INSTALLER)])
        self._run(["env", f"PYTHONPATH={RUNTIME}", self.python, "-m", "sagelet_runtime.inductor.prepared"])

    def _install_others(self) -> None:
        overrides = self.directory / "without-torch.txt"
        overrides.write_text(NO_TORCH)
        self.tool(["install", "--override", str(overrides), "-e", SAGELET])
        overrides.unlink()

    def _fill(self, target: Target) -> None:
        directory = self.directory / target.name
        shutil.rmtree(directory, ignore_errors=True)
        self.tool(["install", *target.options, "--target", str(directory), *target.requirements])

    def _do(self, name: str, work: Callable[[], None]) -> None:
        with self.progress.step(name) as step, self.commands.showing(step):
            work()

    def _run(self, command: Sequence[str]) -> None:
        if self.commands(command):
            raise InstallFailed(f"failed: {' '.join(command)}")


def make(name: str) -> bool:
    """Makes an environment, and shows its log if that fails."""
    environment = ENVIRONMENTS[name]
    # Scripts of an environment have its path in them, so that is the one that remains.
    setup = Setup((ROOT / name).resolve(), environment)
    setup.progress.say(f"{name}: {environment.title}; {name}/setup.log")
    try:
        with setup.progress.shown():
            setup.run()
    except InstallFailed as error:
        print(setup.log.read_text(encoding="utf-8") if setup.log.exists() else "", file=sys.stderr)
        print(f"{error}\nThis failed; the lines above are {name}/setup.log.", file=sys.stderr)
        return False
    setup.progress.say(f"{name}: {setup.progress.seconds:.0f} s")
    return True


def install(arguments: Sequence[str]) -> int:
    """Installs with the Python that runs this, by uv or pip, whose output is this process's own."""
    try:
        choose()(["install", *arguments])
    except InstallFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def main(names: Sequence[str]) -> int:
    if names[:1] == ["install"]:
        return install(names[1:])
    return 0 if all(make(name) for name in names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
