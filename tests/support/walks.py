"""Pages walked as a person walks them: printed commands, one terminal after another, in an empty home."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from support.packages import sites
from support.pythons import OTHERS, ROOT
from support.server import until

README = "README.md"
TUTORIAL = "docs/tutorial/first-compiled-job.md"
INSTALL = "docs/how-to/install.md"
NOTEBOOKS = "examples/notebooks/README.md"
_GIGABYTES = (
    "a download of 1 GB: `make setup` runs the file that it runs, tests/unit/images/test_install_torch.py its steps"
)
_IN_THE_MINUTE = "install.md's minute runs it, with pytest beside it"

#: Commands that tests/acceptance/test_walks.py and test_notebooks.py run, by walk and page, in their order.
WALKED: dict[str, dict[str, tuple[str, ...]]] = {
    "newcomer": {
        TUTORIAL: (
            "mkdir first-job",
            "cd first-job",
            "python3 -m venv .venv",
            ". .venv/bin/activate",
            "sagelet up --runtime process",
            ". .venv/bin/activate",
            "sagelet run -- python submit.py compiled-1",
            "sagelet doctor compiled-1",
            "sagelet run -- python submit.py compiled-2",
            "sagelet doctor compiled-2",
            "sagelet run -- python submit.py native-2",
            "sagelet compare native-2 compiled-2 --html report.html",
        ),
        README: (
            "sagelet up",
            "sagelet run -- python train_job.py",
            "sagelet jobs",
            "sagelet doctor JOB",
            "sagelet compare NATIVE COMPILED",
        ),
    },
    "without torch": {
        INSTALL: (
            "python3 -m venv .venv",
            ". .venv/bin/activate",
            "pip install 'sagelet @ git+REPOSITORY' pytest",
            "sagelet doctor",
        ),
    },
    "from the hub": {
        NOTEBOOKS: (
            "sagelet hub make-tiny distilbert-base-uncased",
            "python make_sst2.py sst2",
            "sagelet hub add sst2 --as nyu-mll/glue --dataset",
            "sagelet run --hub -- jupyter lab",
        ),
    },
}
#: Commands that no walk runs, and why.
LEFT: dict[str, dict[str, str]] = {
    README: {
        "make demo": "tests/acceptance/test_demo.py runs the demo of it",
        "make test": "CI runs it",
        "pip install 'sagelet @ git+REPOSITORY'": _IN_THE_MINUTE,
        "sagelet install-torch": _GIGABYTES,
    },
    TUTORIAL: {
        "pip install 'sagelet @ git+REPOSITORY' 'sagemaker<3'": "the environments of the tests are in its place",
        "sagelet install-torch": _GIGABYTES,
    },
    INSTALL: {
        "pip install 'sagelet @ git+REPOSITORY'": _IN_THE_MINUTE,
        "sagelet image build": "CI runs it: `make image`",
        "sagelet install-torch": _GIGABYTES,
        "sagelet bundle sagelet-bundle --gpu cuda13": _GIGABYTES,
        "sagelet-bundle/install.sh sagelet-env": "tests/unit/images/test_bundle.py runs the script",
        "sagelet-env/bin/sagelet doctor": "test_wheel.py runs it in a fresh environment",
    },
    NOTEBOOKS: {
        "pip install -r requirements.txt": "the environments of the tests are in its place",
        "sagelet up --detach": "the tests have a server",
        "sagelet run -- jupyter lab": "test_notebooks.py runs the other two notebooks in a kernel of their own",
    },
}
#: How many blocks of Python each page prints; a walk saves each of them to a file.
PYTHON_BLOCKS = {README: 2, TUTORIAL: 3, INSTALL: 1, NOTEBOOKS: 0}


def printed(page: str) -> list[str]:
    """Returns the commands that a page prints after `$ `, without the comments beside them."""
    lines = [line for block in _blocks(page, "console") for line in block.splitlines()]
    return [re.split(r"\s{2,}#", line[2:])[0].strip() for line in lines if line.startswith("$ ")]


def python_blocks(page: str) -> list[str]:
    return _blocks(page, "python")


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def unaccounted(page: str) -> Counter[str]:
    """Returns the printed commands that no walk runs and that have no reason, with how often."""
    run = Counter(command for walk in WALKED.values() for command in walk.get(page, ()))
    return Counter(command for command in printed(page) if command not in LEFT.get(page, {})) - run


class Walk:
    """Hands out a walk's commands in their order, so that none can be left out."""

    def __init__(self, name: str) -> None:
        self._commands = [command for page in WALKED[name].values() for command in page]

    def next(self, beginning: str) -> str:
        command = self._commands.pop(0)
        assert command.startswith(beginning)
        return command

    def end(self) -> None:
        assert self._commands == []


