"""The pages in a real browser: a job submitted, watched, stopped and cloned; and whether everybody can use them."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from support import pipelines
from support.devtools import Page
from support.jobs import Jobs, archive
from support.server import ROLE, SageletProcess, until
from support.tuning import definition, tuning_request

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=alert(1)>"
#: Prints until somebody stops it, or for ten minutes: a test that fails leaves it behind.
TICKS = """
    import time
    for number in range(3_000):
        print(f"tick {number} loss={1 / (number + 1):.5f}", flush=True)
        time.sleep(0.2)
"""
DONE = f"""
    import os, sys
    print({EVIL!r})
    for number in range(1_200):
        print(f"step {{number}} loss={{1 / (number + 1):.5f}}")
    open(os.environ["SM_MODEL_DIR"] + "/weights", "wb").write(b"0" * 1000)
"""
METRICS = [{"Name": f"loss {EVIL}", "Regex": r"loss=([0-9.]+)"}]
JOB = "/_sagelet/ui/jobs"
TUNING = "/_sagelet/ui/tuning/tuned"
#: `PIPELINE` stands for its only execution.
EXECUTION = "/_sagelet/ui/pipelines/PIPELINE"
#: Says its objective, and waits until a file is there.
GATED = """
    import json, os, time
    given = json.load(open("/opt/ml/input/config/hyperparameters.json"))
    print(f"loss={given['lr']}", flush=True)
    end = time.monotonic() + 600
    while not os.path.exists(given["gate"]) and time.monotonic() < end:
        time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(
        tmp_path_factory.mktemp("pages") / "data", "--runtime", "process", "--stop-grace", "1"
    ).start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def jobs(server: SageletProcess) -> Jobs:
    """With two that are done."""
    jobs = Jobs(server)
    jobs.submit(DONE, name="done", metrics=METRICS, hyperparameters={"note": EVIL})
    assert jobs.ended("done")["TrainingJobStatus"] == "Completed"
    jobs.submit(DONE, name="done-2", metrics=METRICS, hyperparameters={"note": "2"})
    assert jobs.ended("done-2")["TrainingJobStatus"] == "Completed"
    return jobs


