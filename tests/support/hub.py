"""Repositories for tests, and requests to the hub without a client library."""

import http.client
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sagelet_engine.hub.adding import Added, add
from sagelet_engine.hub.names import MAIN, Kind
from sagelet_engine.hub.sources import Folder
from sagelet_engine.hub.store import DIRECTORY, HubStore
from support.proxy import RecordingProxy

#: The data set of `load_dataset("glue", "sst2")`.
GLUE = {
    "sst2/train.csv": "sentence,label,idx\nbad movie,0,0\ngood movie,1,1\nfine,1,2\n",
    "sst2/validation.csv": "sentence,label,idx\nso so,0,0\n",
    "mrpc/train.csv": "sentence1,sentence2,label\na,b,1\n",
}


def write_files(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


def add_files(
    data: Path, directory: Path, name: str, kind: Kind = Kind.MODEL, revision: str = MAIN, now_ms: int = 1000
) -> Added:
    return add(HubStore(data), Folder(directory), kind, name, revision, now_ms)


def put_gpt2(data: Path) -> None:
    """Puts the model of `sagelet hub make-tiny gpt2` into a data directory. It is made once a process."""
    shutil.copytree(Path(_made_once().name) / DIRECTORY, data / DIRECTORY, dirs_exist_ok=True)


@cache
def _made_once() -> "tempfile.TemporaryDirectory[str]":
    directory = tempfile.TemporaryDirectory()
    program = Path(sys.executable).with_name("sagelet")
    subprocess.run([program, "hub", "make-tiny", "gpt2", "--data", directory.name], check=True)
    return directory


def left_for_others(proxy: RecordingProxy) -> list[str]:
    """Returns a client's requests to the outside, without the figures that `datasets` asks for."""
    return [line for line in proxy.seen if "//datasets-server.127.0.0.1:" not in line]


@dataclass(frozen=True)
class Answer:
    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    endpoint: str, path: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Sends one request and checks that nothing follows the answer on its connection."""
    parts = urlsplit(endpoint)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    try:
        connection.request(method, f"{parts.path}/{path}", body, dict(headers or {}))
        answer = connection.getresponse()
        content = answer.read()
        found = Answer(answer.status, answer.reason, {name.lower(): one for name, one in answer.getheaders()}, content)
        # A body after an answer to HEAD would be read as the beginning of the next answer.
        connection.request("GET", f"{parts.path}/api/models")
        assert connection.getresponse().status in (200, 403)
        return found
    finally:
        connection.close()
