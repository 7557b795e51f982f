"""Every file format that comes from outside, with inputs that grow: neither work nor memory grows faster.

`test_every_reader_is_walked` finds each module that reads JSON, archives, XML, YAML, scripts or regular expressions. It
is walked here, or its input is bounded or sagelet's own, and the table says by what.
"""

import ast
import base64
import io
import json
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest

from sagelet_api.protocol import page_tokens
from sagelet_api.services.iam.trust import Caller, trusts
from sagelet_api.services.logs.patterns import compile_pattern
from sagelet_api.web.folders import members_at
from sagelet_engine.base import left_on_node, tarballs
from sagelet_engine.base.contents import contents
from sagelet_engine.comparison import trainer_log
from sagelet_engine.data.end_notes import failure_text
from sagelet_engine.doctor.sources import Sources
from sagelet_engine.functions import package
from sagelet_engine.hub import records
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.spec import MetricDefinition
from sagelet_engine.pipelines import outputs
from sagelet_engine.runtimes.docker.log import FrameParser, LineAssembler
from sagelet_engine.telemetry.compiler.reading import DIRECTORY, workers_of
from sagelet_engine.telemetry.metrics import MetricDefinitions, compile_regex
from support.growth import Grown, faults, length

ROOT = Path(__file__).resolve().parents[2]