@pytest.fixture(scope="module")
def gate(jobs: Jobs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the tuning job `tuned`, both training jobs of which run until this file exists."""
    gate = tmp_path_factory.mktemp("gate") / "open"
    jobs.s3.put_object(Bucket="tests", Key="tuned/sourcedir.tar.gz", Body=archive({"train.py": dedent(GATED)}))
    own = {
        "sagemaker_program": '"train.py"',
        "sagemaker_submit_directory": '"s3://tests/tuned/sourcedir.tar.gz"',
        "gate": str(gate),
    }
    job = definition(StaticHyperParameters=own, OutputDataConfig={"S3OutputPath": "s3://tests/out"})
    limits = {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 2}
    jobs.sagemaker.create_hyper_parameter_tuning_job(**tuning_request("tuned", job=job, ResourceLimits=limits))
    return gate


@pytest.fixture(scope="module")
def execution(jobs: Jobs) -> str:
    """The part of a path that names an execution whose condition has failed it."""
    never = pipelines.condition("check", [pipelines.compare("Equals", 1, 2)], [], pipelines.fail("end", EVIL))
    given = {"PipelineDefinition": pipelines.definition(never), "RoleArn": pipelines.ROLE}
    jobs.sagemaker.create_pipeline(PipelineName="checked", **given)
    arn = jobs.sagemaker.start_pipeline_execution(PipelineName="checked")["PipelineExecutionArn"]
    describe = jobs.sagemaker.describe_pipeline_execution
    until(lambda: describe(PipelineExecutionArn=arn)["PipelineExecutionStatus"] == "Failed")
    return f"checked/{arn.rpartition('/')[2]}"


def stay(page: Page) -> None:
    """A page that is loaded anew forgets this."""
    page.run("window.stayed = true")


def test_a_job_from_submission_to_its_stop(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(server.endpoint)
    stay(page)
    jobs.submit(TICKS, name="live", metrics=METRICS)
    page.until("[...document.querySelectorAll('td.name a')].some(a => a.innerText === 'live')")
    page.until("document.querySelector('tbody').innerText.includes('Training')")
    assert page.run("window.stayed")
    page.click("td.name a")
    page.until("document.querySelector('h1')?.innerText === 'live'")
    page.goto(f"{server.endpoint}{JOB}/live/log")
    page.until("!!document.getElementById('log')")
    stay(page)
    first = page.until("document.getElementById('log').innerText.match(/tick (\\d+)/g)?.at(-1)")
    page.until(f"document.getElementById('log').innerText.match(/tick (\\d+)/g).at(-1) !== {first!r}")
    assert page.run("window.stayed")
    page.click("a.danger")
    page.until("!!document.querySelector('button.danger')")
    page.click("button.danger")
    page.until("location.pathname.endsWith('/live') && document.readyState === 'complete'")
    stay(page)
    page.until("document.querySelector('.status')?.innerText === 'Stopped'")
    assert page.run("window.stayed")
    assert jobs.describe("live")["SecondaryStatus"] == "Stopped"


def test_the_log_is_searched_and_scrolled(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(f"{server.endpoint}{JOB}/done/log")
    page.until("document.getElementById('where').innerText.includes('of 1,')")
    assert page.run("document.querySelectorAll('.line').length") == 500
    page.click("#start")
    page.until("document.querySelector('.line')?.dataset.seq === '0'")
    page.until(f"document.getElementById('log').innerText.includes({EVIL!r})")
    page.run("document.getElementById('log').scrollTop = 1e9")
    page.until("document.querySelectorAll('.line').length > 500")
    page.run("document.getElementById('needle').focus()")
    page.type("STEP 777")
    page.press("Enter", 13)
    page.until("document.getElementById('where').innerText === '1 lines hold it'")
    assert page.run("document.querySelector('mark').innerText") == "step 777"
    page.click("button.number")
    page.until("document.querySelector('.chosen')?.innerText.includes('step 777')")
    assert page.run("document.querySelectorAll('.line').length") > 100


def test_charts_and_downloads(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(f"{server.endpoint}{JOB}/done")
    page.until("document.querySelectorAll('#metrics canvas, #instances canvas').length >= 4")
    assert page.text("#metrics h3") == f"loss {EVIL}"
    assert page.run("document.querySelector('#metrics [role=img]').getAttribute('aria-label').includes('highest 1')")
    assert page.run("document.querySelector('canvas').getBoundingClientRect().width > 200")
    size = page.run(
        "fetch(document.querySelector('a[download]').href).then(a => a.arrayBuffer()).then(b => b.byteLength)"
    )
    model = jobs.s3.head_object(Bucket="tests", Key="out/done/output/model.tar.gz")
    assert size == model["ContentLength"]


def test_a_job_is_cloned_on_its_page(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(f"{server.endpoint}{JOB}/done/clone")
    page.run(
        "(() => { const area = document.querySelector('textarea'); const request = JSON.parse(area.value);"
        " request.TrainingJobName = 'cloned'; request.HyperParameters.epochs = '7';"
        " area.value = JSON.stringify(request) })()"
    )
    page.click("button.primary")
    page.until("document.querySelector('h1')?.innerText === 'cloned'")
    made = jobs.describe("cloned")
    assert made["HyperParameters"] == {**jobs.describe("done")["HyperParameters"], "epochs": "7"}
    assert made["RoleArn"] == ROLE
    page.until("document.querySelector('.status')?.innerText === 'Completed'")


def test_a_tuning_job_from_its_first_objective_to_its_code(
    page: Page, gate: Path, jobs: Jobs, server: SageletProcess
) -> None:
    page.goto(f"{server.endpoint}/_sagelet/ui/tuning")
    page.until("document.querySelector('td.name a')?.innerText === 'tuned'")
    page.click("td.name a")
    page.until("!!document.getElementById('trials')")
    stay(page)
    page.until("document.querySelector('#trials')?.innerText.split(' so far').length >= 3")
    gate.write_text("")
    page.until("document.querySelectorAll('#pictures figure:first-child circle').length === 2")
    page.until("document.querySelector('#head .status')?.innerText === 'Completed'")
    page.until("document.querySelectorAll('#trials tr.best').length === 1")
    assert page.run("window.stayed")
    assert page.run("document.getElementById('compare-button').disabled")
    page.click("#trials input")
    page.run("document.querySelectorAll('#trials input')[1].click()")
    assert not page.run("document.getElementById('compare-button').disabled")
    best = page.text("tr.best a")
    page.click("#pictures a:has(.best)")
    page.until(f"document.querySelector('h1')?.innerText === {best!r}")
    page.click("#facts a")
    page.until("document.querySelector('h1')?.innerText === 'tuned'")
    page.goto(f"{server.endpoint}{TUNING}/request")
    assert best in page.text("#boto3")


def test_the_theme_is_the_systems_until_one_is_chosen(page: Page, server: SageletProcess) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    page.goto(server.endpoint)
    light = page.run(ground)
    page.look(1280, dark=True)
    page.until(f"{ground} !== {light!r}")
    page.click("#theme")
    page.until(f"{ground} === {light!r}")
    page.goto(f"{server.endpoint}{JOB}/none-such/../done")
    assert page.run(ground) == light
    page.run("localStorage.removeItem('sagelet-theme')")


def test_without_a_mouse(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(server.endpoint)
    page.press("Tab", 9)
    assert page.run("document.activeElement.innerText") == "Skip to content"
    page.press("Enter", 13)
    page.until("document.activeElement.id === 'content'")
    seen = set()
    for _ in range(60):
        page.press("Tab", 9)
        seen.add(str(page.run("document.activeElement.name || document.activeElement.innerText || ''")))
    assert {"q", "status", "Search", "Name", "job", "done"} <= seen


PAGES = {
    "the list": "/",
    "no job": "/?q=none",
    "the overview": f"{JOB}/done",
    "the log": f"{JOB}/done/log",
    "the report": f"{JOB}/done/report",
    "the request": f"{JOB}/done/request",
    "stopping": f"{JOB}/done/stop",
    "cloning": f"{JOB}/done/clone",
    "objects": "/_sagelet/ui/objects?uri=s3://tests/",
    "the comparison": "/_sagelet/ui/compare?job=done&job=done-2&anyway=1",
    "the tuning jobs": "/_sagelet/ui/tuning",
    "no tuning job": "/_sagelet/ui/tuning?q=none",
    "a tuning job": TUNING,
    "its code": f"{TUNING}/request",
    "stopping it": f"{TUNING}/stop",
    "processing jobs": "/_sagelet/ui/processing",
    "the pipelines": "/_sagelet/ui/pipelines",
    "an execution": EXECUTION,
    "retrying it": f"{EXECUTION}/retry",
    "the login": "/_sagelet/ui/login",
}


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use(
    name: str, page: Page, jobs: Jobs, gate: Path, execution: str, server: SageletProcess, axe: str
) -> None:
    """axe-core's rules in light and dark; and nothing is wider than a telephone."""
    gate.touch()
    page.goto(f"{server.endpoint}{PAGES[name].replace('PIPELINE', execution)}")
    if name == "a tuning job":
        page.until("document.querySelectorAll('#pictures circle').length > 2")
    if name == "the overview":
        page.until("document.querySelectorAll('canvas').length >= 4")
    assert page.violations(axe) == []
    page.look(390, 844, dark=True)
    page.until("document.documentElement.dataset.theme === 'dark'")
    assert page.violations(axe) == []
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    hidden = (
        "[...document.querySelectorAll('table.stacks')].filter(one => one.scrollWidth > one.parentElement.clientWidth)"
    )
    assert page.run(f"{hidden}.length") == 0
    assert page.run("document.querySelector('header.top').getBoundingClientRect().height") < 90


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[SageletProcess]:
    """A server that wants a login. A test names it before its page, so that it outlives what the page still loads."""
    process = SageletProcess(tmp_path / "data", "--runtime", "process", "--auth").start()
    yield process
    process.stop()


def test_a_login_by_the_printed_link(closed: SageletProcess, page: Page) -> None:
    link = until(lambda: re.search(r"http\S+token=\S+", "".join(closed.output)))
    page.goto(closed.endpoint)
    assert page.run("location.pathname") == "/_sagelet/ui/login"
    page.goto(link[0])
    page.until("document.querySelector('h1')?.innerText === 'Training jobs'")
    page.goto(f"{closed.endpoint}/?status=Failed")
    assert "No training job matches" in page.text()
    page.click("header form button")
    page.until("location.pathname === '/_sagelet/ui/login'")
