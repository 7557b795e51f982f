"""A web page of another origin, in a real browser, against sagelet and against moto_server.

The page is `attacker.html`. It comes from evil.example, and from a name that its owner has rebound to this machine.
What it reaches at moto_server stands here to show that the attempts are real: any wrapper of moto lets a page in.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import boto3
import pytest
from moto.server import ThreadedMotoServer

from support.browser import Attacker, ReboundName, visiting
from support.server import SageletProcess, until

pytestmark = pytest.mark.browser

SECRET = "what the page may not read"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
#: What the owner of evil.example says in its DNS; moto takes a first label for a bucket.
NAMES = {"evil.example": "127.0.0.1", "private.example": "127.0.0.1"}
OBJECTS = {"secret.txt", "private/secret.txt", "pixel.png", "page.html"}


class Victim:
    """A server with something to protect."""

    def __init__(self, endpoint: str) -> None:
        self.port = int(endpoint.rpartition(":")[2])
        self._endpoint = endpoint
        s3 = self.client("s3")
        s3.create_bucket(Bucket="private")
        for key in OBJECTS - {"pixel.png"}:
            s3.put_object(Bucket="private", Key=key, Body=SECRET.encode(), ContentType="text/html")
        s3.put_object(Bucket="private", Key="pixel.png", Body=PIXEL, ContentType="image/png")

    def client(self, service: str) -> Any:
        keys = {"aws_access_key_id": "123456789012", "aws_secret_access_key": "any"}
        return boto3.client(service, endpoint_url=self._endpoint, region_name="us-east-1", **keys)

    def jobs(self) -> set[str]:
        return {one["TrainingJobName"] for one in self.client("sagemaker").list_training_jobs()["TrainingJobSummaries"]}

    def keys(self) -> set[str]:
        return {one["Key"] for one in self.client("s3").list_objects_v2(Bucket="private")["Contents"]}


@pytest.fixture(scope="module")
def sagelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """As people run it: any key opens, so that all is up to the request guard."""
    process = SageletProcess(tmp_path_factory.mktemp("sagelet") / "data", "--runtime", "process").start()
    yield Victim(process.endpoint)
    process.stop()


@pytest.fixture(scope="module")
def moto() -> Iterator[Victim]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield Victim(f"http://{host}:{port}")
    server.stop()


@pytest.fixture(scope="module")
def reports(sagelet: Victim, moto: Victim, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each page saw, by its name. One browser for all of them."""
    page = Path(__file__).with_name("attacker.html").read_bytes()
    with (
        Attacker(page) as attacker,
        ReboundName(attacker.server_port, sagelet.port) as to_sagelet,
        ReboundName(attacker.server_port, moto.port) as to_moto,
    ):
        home = f"http://evil.example:{attacker.server_port}"

        def attack(name: str, target: str, origin: str = home) -> None:
            query = urlencode({"name": name, "target": target, "home": home})
            attacker.frames.append(f"{origin}/attack?{query}")

        attack("sagelet-address", f"http://127.0.0.1:{sagelet.port}")
        attack("sagelet-name", f"http://localhost:{sagelet.port}")
        attack("moto-address", f"http://127.0.0.1:{moto.port}")
        for name, port in (("sagelet-rebound", to_sagelet.port), ("moto-rebound", to_moto.port)):
            attack(name, f"http://private.example:{port}", f"http://private.example:{port}")
        with visiting(f"{home}/", tmp_path_factory.mktemp("browser") / "profile", NAMES):
            until(lambda: len(attacker.reports) == len(attacker.frames), 180)
    return attacker.reports


@pytest.mark.parametrize("page", ["sagelet-address", "sagelet-name", "sagelet-rebound"])
def test_the_page_reads_nothing_of_sagelet(reports: dict[str, Any], page: str) -> None:
    report = reports[page]
    assert SECRET not in str(report)
    assert report["image shows an object"] == "refused"
    read = {what: result for what, result in report.items() if what.startswith("fetch")}
    assert len(read) == 6
    if page == "sagelet-rebound":
        # Its own origin, as the browser sees it: it reads that it is refused.
        assert {result["status"] for result in read.values()} == {403}
        assert all("is not a name of this sagelet server" in result["text"] for result in read.values())
    else:
        assert set(read.values()) == {"refused: TypeError"}


def test_the_page_changes_nothing_at_sagelet(reports: dict[str, Any], sagelet: Victim) -> None:
    assert reports
    assert sagelet.jobs() == set()
    assert sagelet.keys() == OBJECTS
    assert sagelet.client("s3").get_object(Bucket="private", Key="secret.txt")["Body"].read() == SECRET.encode()
    assert sagelet.client("iam").list_users()["Users"] == []
    # Nothing that it threw at the control endpoint throttles a call.
    assert sagelet.client("sagemaker").list_training_jobs()["ResponseMetadata"]["RetryAttempts"] == 0


def test_the_same_page_has_its_way_with_moto_server(reports: dict[str, Any], moto: Victim) -> None:
    direct, rebound = reports["moto-address"], reports["moto-rebound"]
    assert {"moto-address-fetch", "moto-rebound-fetch"} <= moto.jobs()
    for report in (direct, rebound):
        assert report["fetch with headers creates a job"]["status"] == 200
        assert "moto-address-fetch" in str(report["fetch with headers lists jobs"]) or report is rebound
        assert report["fetch of a presigned URL reads an object"] == {"status": 200, "text": SECRET}
        assert report["fetch puts an object"]["status"] == 200
    assert direct["image shows an object"] == "loaded"
    until(lambda: {"fetched", "private/fetched", "moto-address-form"} <= moto.keys())
