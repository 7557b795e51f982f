"""A job wrote an object with scripts in it, and somebody opens it in Chromium.

`open`: as people run it. `auth`: the URL is one that a job presigned, and the person is logged in. `tls`: the same.
"""

import base64
import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from support.devtools import Browser, Page, driven
from support.jobs import Jobs
from support.server import ROLE, SageletProcess, until

pytestmark = pytest.mark.browser

JOB = {
    "TrainingJobName": "owned",
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "RoleArn": ROLE,
    "OutputDataConfig": {"S3OutputPath": "s3://tests/out"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
}
#: Tries what a script of the page could do, and says how far it came. PAGE: an origin of the page.
SCRIPT = """
const job = JSON.stringify(%s);
const aws = {
  method: "POST", body: job,
  headers: {
    "Authorization": "AWS4-HMAC-SHA256 Credential=123456789012/20991231/us-east-1/sagemaker/aws4_request, " +
      "SignedHeaders=host, Signature=0",
    "X-Amz-Target": "SageMaker.CreateTrainingJob", "Content-Type": "application/x-amz-json-1.1",
  },
};
const form = {
  method: "POST", credentials: "include", mode: "no-cors", body: new URLSearchParams({request: job}),
};
const read = async (url, init) => {
  const answer = await fetch(url, {credentials: "include", ...init});
  return {status: answer.status, text: (await answer.text()).slice(0, 200)};
};
const frame = url => new Promise(done => {
  const made = document.createElementNS("http://www.w3.org/1999/xhtml", "iframe");
  made.onload = () => { try { done(made.contentDocument.body.innerText) } catch (error) { done(error.name) } };
  made.src = url;
  document.documentElement.append(made);
});
const attempts = {};
for (const place of [PAGE, location.origin]) Object.assign(attempts, {
  [`creates a job at ${place}`]: () => read(`${place}/`, aws),
  [`clones a job at ${place}`]: () => read(`${place}/_sagelet/ui/jobs/victim/clone`, form),
  [`reads the page at ${place}`]: () => read(`${place}/`, {headers: {Accept: "text/html"}}),
  [`reads an object at ${place}`]: () => read(`${place}/tests/secret?%s`),
  [`frames the page at ${place}`]: () => frame(`${place}/`),
});
const cookie = () => { try { return document.cookie } catch (error) { return error.name } };
(async () => {
  const report = {origin: location.origin, cookie: cookie(), opener: String(window.opener)};
  for (const [what, attempt] of Object.entries(attempts)) report[what] = await attempt().catch(error => error.name);
  window.report = report;
})();
"""
FORGED = urlencode(
    {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": "123456789012/20991231/us-east-1/s3/aws4_request",
        "X-Amz-Date": "20991231T000000Z", "X-Amz-Expires": "60", "X-Amz-SignedHeaders": "host", "X-Amz-Signature": "0",
    }
)  # fmt: skip
SECRET = "what no script may read"


class Place:
    """A server, and a person's browser that may use its page."""

    def __init__(self, process: SageletProcess, name: str) -> None:
        self.process = process
        self.port = process.endpoint.rpartition(":")[2]
        scheme = process.endpoint.partition(":")[0]
        #: The page's origin, and that of objects.
        self.page = f"{scheme}://{name}:{self.port}"
        self.objects = f"{scheme}://s3.localhost:{self.port}"

    def script(self) -> str:
        return SCRIPT.replace("PAGE", json.dumps(self.page)) % (json.dumps(JOB), FORGED)

    def login(self, page: Page) -> None:
        link = re.search(r"http\S+token=(\S+)", "".join(self.process.output))
        if link is not None:
            page.ask("Security.setIgnoreCertificateErrors", ignore=True)
            page.goto(f"{self.page}/_sagelet/ui/login?token={link[1]}")
        page.goto(f"{self.page}/")
        page.until("document.querySelector('h1')?.innerText === 'Training jobs'")

    def jobs(self) -> set[str]:
        found = self.process.client("sagemaker").list_training_jobs()["TrainingJobSummaries"]
        return {one["TrainingJobName"] for one in found}


@pytest.fixture(scope="module", params=["open-localhost", "auth-127.0.0.1", "tls-localhost"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    kind, _, name = request.param.partition("-")
    options = {"open": [], "auth": ["--auth"], "tls": ["--auth", "--tls"]}[kind]
    data = tmp_path_factory.mktemp("objects") / "data"
    process = SageletProcess(data, "--runtime", "process", "--stop-grace", "1", *options).start()
    place = Place(process, name)
    s3 = process.client("s3")
    s3.create_bucket(Bucket="tests")
    s3.put_object(Bucket="tests", Key="secret", Body=SECRET.encode())
    script = place.script()
    # Longer than the body that the attack puts before it: its length is the answer's.
    html = (
        f"<!doctype html><!--{'.' * 8000}--><title>quiet</title><h1>report</h1>"
        f"<script>document.title = 'ran';{script}</script>"
    )
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg"><title>quiet</title><rect width="9" height="9"/>'
        f"<script><![CDATA[document.querySelector('title').textContent = 'ran';{script}]]></script></svg>"
    )
    s3.put_object(Bucket="tests", Key="in/report.html", Body=html.encode(), ContentType="text/html")
    s3.put_object(Bucket="tests", Key="in/report.svg", Body=svg.encode(), ContentType="image/svg+xml")
    yield place
    process.stop()


@pytest.fixture(scope="module")
def person(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Whose browser is logged in, where that is needed."""
    with driven(tmp_path_factory.mktemp("person") / "profile") as browser:
        page = browser.page()
        place.login(page)
        page.close()
        yield browser


@pytest.fixture
def page(person: Browser) -> Iterator[Page]:
    page = person.page()
    page.ask("Security.setIgnoreCertificateErrors", ignore=True)
    yield page
    page.close()


def follow(page: Page, place: Place, url: str) -> None:
    """A click on a link, on sagelet's own page or (typed) nowhere; until something is loaded elsewhere."""
    page.goto(f"{place.page}/")
    page.run(f"location.href = {json.dumps(url)}; true")
    page.until("document.readyState === 'complete' && !document.querySelector('main#content')")


@pytest.fixture(scope="module")
def presigned_by_a_job(place: Place) -> Iterator[list[str]]:
    """What a job prints: URLs presigned with its own keys, which end with it. One splits the answer, one does not."""
    body = f"<title>quiet</title><script>document.title = 'ran';{place.script()}</script>"
    head = "x\r\nContent-Type: text/html"
    split = f"{head}\r\n\r\n{body}"
    jobs = Jobs(place.process)
    script = f"""
        import boto3, time
        from botocore.config import Config
        s3 = boto3.client("s3", endpoint_url={place.page!r}, config=Config(signature_version="s3v4"))
        for more in (dict(ResponseCacheControl={split!r}), dict()):
            wanted = dict(Bucket="tests", Key="in/report.html", **more)
            print("URL", s3.generate_presigned_url("get_object", wanted), flush=True)
        time.sleep(600)
    """
    name = jobs.submit(script)

    def printed() -> list[str]:
        return [line[4:] for line in jobs.log(name) if line.startswith("URL ")]

    until(lambda: len(printed()) == 2)
    yield printed()
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    jobs.ended(name)


def test_an_answer_that_a_link_splits_starts_nothing(place: Place, page: Page, presigned_by_a_job: list[str]) -> None:
    """The attack as it was found: the body of an answer of our pages' origin is in a parameter of its address."""
    for go in (page.goto, partial(follow, page, place)):
        go(presigned_by_a_job[0])
        assert page.run("document.title") != "ran"
        assert page.run("typeof window.report") == "undefined"
        assert page.run("location.origin") == place.objects
        assert "InvalidArgument" in page.text("html")
    assert "owned" not in place.jobs()


def test_a_url_that_a_job_presigned_shows_its_object_there(
    place: Place, page: Page, presigned_by_a_job: list[str]
) -> None:
    url = presigned_by_a_job[1]
    assert urlsplit(url).netloc == urlsplit(place.page).netloc
    for go in (page.goto, partial(follow, page, place)):
        go(url)
        assert page.run("location.origin") == place.objects
        assert (page.text("h1"), page.run("document.title")) == ("report", "quiet")


@pytest.mark.parametrize("kind", ["html", "svg"])
def test_no_script_runs_in_an_object_that_the_page_links(place: Place, page: Page, kind: str) -> None:
    page.goto(f"{place.page}/_sagelet/ui/objects?uri={quote('s3://tests/in/')}")
    link = page.run(f"[...document.querySelectorAll('td a')].find(a => a.innerText === 'report.{kind}').href")
    follow(page, place, link)
    assert page.run("location.origin") == place.objects
    assert page.run("document.querySelector('title').textContent") == "quiet"
    assert page.run("typeof window.report") == "undefined"
    assert page.text("h1") == ("report" if kind == "html" else "")


@pytest.mark.parametrize("kind", ["html", "svg"])
def test_a_script_that_ran_would_reach_nothing(place: Place, page: Page, kind: str) -> None:
    """The origin alone must protect. Here the object's content policy is removed from the answer for the browser."""
    page.goto(f"{place.page}/")
    assert page.run("(async () => (await fetch('/', {headers: {Accept: 'text/html'}})).status)()") == 200
    link = f"{place.page}/_sagelet/ui/show?uri={quote(f's3://tests/in/report.{kind}')}"
    page.ask("Fetch.enable", patterns=[{"urlPattern": f"{place.objects}/tests/in/*", "requestStage": "Response"}])
    page.run(f"location.href = {json.dumps(link)}; true")
    _without_policy(page)
    page.ask("Fetch.disable")
    report: dict[str, Any] = page.until("window.report")
    assert report.pop("origin") == place.objects
    assert report.pop("cookie") == ""
    assert report.pop("opener") == "null"
    assert len(report) == 10
    assert SECRET not in str(report)
    assert "Training jobs" not in str(report)
    for what, came in report.items():
        refused = came in ("TypeError", "SecurityError", "") or (isinstance(came, dict) and came["status"] in (0, 403))
        assert refused or what.startswith("frames the page at https://s3") or "AccessDenied" in str(came), (what, came)
    assert "owned" not in place.jobs()


def _without_policy(page: Page) -> None:
    """Lets the object's answer pass, but for its Content-Security-Policy."""
    paused = until(
        lambda: next((one["params"] for one in list(page.events) if one["method"] == "Fetch.requestPaused"), None)
    )
    body = page.ask("Fetch.getResponseBody", requestId=paused["requestId"])
    data = body["body"] if body["base64Encoded"] else base64.b64encode(body["body"].encode()).decode()
    kept = [one for one in paused["responseHeaders"] if one["name"].lower() != "content-security-policy"]
    assert len(kept) < len(paused["responseHeaders"])
    page.ask(
        "Fetch.fulfillRequest",
        requestId=paused["requestId"],
        responseCode=paused["responseStatusCode"],
        responseHeaders=kept,
        body=data,
    )


def test_an_object_on_a_page_is_no_script_of_it(place: Place, page: Page) -> None:
    """Also where somebody found a way to write an element into a page."""
    place.process.client("s3").put_object(
        Bucket="tests", Key="code.js", Body=b"window.ran = true", ContentType="text/javascript"
    )
    url = place.process.client("s3", endpoint_url=place.page).generate_presigned_url(
        "get_object", Params={"Bucket": "tests", "Key": "code.js"}
    )
    page.goto(f"{place.page}/")
    came = page.run(
        "new Promise(done => { const made = document.createElement('script'); made.onload = () => done('loaded');"
        f" made.onerror = () => done('refused'); made.src = {json.dumps(url)}; document.head.append(made); }})"
    )
    assert (came, page.run("typeof window.ran")) == ("refused", "undefined")