class Terminal:
    """A shell, whose directory and variables stay from command to command."""

    def __init__(self, directory: Path, environ: dict[str, str]) -> None:
        self.directory = directory
        self.environ = dict(environ)

    def run(self, command: str, *, code: int = 0, seconds: float = 900) -> str:
        """Runs a command, checks its exit code, and returns all that it printed. Raises AssertionError."""
        state = 'code=$?; { pwd; env -0; } >&"$STATE"; exit $code'
        reading, writing = os.pipe()
        with os.fdopen(reading) as states:
            done = subprocess.run(
                ["bash", "-c", f"{command}\n{state}"], cwd=self.directory, env={**self.environ, "STATE": str(writing)},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, pass_fds=[writing],
            )  # fmt: skip
            os.close(writing)
            directory, _, variables = states.read().partition("\n")
        assert done.returncode == code, f"{command}\n{done.stdout}"
        self.directory = Path(directory)
        self.environ = dict(one.split("=", 1) for one in variables.split("\0") if "=" in one)
        return done.stdout


class Serving:
    """A server in a terminal of its own, ended by Ctrl-C."""

    def __init__(self, terminal: Terminal, command: str) -> None:
        self.output: list[str] = []
        self._process = subprocess.Popen(
            shlex.split(command), cwd=terminal.directory, env=terminal.environ, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> "Serving":
        try:
            until(lambda: self.endpoint or self._process.poll() is not None)
            assert self.endpoint, self.output
        except AssertionError:
            self._process.kill()
            raise
        return self

    @property
    def endpoint(self) -> str:
        found = re.search(r"^sagelet \S+ ready: (\S+) \(", "".join(self.output), re.MULTILINE)
        return found[1] if found else ""

    def __exit__(self, *_error: object) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(timeout=120) == 0, self.output

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.output.extend(iter(self._process.stdout.readline, ""))


def home(directory: Path) -> dict[str, str]:
    """Makes an empty home and returns the variables of a person there: none of AWS's, of sagelet's or of the tests'.

    Servers take a free port, because others may have 4599. pip and uv keep the caches of whoever runs the tests.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    place = directory / "home"
    place.mkdir()
    python = Path(sys.base_prefix) / "bin"
    own = Path.home() / ".cache"
    caches = {name: os.environ.get(name, str(own / name[:-10].lower())) for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR")}
    path = f"{python}{os.pathsep}{kept['PATH']}"
    return {**kept, "HOME": str(place), "PATH": path, **caches, "SAGELET_PORT": "0"}


def furnish(environment: Path, *others: Path) -> None:
    """Puts sagelet, torch and `others`' packages into a virtual environment, in the place of `pip install`."""
    packages = [next(other.resolve().glob("lib/python*/site-packages")) for other in others]
    (own,) = environment.glob("lib/python*/site-packages")
    added = "".join(f"; site.addsitedir({str(directory)!r})" for directory in [*sites(), *packages])
    (own / "of-the-tests.pth").write_text(f"import site{added}\n")
    program = Path(sys.executable).with_name("sagelet").read_text().partition("\n")[2]
    sagelet = environment / "bin" / "sagelet"
    sagelet.write_text(f"#!{environment / 'bin' / 'python'}\n{program}")
    sagelet.chmod(0o755)
