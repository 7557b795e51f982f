"""moto, Flask and botocore load late and share packages: they must not be loaded at once by two threads."""

import subprocess
import sys
from pathlib import Path

import pytest

# In an interpreter of its own, since here both are loaded already.
BOTH_AT_ONCE = """
import threading
import time
from sagelet_api.control.endpoints import ControlApp
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.control.throttling import Throttling
from unittest.mock import MagicMock

environ = {ENVIRON}

bridge = MotoBridge()
threading.Thread(target=bridge.process.app).start()
while "werkzeug" not in sys.modules:
    time.sleep(0.0001)
answers = []
body = b"".join(ControlApp(MagicMock(), Throttling())(environ, lambda status, *_rest: answers.append(status)))
assert answers == ["404 NOT FOUND"], (answers, body)
assert bridge.process.backend("events") is not None
"""
ENVIRON = {
    "REQUEST_METHOD": "GET", "PATH_INFO": "/_sagelet/none", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
    "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http",
}  # fmt: skip


def test_a_control_call_while_moto_loads() -> None:
    script = f"import sys; sys.path[:0] = {sys.path!r}" + BOTH_AT_ONCE.replace("{ENVIRON}", repr(ENVIRON))
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr


#: What a server that nobody calls, and that has no jobs, does not load. Each is the door to many more.
LATE = {
    # Large packages of others. urllib.request brings http.client, which only clients need.
    "boto3", "botocore", "docker", "flask", "moto", "psutil", "regex", "rich", "torch", "urllib.request", "werkzeug",
    # Services, by their first call.
    "sagelet_api.hub.service", "sagelet_api.services.logs.service", "sagelet_api.services.metric_queries.answer",
    "sagelet_api.services.s3.service", "sagelet_api.services.sagemaker.operations", "sagelet_api.web.site",
    # What works on jobs and orchestrations, by the first of them.
    "sagelet_engine.comparison.comparing", "sagelet_engine.doctor.rules", "sagelet_engine.execution.supervisor",
    "sagelet_engine.pipelines.facet", "sagelet_engine.pipelines.work", "sagelet_engine.reports.facet",
    "sagelet_engine.state.checking", "sagelet_engine.tuning.facet", "sagelet_engine.tuning.work",
    # Other runtimes.
    "sagelet_engine.runtimes.docker", "sagelet_engine.runtimes.slurm", "sagelet_engine.scheduling.cluster",
}  # fmt: skip
UNTIL_READY = """
from pathlib import Path
from sagelet_api.cli import main, up, up_options
from sagelet_api.serve import Sagelet
from sagelet_engine.settings import RuntimeChoice, Settings
import socket

server = Sagelet(Settings(data=Path("{DATA}"), port=0, runtime=RuntimeChoice.PROCESS))
server.start()
with socket.create_connection(("127.0.0.1", server.server.port)) as client:
    client.sendall(b"GET /_sagelet/health HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n")
    answer = b"".join(iter(lambda: client.recv(65536), b""))
assert b'"status": "ok"' in answer, answer
late = {LATE}
loaded = sorted(late & set(sys.modules))
server.stop()
assert loaded == [], loaded
"""


def test_a_server_is_ready_before_it_loads_what_few_calls_need(tmp_path: Path) -> None:
    until_ready = UNTIL_READY.replace("{DATA}", str(tmp_path)).replace("{LATE}", repr(LATE))
    script = f"import sys; sys.path[:0] = {sys.path!r}" + until_ready
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


#: What loads botocore in a server, each in an interpreter of its own: the first one loads it for the others.
USES = {
    "names": 'operation_names.models_of("sagemaker")[0].operations',
    "models": 'validation.rule_book("logs")',
    "S3": "s3_request.service_model()",
    "presigned": 'objects_origin.presigned(KeyPair("k", "s"), "http://s3.localhost", "1", "r", "b", "k")',
    "version 4": 'signatures.check(CALL, ENVIRON, Claim("k", "d", "r", "s3", ("host",), "", "", None), SECRET, "")',
    "version 2": "signature_v2.check_version_2(CALL, ENVIRON, SECRET, datetime.now(timezone.utc))",
}
WATCHED = """
from datetime import datetime, timezone
from email.utils import format_datetime
from importlib.abc import MetaPathFinder
from sagelet_api.auth import objects_origin, signature_v2, signatures
from sagelet_api.auth.callers import Secret
from sagelet_engine.model.principal import owner
from sagelet_api.auth.signatures import Claim
from sagelet_api.protocol import operation_names, validation
from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.calls import HEADERS, parse_call
from sagelet_api.protocol.s3 import request as s3_request
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.base.loading import LOADING

seen, alone = set(), set()

class Watch(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith("botocore"):
            (seen if LOADING._is_owned() else alone).add(name)

sys.meta_path.insert(0, Watch())
SECRET = Secret("s", owner("123456789012"))
ENVIRON = {
    "REQUEST_METHOD": "GET", "PATH_INFO": "/b/k", "REQUEST_URI": "/b/k", "QUERY_STRING": "",
    HEADERS: {"host": "localhost", "authorization": "AWS k:s", "date": format_datetime(datetime.now(timezone.utc))},
}
CALL = parse_call(ENVIRON)
try:
    {USE}
except AwsError as error:
    assert error.code == "SignatureDoesNotMatch", error
assert seen and not alone, (seen, alone)
"""


@pytest.mark.parametrize("use", USES)
def test_botocore_is_loaded_by_one_thread_at_a_time(use: str) -> None:
    script = f"import sys; sys.path[:0] = {sys.path!r}" + WATCHED.replace("{USE}", USES[use])
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr


RIGHTS_OF_A_JOB = """
from sagelet_api.auth.authorization import Authorization
from sagelet_api.services.iam import execution_role
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model.principal import of_role

account, iam = "123456789012", MotoBridge().iam
roles = [f"arn:aws:iam::{account}:role{path}{name}" for name, path in execution_role.ROLES.items()]
roles += [f"arn:aws:iam::{account}:role/none", f"arn:aws:iam::{account}:role/x/SageMakerRole", "none"]
for role in roles:
    Authorization(iam, enforce_iam=False)(of_role(account, role), "s3:GetObject", "arn:aws:s3:::bucket/key")
before = [[*iam.role_policies(role)] for role in roles]
assert "moto" not in sys.modules
iam._moto.app()
assert [[*iam.role_policies(role)] for role in roles] == before
"""


def test_the_rights_of_a_job_do_not_load_moto_before_somebody_has_made_a_role() -> None:
    script = f"import sys; sys.path[:0] = {sys.path!r}" + RIGHTS_OF_A_JOB
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
