"""The pages of a training job, as a browser gets them."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sagelet_api.display import breakable, code, usd
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model.sinks import MetricPoint
from support.api_world import ApiWorld

#: In everything that a job can bring.
EVIL = "<script>alert(1)</script>"
JOB = "/_sagelet/ui/jobs/train"
PAGES = ("", "/log", "/artifacts", "/report", "/request", "/clone", "/stop", "/interrupt")


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened


def body(name: str = "train") -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39",
            "TrainingInputMode": "File",
            "MetricDefinitions": [{"Name": EVIL, "Regex": "loss=([0-9.]+)"}],
        },
        "HyperParameters": {"epochs": "3", EVIL: EVIL},
        "RoleArn": "arn:aws:iam::123456789012:role/SageMakerRole",
        "OutputDataConfig": {"S3OutputPath": "s3://out/models"},
        "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 2, "VolumeSizeInGB": 10},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "Tags": [{"Key": "team", "Value": "nlp"}],
    }


def trained(world: ApiWorld) -> None:
    """A job that has trained, and said evil things."""
    world.sagemaker.create_training_job(**body())
    world.clock.turn(10)
    for host in world.all_hosts("train"):
        host.say(EVIL, "loss=0.5", "loss=0.25")
        host.end(0)
    world.ended("train")


def shown(world: ApiWorld, path: str, **headers: str) -> str:
    answer = world.page(path, **headers)
    assert answer.status == 200, (path, answer.status)
    return answer.data.decode()


def told(world: ApiWorld, path: str) -> Any:
    return json.loads(shown(world, path, Accept="application/json"))


def test_what_a_job_says_of_itself_is_text(world: ApiWorld) -> None:
    trained(world)
    for page in ("/", *(JOB + page for page in PAGES)):
        text = shown(world, page)
        assert EVIL not in text, page
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text), page
    log = shown(world, f"{JOB}/log")
    assert EVIL in unescape(log)
    assert EVIL in unescape(shown(world, JOB))
    refused = world.page(f"/_sagelet/ui/jobs/{quote(EVIL)}")
    assert refused.status == 404
    assert EVIL not in refused.data.decode()


def test_the_overview_has_what_describe_has(world: ApiWorld) -> None:
    trained(world)
    text = unescape(re.sub(r"<[^>]*>", " ", shown(world, JOB).replace("<wbr>", "")))
    words = " ".join(text.split())
    for part in ("Starting", "Downloading", "Training", "Uploading", "Training job completed"):
        assert part in words
    assert "2 \N{MULTIPLICATION SIGN} ml.p3.2xlarge" in words
    assert "Price list 20" in words
    assert re.search(r"\$\d+\.\d+", words)
    # AWS's answer has the address of a model all the same.
    assert "None: the job saved nothing in SM_MODEL_DIR, or it was deleted." in words
    assert "Tag team nlp" in words
    assert f"{EVIL} 0.25" in words


def test_a_part_comes_alone(world: ApiWorld) -> None:
    trained(world)
    for part in ("head", "timeline", "facts"):
        text = shown(world, f"{JOB}?part={part}")
        assert "<html" not in text
        assert "train" in text


def test_a_job_that_there_is_not(world: ApiWorld) -> None:
    for page in (*PAGES, "/events", "/curves", "/log/lines?stream=a"):
        answer = world.page(f"/_sagelet/ui/jobs/none{page}")
        assert answer.status in (400, 404), page
        assert b"none" in answer.data or b"not found" in answer.data
    world.waiting_job("train")
    assert world.page(f"{JOB}?region=eu-west-1").status == 404


def test_the_curves(world: ApiWorld) -> None:
    trained(world)
    job = world.job("train")
    world.engine._store.points.put_host(job.id, [MetricPoint("CPUUtilization", 50.0, 1_700_000_060_000, "algo-1")])
    found = told(world, f"{JOB}/curves")
    (metric,) = found["metrics"]
    assert metric["title"] == EVIL
    assert [series["y"] for series in metric["series"]] == [[0.5, 0.25], [0.5, 0.25]]
    assert [len(series["x"]) for series in metric["series"]] == [2, 2]
    charts = {chart["name"]: chart for chart in found["instances"]}
    assert [series["label"] for series in charts["CPUUtilization"]["series"]] == ["algo-1"]
    assert charts["CPUUtilization"]["series"][0]["y"][-1] == 50


def test_values_of_one_moment_stay_in_their_order(world: ApiWorld) -> None:
    points = [MetricPoint("loss", value, 1_000) for value in (0.1, 0.05, 0.02)]
    world.engine._store.append_output(world.stream("train"), [], "p", points, 1_000)
    (metric,) = told(world, f"{JOB}/curves")["metrics"]
    assert metric["series"][0]["y"] == [0.1, 0.05, 0.02]


def test_a_remedy_shows_code_as_code_and_costs_of_a_second_are_not_zero() -> None:
    assert code("a <b> `c < d` e") == "a &lt;b&gt; <code>c &lt; d</code> e"
    assert [usd(amount) for amount in (None, 0.0, 0.00003, 0.0234, 12.5)] == [
        "-", "$0.0000", "less than $0.0001", "$0.0234", "$12.50",
    ]  # fmt: skip


def test_a_curve_of_many_samples_keeps_its_peaks(world: ApiWorld) -> None:
    stream = world.stream("train")
    points = [MetricPoint("loss", 1.0, 1_000 + number) for number in range(9_999)]
    points[5_000] = MetricPoint("loss", 99.0, 6_000)
    points[7_000] = MetricPoint("loss", -99.0, 8_000)
    world.engine._store.append_output(stream, [], "p", points, 1_000)
    (metric,) = told(world, f"{JOB}/curves")["metrics"]
    values = metric["series"][0]["y"]
    assert len(values) <= 1000
    assert (max(values), min(values)) == (99.0, -99.0)
    assert metric["series"][0]["x"] == sorted(metric["series"][0]["x"])


# --- the log ----------------------------------------------------------------------------------------------------------


def lines(world: ApiWorld, query: str) -> tuple[list[int], Any]:
    found = told(world, f"{JOB}/log/{query}")
    return [number for number, _, _ in found["lines"]], found


def test_a_window_of_a_long_log(world: ApiWorld) -> None:
    stream = world.stream("train", [f"line {number}" for number in range(3_000)])
    where = f"lines?stream={quote(stream.name)}"
    numbers, found = lines(world, f"{where}&from=100")
    assert (numbers, found["total"]) == (list(range(100, 600)), 3_000)
    assert found["lines"][0][2] == "line 100"
    assert lines(world, f"{where}&below=100")[0] == list(range(100))
    assert lines(world, f"{where}&below=3000")[0] == list(range(2_500, 3_000))
    assert lines(world, f"{where}&from=2999")[0] == [2_999]
    assert lines(world, f"{where}&from=3000")[0] == []
    text = shown(world, f"{JOB}/log")
    assert re.findall(r'data-seq="(\d+)"', text) == [str(number) for number in range(2_500, 3_000)]


def test_a_window_of_large_lines_is_smaller(world: ApiWorld) -> None:
    stream = world.stream("train", ["x" * 100_000 for _ in range(100)])
    where = f"lines?stream={quote(stream.name)}"
    numbers, found = lines(world, f"{where}&from=0")
    assert numbers == list(range(10))
    assert len(found["lines"][0][2]) < 5_000
    assert "96,000 characters more" in found["lines"][0][2]
    assert lines(world, f"{where}&below=100")[0] == list(range(90, 100))


def test_a_log_is_searched_by_the_server(world: ApiWorld) -> None:
    texts = [f"step {number} Loss=1" if number % 1_000 == 0 else "quiet" for number in range(5_000)]
    stream = world.stream("train", texts)
    where = f"find?stream={quote(stream.name)}"
    numbers, found = lines(world, f"{where}&q=lOSS%3D")
    assert (numbers, found["next"]) == ([0, 1_000, 2_000, 3_000, 4_000], None)
    assert lines(world, f"{where}&q=lOSS%3D&from=3500")[0] == [4_000]
    numbers, found = lines(world, f"{where}&q=quiet")
    assert len(numbers) == 200
    assert found["next"] == numbers[-1] + 1
    assert lines(world, f"{where}&q=%25")[0] == []


def test_the_whole_log_is_a_file(world: ApiWorld) -> None:
    texts = [f"{EVIL} {number}" for number in range(12_000)]
    stream = world.stream("train", texts)
    answer = world.page(f"{JOB}/log/file?stream={quote(stream.name)}")
    assert answer.data.decode().splitlines() == texts
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    other = world.stream("other", ["secret"])
    assert world.page(f"{JOB}/log/file?stream={quote(other.name)}").status == 404


def test_hosts_have_tabs(world: ApiWorld) -> None:
    trained(world)
    text = shown(world, f"{JOB}/log")
    tabs = re.findall(r'href="([^"]*stream=[^"]*)"[^>]*>algo-(\d)', text)
    assert [number for _, number in tabs] == ["1", "2"]
    assert "Log of algo-2" in shown(world, unescape(tabs[1][0]))


# --- S3 ---------------------------------------------------------------------------------------------------------------


def test_objects_are_listed_and_downloaded(world: ApiWorld) -> None:
    s3 = world.client("s3")
    s3.create_bucket(Bucket="data")
    for number in range(205):
        s3.put_object(Bucket="data", Key=f"in/{number:03}.html", Body=EVIL.encode(), ContentType="text/html")
    text = shown(world, "/_sagelet/ui/objects?uri=s3://data/in/")
    links = re.findall(r'href="([^"]*object\?[^"]*)"', text)
    assert len(links) == 200
    assert ">000.html</a>" in text
    after = re.search(r'rel="next" href="([^"]*)"', text)
    assert after is not None
    assert len(re.findall("download ", shown(world, unescape(after[1])))) == 5
    answer = world.page(unescape(links[0]))
    assert answer.data == EVIL.encode()
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == "attachment; filename=000.html"
    assert answer.headers["Content-Security-Policy"] == "sandbox"
    assert answer.headers["Content-Length"] == str(len(EVIL))


@pytest.mark.parametrize(
    ("uri", "status"), [("s3://nosuch/key", 404), ("s3://theirs/key", 404), ("file:///etc/passwd", 400), ("", 400)]
)
def test_what_is_not_there_or_not_the_accounts(world: ApiWorld, uri: str, status: int) -> None:
    theirs = world.client("s3", account="999999999999")
    theirs.create_bucket(Bucket="theirs")
    theirs.put_object(Bucket="theirs", Key="key", Body=b"secret")
    for page in ("object", "objects"):
        answer = world.page(f"/_sagelet/ui/{page}?uri={quote(uri)}")
        assert answer.status == status
        assert b"secret" not in answer.data


@pytest.mark.parametrize(
    ("runtime", "shown_as"),
    [
        ("docker", "<code>sagelet/"),
        ("process", "processes of this machine, without a container"),
        ("slurm", "tasks of Slurm"),
    ],
)
def test_a_page_says_what_the_hosts_were(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, runtime: str, shown_as: str
) -> None:
    monkeypatch.setattr(world.runtime, "name", runtime)
    trained(world)
    row = re.search(r'<th scope="row">Runs in</th><td class="value">(.*?)</td>', shown(world, JOB))
    assert row is not None
    assert row[1].startswith(shown_as)


def test_long_names_break_between_their_words() -> None:
    assert breakable("train_samples_per_second") == "train_<wbr>samples_<wbr>per_<wbr>second"
    assert breakable("sagelet:steps") == "sagelet:<wbr>steps"
    assert breakable("<b>_x") == "&lt;b&gt;_<wbr>x"
    assert breakable("__") == "__"
