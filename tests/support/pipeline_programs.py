"""Programs that stand for images in pipelines which run twice: by the SDK's local mode, and by sagelet in fast-forward.

A program reads and writes what SageMaker's container contract has under `/opt/ml`, and nothing else. In fast-forward it
runs in the test's process (`in_fast_forward`). For local mode this file is `docker compose`: `install` writes a
`docker` that runs it, and it runs the program in place of the containers of a compose file.
"""

import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sagelet.testing import FastForward
    from sagelet.testing.job import HostJob

#: Variables that a pipeline gives its jobs begin so. The platform's own differ between the two sides.
PREFIX = "APP_"
#: Seconds that each program takes in fast-forward.
SECONDS = 10


@dataclass(frozen=True)
class Container:
    """What a program finds: its files, its environment, and its command line after the name of the program."""

    #: Returns the directory of this machine that has the given path in the container.
    place: Callable[[str], Path]
    environment: Mapping[str, str]
    arguments: tuple[str, ...]

    def config(self, path: str) -> Any:
        file = self.place(f"/opt/ml/{path}")
        return json.loads(file.read_text()) if file.exists() else None

    @property
    def trains(self) -> bool:
        return self.config("input/config/hyperparameters.json") is not None

    @property
    def options(self) -> dict[str, str]:
        """Hyperparameters, or arguments `--name value`."""
        if self.trains:
            found: dict[str, str] = self.config("input/config/hyperparameters.json")
            return found
        return {name.removeprefix("--"): value for name, value in zip(self.arguments, self.arguments[1:], strict=False)}

    def inputs(self) -> dict[str, Path]:
        """The directories of channels or inputs by name."""
        if self.trains:
            channels = self.config("input/config/inputdataconfig.json")
            return {name: self.place(f"/opt/ml/input/data/{name}") for name in channels}
        return self._processing(
            "ProcessingInputs", "InputName", "S3Input", self.config("config/processingjobconfig.json")
        )

    def outputs(self) -> dict[str, Path]:
        """The directories that are uploaded, by name."""
        if self.trains:
            return {"model": self.place("/opt/ml/model")}
        config = self.config("config/processingjobconfig.json").get("ProcessingOutputConfig") or {}
        return self._processing("Outputs", "OutputName", "S3Output", config)

    def _processing(self, member: str, name: str, source: str, config: Mapping[str, Any]) -> dict[str, Path]:
        return {one[name]: self.place(one[source]["LocalPath"]) for one in config.get(member) or []}

    def seen(self) -> dict[str, Any]:
        """Returns all that the pipeline gave this container, for a comparison."""
        own = {name: value for name, value in self.environment.items() if name.startswith(PREFIX)}
        return {
            "hyperparameters": self.options if self.trains else None,
            "arguments": [*self.arguments],
            "environment": own,
            "inputs": {name: _files(directory) for name, directory in sorted(self.inputs().items())},
        }


def copy(container: Container) -> int:
    """Writes its inputs, in upper case, into every output. Notes of earlier containers are left out."""
    for output in container.outputs().values():
        for name, directory in container.inputs().items():
            for path, text in _files(directory).items():
                if path.endswith("seen.json"):
                    continue
                target = output / name / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text.upper())
    return 0


def report(container: Container) -> int:
    """Writes the JSON text of the option `report` as `report.json` into every output."""
    for output in container.outputs().values():
        (output / "report.json").write_text(container.options["report"])
    return 0


def broken(container: Container) -> int:
    """Ends with the exit code of the option `code`."""
    return int(container.options.get("code", "1"))


def silent(_container: Container) -> int:
    """Does nothing."""
    return 0


PROGRAMS: Mapping[str, Callable[[Container], int]] = {
    "copy": copy,
    "report": report,
    "broken": broken,
    "silent": silent,
}


