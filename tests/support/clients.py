"""Programs in the virtual environment of the SageMaker SDK v2 and the AWS CLI."""

import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

from support.server import ACCOUNT, SageletProcess

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / ".venv-sdk"
CONFIG = ROOT / "examples" / "gpt2" / "sagemaker-config.yaml"


class Clients:
    """Runs client programs against a server, in a directory of their own."""

    def __init__(self, server: SageletProcess, directory: Path) -> None:
        self.directory = directory
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAGE"))},
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_PAGER": "",
            "SAGEMAKER_USER_CONFIG_OVERRIDE": str(CONFIG),
        }

    def python(self, script: Path, *arguments: str) -> dict[str, Any]:
        """Runs a script that prints a line `ANSWER {json}`."""
        output = self._run([str(ENVIRONMENT / "bin" / "python"), str(script), *arguments])
        line = next(line for line in output.splitlines() if line.startswith("ANSWER "))
        answer: dict[str, Any] = json.loads(line.removeprefix("ANSWER "))
        return answer

    def aws(self, *arguments: str) -> Any:
        """Runs the AWS CLI and returns its JSON."""
        output = self._run([str(ENVIRONMENT / "bin" / "aws"), *arguments])
        return json.loads(output) if output.strip() else None

    def listing(self, archive: str) -> list[str]:
        """Names in a tar file of the directory."""
        with tarfile.open(self.directory / archive) as opened:
            return opened.getnames()

    def member(self, archive: str, name: str) -> io.BytesIO:
        """The bytes of one file in a tar file of the directory."""
        with tarfile.open(self.directory / archive) as opened:
            file = opened.extractfile(name)
            assert file is not None
            return io.BytesIO(file.read())

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.directory, env=self._environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout
