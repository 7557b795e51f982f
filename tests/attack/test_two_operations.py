"""A request that names two operations: what is authorised would not be what runs.

The attacker is a job. Its credentials allow `sts:GetCallerIdentity` and `cloudwatch:PutMetricData`, and the requests
below name one of these beside what they are really for. All are answered with an error, and nothing has happened.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import request

FORM = "application/x-www-form-urlencoded"
JSON = "application/x-amz-json-1.1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/open"
ASSUME = f"Action=AssumeRole&Version=2011-06-15&RoleSessionName=eve&RoleArn={ROLE}"
USER = "Action=CreateUser&Version=2010-05-08&UserName=eve"
ALARMS = "Action=DeleteAlarms&Version=2010-08-01&AlarmNames.member.1=mine"
METRICS = "Action=PutMetricData&Version=2010-08-01&Namespace=n&MetricData.member.1.MetricName=m"
WHO = "Action=GetCallerIdentity&Version=2011-06-15"


@pytest.fixture(params=[False, True], ids=["any key opens", "--auth"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ApiWorld]:
    bridge = MotoBridge()
    bridge.process.forget()
    with ApiWorld(tmp_path, bridge, auth=request.param) as running:
        yield running


class Attacker:
    """Signs with the credentials of a job that trains."""

    def __init__(self, world: ApiWorld) -> None:
        self._world = world
        self.owner("sagemaker", "CreateTrainingJob", request("victim"))
        environment = world.host("victim").plan.environment
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        self._credentials = Credentials(*(environment[one] for one in names))

    def owner(self, service: str, operation: str, body: dict[str, Any]) -> tuple[int, bytes]:
        keys = self._world.engine.keys
        own = Credentials(keys.access_key, keys.secret)
        prefix = "SageMaker" if service == "sagemaker" else "x"
        headers = {"Content-Type": JSON, "X-Amz-Target": f"{prefix}.{operation}"}
        return self._send(own, service, "/", json.dumps(body).encode(), headers)

    def owner_form(self, service: str, form: str) -> tuple[int, bytes]:
        keys = self._world.engine.keys
        own = Credentials(keys.access_key, keys.secret)
        return self._send(own, service, "/", form.encode(), {"Content-Type": FORM})

    def send(self, service: str, target: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        """`_` in a header's name stands for `-`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._send(self._credentials, service, target, body, given)

    def _send(
        self, credentials: Credentials, service: str, target: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        url = f"http://127.0.0.1:{self._world.port}{target}"
        made = AWSRequest("POST", url, headers, body)
        SigV4Auth(credentials, service, REGION).add_auth(made)
        sent = {**dict(made.headers.items()), "Host": f"127.0.0.1:{self._world.port}"}
        answer = self._world._http.request("POST", url, body=body, headers=sent, retries=False)
        return answer.status, answer.data


@pytest.fixture
def attacker(world: ApiWorld) -> Attacker:
    attacker = Attacker(world)
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}]}
    made = f"Action=CreateRole&Version=2010-05-08&RoleName=open&AssumeRolePolicyDocument={json.dumps(trust)}"
    assert attacker.owner_form("iam", made)[0] == 200
    alarm = (
        "Action=PutMetricAlarm&Version=2010-08-01&AlarmName=mine&ComparisonOperator=GreaterThanThreshold"
        "&EvaluationPeriods=1&MetricName=m&Namespace=n&Period=60&Statistic=Sum&Threshold=1"
    )
    assert attacker.owner_form("monitoring", alarm)[0] == 200
    return attacker


CASES: list[tuple[str, str, bytes, dict[str, str]]] = [
    # As it was found: the target is looked at, the form runs.
    ("sts", "/", ASSUME.encode(), {"Content_Type": FORM, "X_Amz_Target": "X.GetCallerIdentity"}),
    ("iam", "/", USER.encode(), {"Content_Type": FORM, "X_Amz_Target": "X.GetCallerIdentity"}),
    ("monitoring", "/", ALARMS.encode(), {"Content_Type": FORM, "X_Amz_Target": "X.PutMetricData"}),
    # Two of one kind.
    ("sts", "/", f"{ASSUME}&{WHO}".encode(), {"Content_Type": FORM}),
    ("sts", "/", f"{WHO}&{ASSUME}".encode(), {"Content_Type": FORM}),
    ("monitoring", "/", f"{ALARMS}&{METRICS}".encode(), {"Content_Type": FORM}),
    ("monitoring", "/", f"{METRICS}&{ALARMS}".encode(), {"Content_Type": FORM}),
    # Form and query string.
    ("sts", f"/?{WHO}", ASSUME.encode(), {"Content_Type": FORM}),
    ("monitoring", f"/?{METRICS}", ALARMS.encode(), {"Content_Type": FORM}),
    ("sagemaker", "/?Action=CreateNotebookInstance", b'{"NotebookInstanceName":"x"}',
     {"Content_Type": JSON, "X_Amz_Target": "SageMaker.ListTrialComponents"}),
    # Where moto finds a name, and nobody else does.
    ("monitoring", "/", ALARMS.encode(), {"Content_Type": "text/plain"}),
    ("monitoring", "/", b"", {"Content_Type": "text/plain", "Action": "DeleteAlarms", "AlarmNames.member.1": "mine"}),
    ("monitoring", "/", gzip.compress(ALARMS.encode()), {"Content_Type": FORM, "Content_Encoding": "gzip"}),
    ("monitoring", f"/?{METRICS}", gzip.compress(ALARMS.encode()),
     {"Content_Type": FORM, "Content_Encoding": "gzip"}),
    ("iam", "/", USER.encode(), {"Content_Type": "multipart/form-data; boundary=x"}),
    ("iam", "/", b'--x\r\nContent-Disposition: form-data; name="Action"\r\n\r\nCreateUser\r\n'
     b'--x\r\nContent-Disposition: form-data; name="UserName"\r\n\r\neve\r\n--x--\r\n',
     {"Content_Type": "multipart/form-data; boundary=x"}),
    ("monitoring", "/service/X/operation/PutMetricData", ALARMS.encode(),
     {"Content_Type": FORM, "Smithy_Protocol": "rpc-v2-cbor"}),
    # A route of our own, and a target.
    ("sagemaker", "/BatchPutMetrics", b"{}", {"Content_Type": JSON, "X_Amz_Target": "SageMaker.ListTrainingJobs"}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_nothing_happens(world: ApiWorld, attacker: Attacker, case: tuple[str, str, bytes, dict[str, str]]) -> None:
    service, target, body, headers = case
    status, answer = attacker.send(service, target, body, **headers)
    assert status >= 400, answer
    assert b"AccessKeyId" not in answer
    assert b"<UserName>eve<" not in attacker.owner_form("iam", "Action=ListUsers&Version=2010-05-08")[1]
    assert b"<AlarmName>mine<" in attacker.owner_form("monitoring", "Action=DescribeAlarms&Version=2010-08-01")[1]
    assert world._bridge.process.backend("sagemaker")[ACCOUNT][REGION].notebook_instances == {}


def test_a_body_that_moto_takes_for_a_form(world: ApiWorld, attacker: Attacker) -> None:
    """The target header decides what runs, even if the body has another content type."""
    attacker.send("monitoring", "/", ALARMS.encode(), Content_Type=JSON, X_Amz_Target="X.PutMetricData")
    text = json.dumps({"Namespace": f"&{ALARMS}&", "MetricData": []}).encode()
    attacker.send("monitoring", "/", text, Content_Type=JSON, X_Amz_Target="X.PutMetricData")
    assert b"<AlarmName>mine<" in attacker.owner_form("monitoring", "Action=DescribeAlarms&Version=2010-08-01")[1]


def test_what_a_job_may_it_still_may(attacker: Attacker) -> None:
    """The same requests with one name."""
    assert attacker.send("sts", "/", WHO.encode(), Content_Type=FORM)[0] == 200
    assert attacker.send("sts", f"/?{WHO}", b"")[0] == 200
    assert attacker.send("monitoring", "/", METRICS.encode(), Content_Type=f"{FORM}; charset=utf-8")[0] == 200
    packed = gzip.compress(METRICS.encode())
    assert attacker.send("monitoring", "/", packed, Content_Type=FORM, Content_Encoding="gzip")[0] == 200


def test_an_owner_is_refused_likewise(attacker: Attacker) -> None:
    status, answer = attacker.owner_form("sts", f"{WHO}&{WHO}")
    assert (status, b"names 2 operations" in answer) == (400, True)


@pytest.mark.parametrize(
    "body", [gzip.compress(b"Action=X")[:-6], b"no gzip", gzip.compress(bytes(9 << 20))], ids=["cut", "none", "bomb"]
)
def test_a_compressed_form_that_is_none(attacker: Attacker, body: bytes) -> None:
    status, _ = attacker.send("monitoring", "/", body, Content_Type=FORM, Content_Encoding="gzip")
    assert status in (400, 413)