def run(image: str, container: Container) -> int:
    """Runs the program of an image such as `programs/copy:1`. Returns its exit code.

    Every output gets `seen.json`, so a comparison of outputs compares what the containers were given.
    """
    seen = json.dumps(container.seen(), indent=1, sort_keys=True)
    for output in container.outputs().values():
        (output / "seen.json").write_text(seen)
    return PROGRAMS[PurePosixPath(image).name.partition(":")[0]](container)


def _files(directory: Path) -> dict[str, str]:
    """Returns the texts of the files in a directory by their paths. An archive shows what is in it."""
    found = {}
    for file in sorted(one for one in directory.rglob("*") if one.is_file()):
        content = file.read_bytes()
        path = file.relative_to(directory).as_posix()
        found.update(members(path, content) if path.endswith(".tar.gz") else {path: content.decode()})
    return found


def members(path: str, archive: bytes) -> dict[str, str]:
    """Returns the texts of the files in a tar archive by `PATH/NAME`."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        files = {one.name: opened.extractfile(one) for one in opened.getmembers() if one.isfile()}
        return {f"{path}/{name}": file.read().decode() for name, file in sorted(files.items()) if file is not None}


# --- fast-forward -----------------------------------------------------------------------------------------------------


def in_fast_forward(server: "FastForward") -> None:
    """Makes every job of a server run the program of its image."""

    def work(job: "HostJob[Any]", specification: Mapping[str, Any], image: str) -> int:
        job.clock.advance(SECONDS)
        command = specification.get("ContainerEntrypoint", []) + specification.get("ContainerArguments", [])
        place = lambda path: job.opt_ml / PurePosixPath(path).relative_to("/opt/ml")  # noqa: E731
        return run(image, Container(place, job.environment, tuple(command[1:])))

    @server.train
    def train(job: Any) -> int:
        specification = job.request["AlgorithmSpecification"]
        return work(job, specification, specification["TrainingImage"])

    @server.process
    def process(job: Any) -> int:
        specification = job.request["AppSpecification"]
        return work(job, specification, specification["ImageUri"])


# --- docker compose ---------------------------------------------------------------------------------------------------

DOCKER = """#!/bin/sh
# The two calls that the SDK's local mode makes: `docker compose version`, and `docker compose -f FILE up ...`.
case "$1 $2" in
"compose version") echo "Docker Compose version v2.0.0";;
"compose -f") exec {python} {program} "$3";;
*) echo "not a command of this test: docker $*" >&2; exit 64;;
esac
"""


def install(directory: Path, python: Path) -> None:
    """Writes a program `docker` into a directory. `python` is the interpreter of the SDK's environment."""
    directory.mkdir()
    docker = directory / "docker"
    docker.write_text(DOCKER.format(python=python, program=Path(__file__).resolve()))
    docker.chmod(0o755)


def compose(services: Mapping[str, Mapping[str, Any]]) -> int:
    """Runs each service of a compose file, one after the other. Returns the first exit code that is not 0, or 0."""
    codes = [_service(service) for service in services.values()]
    return next((code for code in codes if code), 0)


def _service(service: Mapping[str, Any]) -> int:
    # A volume is /here:/there. Docker makes those that are not here.
    volumes = {PurePosixPath(there): Path(here) for here, there in (one.split(":") for one in service["volumes"])}
    for here in volumes.values():
        here.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own:

        def place(path: str) -> Path:
            """Returns where a path is: in the innermost volume that has it, or in the container's own file system."""
            inner = PurePosixPath(path)
            above = next((one for one in (inner, *inner.parents) if one in volumes), None)
            return Path(own, path.lstrip("/")) if above is None else volumes[above] / inner.relative_to(above)

        environment = dict(one.split("=", 1) for one in service["environment"])
        command: Sequence[str] = service.get("entrypoint", [])
        return run(service["image"], Container(place, environment, tuple(command[1:])))


def main(file: str) -> int:
    import yaml  # type: ignore[import-untyped]

    return compose(yaml.safe_load(Path(file).read_text())["services"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
