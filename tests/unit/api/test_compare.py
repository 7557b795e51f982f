"""Jobs against each other: endpoint, command, Python call and page, on what jobs of a fake runtime have left."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result

import sagelet
from sagelet.comparing import NotComparable
from sagelet_api.cli.main import main
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.base.errors import SageletError
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.telemetry.compiler.worker import BatchShape
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.comparison_facts import IDLE
from support.doctor_cases import native_worker, worker
from support.world import request, until

COMPILED = {"sagemaker_training_compiler_enabled": "true"}
LOSSES = "{{'loss': {}, 'learning_rate': 1e-05, 'epoch': {}}}"
SUMMARY = "{{'train_runtime': {}, 'train_samples_per_second': {}, 'train_loss': 3.0, 'epoch': 2.0}}"


def channel(uri: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": "train", "DataSource": {"S3DataSource": source}}


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("data", "a/x.txt", b"text")
        yield running


def train(world: ApiWorld, name: str, seconds: int, *, compiled: bool, script: str = "train()", **changes: Any) -> None:
    """A job that has trained on the channel and ended, 10 s after its training loop."""
    body = {
        "HyperParameters": {"sagemaker_program": '"train.py"', **(COMPILED if compiled else {})},
        "ResourceConfig": {"InstanceType": "ml.g4dn.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1},
        "InputDataConfig": [channel("s3://data/a")],
    }
    account = changes.pop("account", ACCOUNT)
    world.client("sagemaker", account=account).create_training_job(**request(name, **{**body, **changes}))
    job = until(lambda: next((one for one in world.engine._store.unfinished() if one.key.name == name), None))
    hosts = until(lambda: len(world.runtime.find(job.launch_id)) == 2 and world.runtime.find(job.launch_id))
    first, second = (world.runtime.hosts[handle.ref] for handle in hosts)
    directory = JobDirectories.of(world.settings.data, job).host("algo-1").opt_ml
    (directory / "code" / "train.py").write_text(script)
    (directory / "output" / "sagelet").mkdir(parents=True, exist_ok=True)
    usual = {"samples": 100, "batch_shapes": (BatchShape((10, 32), 10),), "steps": 10, **IDLE}
    made = worker(**usual, compile_seconds=6.0) if compiled else native_worker(**usual)
    (directory / "output" / "sagelet" / "worker-0.json").write_text(json.dumps(asdict(made)))
    first.say(LOSSES.format(4.0, 1.0), LOSSES.format(2.0, 2.0), SUMMARY.format(seconds, 100 / seconds))
    world.clock.turn(seconds + 10)
    for host in (first, second):
        host.end(0)
    until(lambda: world.engine.jobs.get(job.key).terminal)


def run(world: ApiWorld, *arguments: str) -> Result:
    command = ["compare", *arguments, "--endpoint", endpoint(world), "--account", ACCOUNT, "--region", REGION]
    return CliRunner().invoke(main, command, env={"COLUMNS": "200"})


def endpoint(world: ApiWorld) -> str:
    return f"http://127.0.0.1:{world.port}"


def both(world: ApiWorld) -> None:
    train(world, "plain", 50, compiled=False)
    train(world, "fast", 29, compiled=True)


def test_other_native_runs_of_the_server_give_the_tolerance_of_losses(world: ApiWorld) -> None:
    both(world)
    assert json.loads(run(world, "plain", "fast", "--json").stdout)["losses"][0]["runs"] == 1
    train(world, "plain-again", 52, compiled=False)
    train(world, "other-script", 52, compiled=False, script="train(faster=True)")
    answers = [json.loads(run(world, "plain", "fast", "--json").stdout)["losses"] for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert (answers[0][0]["runs"], answers[0][0]["verdict"]) == (2, "similar")
    # A job that is compared gives no tolerance for itself.
    assert json.loads(run(world, "plain", "plain-again", "--json").stdout)["losses"][0]["runs"] == 1


def test_a_native_and_a_compiled_job(world: ApiWorld, tmp_path: Path) -> None:
    both(world)
    answer = json.loads(run(world, "plain", "fast", "--json").stdout)
    assert answer["comparable"]
    assert answer["differences"] == []
    rows = {row["key"]: row for row in answer["rows"]}
    assert rows["script_throughput"]["values"] == [2.0, pytest.approx(100 / 29)]
    assert rows["runtime"]["values"] == [50.0, 29.0]
    assert rows["billable_seconds"]["values"] == [60, 39]
    # Two instances, $0.7364 an hour each.
    assert rows["usd"]["values"] == [pytest.approx(2 * 60 * 0.7364 / 3600), pytest.approx(2 * 39 * 0.7364 / 3600)]
    assert rows["compile_seconds"]["values"] == [None, 6.0]
    assert rows["throughput"]["values"] == [2.0, pytest.approx(100 / 23)]
    assert answer["jobs"][0]["losses"] == [{"loss": 4.0, "epoch": 1.0}, {"loss": 2.0, "epoch": 2.0}]
    # 10 rows a step save 5 - 2.3 s.
    assert answer["break_evens"][0]["steps"] == 3

    shown = run(world, "plain", "fast", "--html", str(tmp_path / "r.html"), "--png", str(tmp_path / "png"))
    assert shown.exit_code == 0, shown.output
    assert "SageMaker Training Compiler is about 42% faster in terms of total training time." in shown.output
    # 60 s and 39 s: rounded to seconds, one run of each may say it.
    assert "SageMaker Training Compiler integrated PyTorch was 35% faster in summary." in shown.output
    assert "Training throughput ====> 72% Compiler savings <====" in shown.output
    # What a person wants to know comes before the table.
    first = "fast trained at 2.17 times the steady speed of plain (1.45 to 3.26), by one run of each."
    assert shown.output.index(first) < shown.output.index("Steady throughput")
    assert "That paid at step 3, 12.9 seconds of training; it ran 10 steps" in shown.output
    assert (tmp_path / "r.html").read_text().count("<svg") == 4
    assert len(list((tmp_path / "png").glob("*.png"))) == 4

    page = world.page("/_sagelet/ui/compare?job=plain&job=fast")
    text = page.data.decode()
    assert page.status == 200
    assert text.count('<svg class="chart"') == 4
    assert '<a href="/_sagelet/ui/jobs/fast">' in text
    assert "was 35% faster in summary." in text
    # The pages' policy allows neither.
    assert "style=" not in text
    assert "<style" not in text
    assert world.page("/_sagelet/ui/compare/static/comparison.css").status == 200


def test_the_bill_of_a_training_of_another_length(world: ApiWorld) -> None:
    both(world)
    # 1,000 steps are 10,000 rows, and the jobs have trained 100: at 2 a second, and at 100 / 23.
    answer = json.loads(run(world, "plain", "fast", "--steps", "1000", "--json").stdout)
    plain, fast = answer["lengths"]
    assert (plain["steps"], plain["why"], plain["label"]) == (1000, "asked", "native")
    assert plain["billable_seconds"] == pytest.approx(60 + 9900 / 2)
    assert fast["billable_seconds"] == pytest.approx(39 + 9900 * 23 / 100)
    assert fast["usd"] == pytest.approx(2 * fast["billable_seconds"] * 0.7364 / 3600)
    assert fast["told"]
    words = "1,000 steps would cost $0.9475 with fast, $1.1021 less than with plain ($2.0496)."
    assert words in run(world, "plain", "fast", "--steps", "1000").output
    assert words in world.page("/_sagelet/ui/compare?job=plain&job=fast&steps=1000").data.decode()
    (sentence,) = (
        one.text
        for one in sagelet.compare("plain", "fast", endpoint=endpoint(world), steps=1000).sentences
        if one.kind == "length"
    )
    assert sentence == words
    assert json.loads(run(world, "plain", "fast", "--json").stdout)["lengths"] == []
    for wrong in ("0", "-1", "many", "1" * 40, "²"):
        assert world.page(f"/_sagelet/ui/compare?job=plain&job=fast&steps={quote(wrong)}").status == 400
    assert run(world, "plain", "fast", "--steps", "5", "--repeat", "3").exit_code == 2


def test_the_python_call(world: ApiWorld, tmp_path: Path) -> None:
    both(world)
    found = sagelet.compare("plain", "fast", endpoint=endpoint(world))
    assert found.row("billable_seconds").values == (60.0, 39.0)
    assert found.to_html(tmp_path / "report.html").stat().st_size > 10_000
    with pytest.raises(SageletError, match="has no training job slow"):
        sagelet.compare("plain", "slow", endpoint=endpoint(world))
    with pytest.raises(SageletError, match="two jobs or more"):
        sagelet.compare("plain", endpoint=endpoint(world))


def test_jobs_that_are_not_comparable_are_refused_unless_asked_for_all_the_same(world: ApiWorld) -> None:
    train(world, "plain", 50, compiled=False)
    world.objects.put("data", "b/x.txt", b"other text")
    train(world, "fast", 31, compiled=True, InputDataConfig=[channel("s3://data/b")])
    why = "the channel train has other data: s3://data/b, not s3://data/a"
    refused = run(world, "plain", "fast")
    assert refused.exit_code == 1
    assert why in refused.output
    assert "--anyway" in refused.output
    with pytest.raises(NotComparable, match="anyway=True"):
        sagelet.compare("plain", "fast", endpoint=endpoint(world))
    page = world.page("/_sagelet/ui/compare?job=plain&job=fast")
    assert page.status == 200
    assert "The figures of these jobs are not comparable." in page.data.decode()
    assert "Plot of Training Loss" not in page.data.decode()
    assert why in page.data.decode()
    assert 'href="?job=plain&amp;job=fast&amp;anyway=1"' in page.data.decode()

    shown = run(world, "plain", "fast", "--anyway")
    assert shown.exit_code == 0, shown.output
    assert f"NOT COMPARABLE: fast: {why}." in shown.output
    assert (
        "These jobs are not comparable" in world.page("/_sagelet/ui/compare?job=plain&job=fast&anyway=1").data.decode()
    )


def test_data_is_told_by_its_content_and_scripts_by_theirs(world: ApiWorld) -> None:
    train(world, "plain", 50, compiled=False)
    world.objects.put("data", "copy/x.txt", b"text")
    train(world, "fast", 31, compiled=True, InputDataConfig=[channel("s3://data/copy")], script="train(xla)")
    (difference,) = sagelet.compare("plain", "fast", endpoint=endpoint(world)).differences
    assert (difference.what, difference.blocks) == ("script", False)
    # What the first job trained on is gone: nobody can tell whether it was the same.
    world.objects.put("data", "a/x.txt", b"new")
    world.objects.written["data", "a/x.txt"] = world.clock.now_ms()
    with pytest.raises(NotComparable):
        sagelet.compare("plain", "fast", endpoint=endpoint(world))


def test_objects_that_were_written_since_are_told(world: ApiWorld) -> None:
    train(world, "plain", 50, compiled=False)
    world.objects.written["data", "a/x.txt"] = world.clock.now_ms()
    train(world, "fast", 31, compiled=True)
    (difference,) = sagelet.compare("plain", "fast", endpoint=endpoint(world)).differences
    assert difference.text.startswith("objects of the channel train were written after plain had started")


def test_a_job_that_runs_is_compared_when_asked_for(world: ApiWorld) -> None:
    train(world, "plain", 50, compiled=False)
    world.create("still", HyperParameters=COMPILED)
    world.host("still").say(LOSSES.format(4.0, 1.0))
    assert "still still runs" in run(world, "plain", "still").output
    found = sagelet.compare("plain", "still", endpoint=endpoint(world), anyway=True)
    assert found.row("training_seconds").values == (60.0, None)
    assert found.row("usd").values[1] is None


def test_jobs_of_another_account_by_their_arns(world: ApiWorld) -> None:
    train(world, "plain", 50, compiled=False)
    train(world, "fast", 31, compiled=True, account="999999999999")
    arn = f"arn:aws:sagemaker:{REGION}:999999999999:training-job/fast"
    assert "has no training job fast" in run(world, "plain", "fast").output
    found = sagelet.compare("plain", arn, endpoint=endpoint(world), anyway=True)
    assert [job.account for job in found.jobs] == [ACCOUNT, "999999999999"]
    assert any(one.what == "account" for one in found.differences)
    page = world.page(f"/_sagelet/ui/compare?job=plain&job={arn}&anyway=1")
    assert '<a href="/_sagelet/ui/jobs/fast?account=999999999999">' in page.data.decode()


CHOSEN = re.compile(r'name="job" value="([^"]*)" checked')
OFFERED = re.compile(r'name="job" value="([^"]*)">')


def test_the_page_without_two_jobs_is_a_picker(world: ApiWorld) -> None:
    for name in ("one", "two", "Bert-1", "bert-2"):
        world.waiting_job(name)
    page = world.page("/_sagelet/ui/compare?job=one")
    assert page.status == 200
    text = page.data.decode()
    assert CHOSEN.findall(text) == ["one"]
    assert set(OFFERED.findall(text)) == {"two", "Bert-1", "bert-2"}
    # A job named twice is one job.
    assert CHOSEN.findall(world.page("/_sagelet/ui/compare?job=one&job=one").data.decode()) == ["one"]
    assert world.page("/_sagelet/ui/compare?job=one&job=none").status == 404
    # A search keeps what is chosen, also when it would be enough for a comparison.
    text = world.page("/_sagelet/ui/compare?job=two&job=one&pick=1&q=bert&first=one").data.decode()
    assert CHOSEN.findall(text) == ["one", "two"]
    assert set(OFFERED.findall(text)) == {"Bert-1", "bert-2"}
    assert '<div class="comparison">' not in text
    assert re.findall(r'name="first" value="([^"]*)" checked', text) == ["one"]


def test_more_jobs_than_a_picture_shows_apart_are_refused(world: ApiWorld) -> None:
    for number in range(9):
        world.waiting_job(f"job-{number}")
    query = "&".join(f"job=job-{number}" for number in range(9))
    page = world.page(f"/_sagelet/ui/compare?{query}&anyway=1")
    assert page.status == 400
    assert "name at most 8" in page.data.decode()


EVIL = "<script>alert(1)</script>"


def test_hyperparameters_are_shown_side_by_side_what_differs_first(world: ApiWorld) -> None:
    train(world, "a", 50, compiled=False, HyperParameters={"lr": "0.1", "epochs": "3", "seed": "1"})
    train(world, "b", 31, compiled=False, HyperParameters={"lr": '"0.2"', "epochs": "3", EVIL: EVIL})
    text = world.page("/_sagelet/ui/compare?job=b&job=a&first=a").data.decode()
    assert EVIL not in text
    section = text[text.index('id="hyperparameters"') :]
    differing, _, same = section.partition('<details id="same">')
    rows = re.findall(r"<tr class=\"differs\">(.*?)</tr>", differing, re.DOTALL)
    words = [" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in rows]
    assert words == [f"{EVIL} differs not set {EVIL}", "lr differs 0.1 0.2", "seed differs 1 not set"]
    assert ">epochs</th>" in same
    assert re.findall(r'<th scope="col">(\w)</th>', differing) == ["a", "b"]
    assert "sagemaker_*" not in section


def test_hyperparameters_of_the_sdk_are_said_to_be_left_out(world: ApiWorld) -> None:
    for name in ("a", "b"):
        train(world, name, 50, compiled=False, HyperParameters={"sagemaker_program": '"train.py"'})
    text = world.page("/_sagelet/ui/compare?job=a&job=b").data.decode()
    section = text[text.index('id="hyperparameters"') :]
    assert "The jobs set no hyperparameters of their own." in section
    assert "<code>sagemaker_*</code>, are left out here" in section[: section.index('id="request-rows"')]
    assert ">sagemaker_program</th>" in section[section.index('id="request-rows"') :]


def test_any_metric_of_several_jobs_is_drawn_in_one_chart(world: ApiWorld) -> None:
    algorithm = {
        **request("x")["AlgorithmSpecification"],
        "MetricDefinitions": [
            {"Name": "loss", "Regex": "'loss': ([0-9.]+)"},
            {"Name": "epoch", "Regex": "'epoch': ([0-9.]+)"},
        ],
    }
    train(world, "a", 50, compiled=False, AlgorithmSpecification=algorithm)
    train(world, "b", 31, compiled=True, AlgorithmSpecification=algorithm)
    path = "/_sagelet/ui/compare/curves?job=a&job=b"
    found = json.loads(world.page(path, Accept="application/json").data)
    assert found["axes"] == ["time", "sample", "epoch"]
    charts = {chart["name"]: chart for section in found["charts"].values() for chart in section}
    assert [(one["label"], one["y"], one["colour"]) for one in charts["loss"]["series"]] == [
        ("a algo-1", [4.0, 2.0], 0),
        ("b algo-1", [4.0, 2.0], 1),
    ]
    # What only the second job has keeps the second job's colour.
    assert [one["colour"] for one in charts["sagelet:compile_seconds"]["series"]] == [1]
    over = json.loads(world.page(f"{path}&over=epoch", Accept="application/json").data)
    (loss,) = over["charts"]["metrics"]
    assert [one["x"] for one in loss["series"]] == [[1.0, 2.0], [1.0, 2.0]]
    assert over["charts"]["instances"] == []
    assert json.loads(world.page(f"{path}&over=nonsense", Accept="application/json").data)["axis"] == "time"
    page = world.page("/_sagelet/ui/compare?job=a&job=b").data.decode()
    assert 'data-url="/_sagelet/ui/compare/curves?job=a&amp;job=b"' in page