def archive(names: list[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as opened:
        for name in names:
            opened.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


def packed(names: list[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for name in names:
            opened.writestr(name, "")
    return buffer.getvalue()


def unpacked(unpack: Callable[[Path, Path], None]) -> Callable[[bytes], Any]:
    """Returns a reader that unpacks into a directory of its own, and says how many names came out."""

    def read(data: bytes) -> Any:
        with tempfile.TemporaryDirectory() as directory:
            file, target = Path(directory, "file"), Path(directory, "target")
            file.write_bytes(data)
            unpack(file, target)
            return sum(1 for _ in target.rglob("*"))

    return read


def untar(file: Path, target: Path) -> None:
    target.mkdir()
    tarballs.unpack(file, target)


def unzip(file: Path, target: Path) -> None:
    package.unpack(file.read_bytes(), target)


def in_a_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    def call(data: bytes) -> Any:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            return read(Path(directory))

    return call


def metric_points(text: str) -> int:
    definitions = MetricDefinitions([MetricDefinition("m", r"loss=([0-9.]+)"), MetricDefinition("n", r".*a.*b([0-9])")])
    events = [LogEvent(number, line) for number, line in enumerate(text.split("\n"))]
    return len(definitions.points(events))


def docker_lines(data: bytes) -> int:
    parser, assembler = FrameParser(), LineAssembler(None)
    return sum(len(assembler.feed(parser.feed(data[at : at + 65536]))) for at in range(0, len(data), 65536))


def frames(text: bytes, units: int) -> bytes:
    payload = b"2026-01-01T00:00:00.000000001Z " + text
    return (struct.pack(">BxxxI", 1, len(payload)) + payload) * units


def loops(text: str) -> int:
    return sum(script.in_loop(call.lineno) for script in Sources({"train.py": text}) for call in script.calls())


def filtered(pattern: str) -> Callable[[str], Any]:
    matches = compile_pattern(pattern)
    assert matches is not None
    return lambda text: sum(matches(line) for line in text.split("\n"))


def repository(units: int) -> bytes:
    files = {f"f{number}": [1, "0" * 64, "0" * 40] for number in range(units)}
    commits = {"0" * 40: {"created_ms": 1, "files": files}}
    record = {"format": records.FORMAT, "kind": "models", "id": "a/b", "refs": {"main": "0" * 40}, "commits": commits}
    return json.dumps(record).encode()


def report(units: int) -> bytes:
    numbers = [{"step": number, "steps": 1, "seconds": 1.0} for number in range(units)]
    return json.dumps({"format": 1, "timeline": numbers, "graphs": numbers, "x": numbers}).encode()


def names(units: int) -> list[str]:
    return [f"d{number % 10}/f{number}" for number in range(units)]


TRUSTS = Caller.service("sagemaker.amazonaws.com")
#: A format, what grows in it, and its reader.
FORMATS: dict[str, tuple[Callable[[int], Any], Callable[[Any], Any]]] = {
    "tar, members listed": (lambda n: archive(names(n)), lambda data: contents(io.BytesIO(data)).members),
    "tar, long names listed": (
        lambda n: archive([f"{number:06}{'n' * 4000}" for number in range(n)]),
        lambda data: sum(len(member.name) for member in contents(io.BytesIO(data)).members),
    ),
    "tar, folders of a page": (
        lambda n: archive([f"{'d/' * 200}{name}" for name in names(n)]),
        lambda data: members_at(contents(io.BytesIO(data)).members, "d/" * 100),
    ),
    "tar, unpacked": (lambda n: archive(names(n)), unpacked(untar)),
    "zip, unpacked": (lambda n: packed(names(n)), unpacked(unzip)),
    "regular expression, letters": (lambda n: "a" * min(n, 500), lambda text: compile_regex(text).pattern),
    "metrics, many lines": (lambda n: "loss=1.5 a b2\n" * n, metric_points),
    "metrics, a long line": (lambda n: "loss=1.5 a " * n, metric_points),
    "Docker's log, many lines": (lambda n: frames(b"a line\n", n), docker_lines),
    "Docker's log, a line without an end": (lambda n: frames(b"a line", n), docker_lines),
    "failure file": (
        lambda n: b"\xff" * 100 * n, in_a_file("output/failure", lambda at: failure_text(at / "output/failure"))
    ),
    "report of a worker": (
        report, in_a_file("/".join((*DIRECTORY, "worker-0.json")), lambda at: workers_of(at, "algo-1"))
    ),
    "what a node left out": (
        lambda n: json.dumps({f"checkpoints/{number}": "SPECIAL" for number in range(n)}).encode(),
        in_a_file(left_on_node.NAME, lambda at: len(left_on_node.left_below(at, PurePath("checkpoints")))),
    ),
    "Trainer's log": (
        lambda n: "{'loss': 1.0, 'epoch': 1.0}\n" * n, lambda text: len(trainer_log.parse(text.split("\n")).train)
    ),
    "script, calls in a loop": (lambda n: "for x in y:\n" + "    loss.backward()\n" * n, loops),
    "script, loops in functions": (lambda n: "def f():\n    for x in y:\n        loss.backward()\n" * n, loops),
    "filter pattern, JSON": (lambda n: json.dumps({"a": ["b"] * n}), filtered('{ $.a = "b*" }')),
    "filter pattern, fields": (lambda n: "[ \" word " * n, filtered("[a, ..., b]")),
    "filter pattern, terms": (lambda n: "word " * n, filtered('word -nothing ?x %[a-z]+d%')),
    "record of the hub": (repository, lambda data: len(records.decoded(data).commits)),
    "trust policy": (
        lambda n: json.dumps(
            {"Statement": [{"Effect": "Allow", "Action": "*a*b*", "Principal": {"AWS": ["x"] * 3}}] * n}
        ),
        lambda text: trusts(text, TRUSTS),
    ),
    "token of a page": (
        lambda n: base64.urlsafe_b64encode(json.dumps(["a"] * n).encode()).decode(),
        lambda text: page_tokens.decode(text, str),
    ),
    "answer of a function": (
        lambda n: json.dumps({f"k{number}": "v" for number in range(n)}),
        lambda text: outputs.read(text, [{"OutputName": "k0", "OutputType": "String"}]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_costs_no_more_than_its_size(name: str) -> None:
    make, read = FORMATS[name]
    assert [*faults(Grown(name, make), read, length, patience=0)] == []


# --- nobody is left out -----------------------------------------------------------------------------------------------

#: Calls that read a format.
READERS = frozenset(
    {
        "json.loads", "json.load", "nofollow.parsed", "nofollow.read_json", "json_files.read_json", "tarfile.open",
        "zipfile.ZipFile", "gzip.GzipFile", "ElementTree.XMLParser", "ElementTree.fromstring", "csv.reader",
        "ast.parse", "ast.literal_eval", "yaml.load", "yaml.safe_load", "zlib.decompressobj", "regex.compile",
        "tomllib.loads", "pickle.loads", "pickle.load", "plistlib.loads", "request.get_json",
    }
)  # fmt: skip
#: Modules whose readers the walk above calls, and those that requests reach (`test_growing_requests.py`).
WALKED = frozenset(
    {
        "api/sagelet_api/control/faults.py", "api/sagelet_api/control/state.py",
        "api/sagelet_api/protocol/java_patterns.py", "api/sagelet_api/protocol/page_tokens.py",
        "api/sagelet_api/protocol/s3/xml.py", "api/sagelet_api/services/iam/identity.py",
        "api/sagelet_api/services/iam/trust.py", "api/sagelet_api/services/logs/json_patterns.py",
        "api/sagelet_api/services/s3/configuration_rules.py", "api/sagelet_api/services/sagemaker/search.py",
        "api/sagelet_api/web/columns.py", "emulator/sagelet_engine/base/contents.py",
        "emulator/sagelet_engine/base/extraction.py", "emulator/sagelet_engine/base/left_on_node.py",
        "emulator/sagelet_engine/base/tarballs.py",
        "emulator/sagelet_engine/comparison/trainer_log.py", "emulator/sagelet_engine/data/end_notes.py",
        "emulator/sagelet_engine/doctor/sources.py", "emulator/sagelet_engine/functions/package.py",
        "emulator/sagelet_engine/hub/records.py",
        "emulator/sagelet_engine/pipelines/definition.py", "emulator/sagelet_engine/pipelines/outputs.py",
        "emulator/sagelet_engine/store/search.py", "emulator/sagelet_engine/telemetry/compiler/reading.py",
        "emulator/sagelet_engine/telemetry/metrics.py",
    }
)  # fmt: skip
#: Beginnings of paths of modules that are not walked, and why not.
NOT_WALKED = {
    "api/sagelet/": "runs in the program of the user, and reads what the server answers",
    "api/sagelet_api/cli/": "runs in the command of the user, and reads the user's own files",
    "api/sagelet_api/servers/": "the user's own file of contexts",
    "api/sagelet_api/auth/": "bodies of at most MAX_BODY, each searched once for roles and types of steps",
    "api/sagelet_api/hub/service.py": "a list of paths of at most _MAX_BODY bytes, each looked up once",
    "api/sagelet_api/protocol/calls.py": "the first reader of each request that is walked",
    "api/sagelet_api/protocol/operation_names.py": "a file of sagelet's own",
    "api/sagelet_api/protocol/sts_sessions.py": "a token that sagelet has signed, of a header's length",
    "api/sagelet_api/protocol/unpacking.py": "`test_sizes.py`: a bound of its output",
    "api/sagelet_api/services/lambda_functions.py": "events of at most 6 MiB, which are only checked to be JSON",
    "api/sagelet_api/services/local_calls.py": "answers of sagelet's own operations",
    "api/sagelet_api/services/moto/iam_records.py": "records that sagelet wrote",
    "emulator/sagelet_engine/base/json_files.py": "16 MiB at most, and one pass of Python's JSON",
    "emulator/sagelet_engine/base/nofollow.py": "as many bytes as its caller says, and one pass of Python's JSON",
    "emulator/sagelet_engine/compile_cache/": "files of a bounded number of bytes, read in one pass",
    "emulator/sagelet_engine/data/": "MAX_MANIFEST bytes of a manifest; the rest are notes that sagelet wrote itself",
    "emulator/sagelet_engine/functions/": "notes of sagelet's own, and answers of at most 6 MiB",
    "emulator/sagelet_engine/hub/label_names.py": "headers of LONGEST_HEADER bytes at most",
    "emulator/sagelet_engine/hub/tiny_model.py": "a tokenizer that it made itself",
    "emulator/sagelet_engine/images/": "the user's own settings, and answers of the engine",
    "emulator/sagelet_engine/instances/": "a file of sagelet's own",
    "emulator/sagelet_engine/machine/": "answers of the machine's own programs",
    "emulator/sagelet_engine/model/spec.py": "a hyperparameter, of at most 2,500 letters",
    "emulator/sagelet_engine/pipelines/documents.py": "8 MiB, read in one pass; `unit/pipelines/test_bounds.py`",
    "emulator/sagelet_engine/reports/": "records of the store, and hyperparameters of at most 2,500 letters",
    "emulator/sagelet_engine/runtimes/": "plans and states that sagelet wrote; `test_batches.py` for a node's files",
    "emulator/sagelet_engine/s3/catalog.py": "rows that sagelet wrote",
    "emulator/sagelet_engine/scheduling/": "a hyperparameter, of at most 2,500 letters",
    "emulator/sagelet_engine/state/": "the user's own data directory and exports",
    "emulator/sagelet_engine/store/": "rows that sagelet wrote",
    "images/runtime/": "runs in the job, and reads the job's own files",
}


def readers() -> set[str]:
    """Returns the modules that read a format."""
    files = [file for root in ("api", "emulator", "images/runtime") for file in (ROOT / root).rglob("*.py")]
    return {
        str(file.relative_to(ROOT))
        for file in files
        if any(
            isinstance(node, ast.Call) and ast.unparse(node.func) in READERS
            for node in ast.walk(ast.parse(file.read_text()))
        )
    }


def test_every_reader_is_walked() -> None:
    found = readers()
    left = {path for path in found - WALKED if not path.startswith(tuple(NOT_WALKED))}
    assert left == set(), "walk them in FORMATS, or say in NOT_WALKED what bounds their input"
    assert WALKED - found == set(), "these read no format any more"
