"""`kill -9` of the server at every failpoint, and what the next one makes of it; on Docker at those of containers."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from sagelet_engine.base.failpoints import Failpoint
from support.failpoints import BUCKET, Life, Mortal
from support.killed_jobs import PASSED_BY, WITNESS, Check, check_bill, fails, processes, trains
from support.programs import asks
from support.server import until
from support.tiny_image import ensure

#: Rounds over all failpoints; a longer run: SAGELET_TEST_KILLS=100.
ROUNDS = max(1, int(os.environ.get("SAGELET_TEST_KILLS", "5")) // 5)
F = Failpoint
#: What only the docker runtime passes.
DOCKER_ONLY = {F.AFTER_CONTAINER}
#: What no server passes, but a command of its own: tests/acceptance/test_hub.py.
IN_COMMANDS = {F.AFTER_HUB_BLOBS, F.AFTER_HUB_RECORD, F.AFTER_HUB_REMOVAL}
#: Passed once a start, or once for each job that is taken up.
ONCE = {F.BEFORE_RECOVERY, F.AFTER_ADOPTION}
#: Where containers, networks and Docker's log come in.
DOCKER = (F.BEFORE_HOST, F.AFTER_CONTAINER, F.AFTER_HOST, F.AFTER_LAUNCH, F.AFTER_LINES, F.AFTER_SIGNAL, F.BEFORE_REAP)
#: Those of a processing job: its inputs and hosts, an output that is uploaded while it runs, its end.
PROCESSING = (F.AFTER_STAGING, F.AFTER_LAUNCH, F.AFTER_CHECKPOINT, F.AFTER_HOSTS, F.AFTER_REAP, F.AFTER_UPLOAD)
OPTIONS = ("--max-jobs", "4", "--stop-grace", "60")
#: At most so many jobs until the n-th pass of a failpoint.
MOST_JOBS = 12


def lives(seed: int) -> list[Life]:
    """Every failpoint once: at its first pass, and with other seeds in another order at some pass."""
    points = [point for point in Failpoint if point not in DOCKER_ONLY | IN_COMMANDS]
    if seed == 0:
        return [Life(point) for point in points]
    chance = random.Random(seed)
    chance.shuffle(points)
    return [Life(point, 1 if point in ONCE else chance.choice((1, 1, 2, 3, 5))) for point in points]


@pytest.fixture(params=[pytest.param(seed, marks=pytest.mark.xla, id=f"process-{seed}") for seed in range(ROUNDS)])
def on_processes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mortal]:
    made = Mortal(tmp_path, lives(request.param), "--runtime", "process", *OPTIONS)
    yield made
    made.close()


@pytest.fixture
@asks("busybox")
def on_docker(tmp_path: Path) -> Iterator[Mortal]:
    client = docker.from_env()
    image = ensure(client)
    made = Mortal(tmp_path, [Life(point) for point in DOCKER], "--runtime", "docker", *OPTIONS, image=image)
    yield made
    made.close()
    left = remove_containers(client, made.names)
    client.close()
    assert left == []


def remove_containers(client: docker.DockerClient, jobs: list[str]) -> list[str]:
    """Returns which there were: a test that fails may leave some behind."""
    listed = client.api.containers(all=True, filters={"label": "org.sagelet.job-name"})
    left = [one for one in listed if one["Labels"]["org.sagelet.job-name"] in jobs]
    for one in left:
        client.api.remove_container(one["Id"], force=True)
    for network in client.api.networks():
        if any(network["Name"].startswith(f"sagelet-{name}-") for name in jobs):
            client.api.remove_network(network["Id"])
    return [one["Names"][0] for one in left]


def live(mortal: Mortal) -> list[Check]:
    """Gives the server jobs until all of its lives are lost."""
    checks: list[Check] = []
    while (life := mortal.life) is not None:
        for _ in range(MOST_JOBS):
            checks.append(PASSED_BY.get(life.at, trains)(mortal))
            checks += [fails(mortal)] if len(checks) % 5 == 0 else []
            if mortal.life is not life:
                break
            if until_dead_or_idle(mortal):
                mortal.again()
                break
        assert mortal.life is not life, f"no job passes {life}: {mortal.names[-MOST_JOBS:]}"
    return checks


def until_dead_or_idle(mortal: Mortal) -> bool:
    """Whether the server died before all jobs but the witness had ended."""
    life = mortal.life

    def idle() -> bool:
        listed = mortal.ask(
            lambda one: one.client("sagemaker").list_training_jobs(StatusEquals="InProgress")["TrainingJobSummaries"]
        )
        return len(listed) <= 1

    until(lambda: mortal.life is not life or mortal.dead() or idle())
    return mortal.life is life and mortal.dead()


@pytest.mark.xla
def test_a_kill_at_any_failpoint_loses_nothing_and_doubles_nothing(
    on_processes: Mortal, capsys: pytest.CaptureFixture[str]
) -> None:
    go_through(on_processes, capsys)


@pytest.mark.docker
def test_containers_are_adopted(on_docker: Mortal, capsys: pytest.CaptureFixture[str]) -> None:
    go_through(on_docker, capsys)


@pytest.mark.xla
def test_processing_jobs_are_adopted(tmp_path: Path) -> None:
    mortal = Mortal(tmp_path, [Life(point) for point in PROCESSING], "--runtime", "process", *OPTIONS)
    try:
        mortal.start()
        mortal.ask(lambda one: one.client("s3").create_bucket(Bucket=BUCKET))
        checks = []
        while (life := mortal.life) is not None:
            checks.append(processes(mortal))
            # An earlier job may pass the failpoint while this one is created.
            until(lambda life=life: mortal.life is not life or mortal.dead())
            if mortal.life is life:
                mortal.again()
        for check in checks:
            check(mortal)
        assert mortal.figures.kills == len(PROCESSING)
    finally:
        mortal.close()


def go_through(mortal: Mortal, capsys: pytest.CaptureFixture[str]) -> None:
    mortal.start()
    mortal.ask(lambda one: one.client("s3").create_bucket(Bucket=BUCKET))
    witness = mortal.create("witness", WITNESS, hosts=2)
    while not (mortal.outside / "printed").exists():
        until(lambda: mortal.dead() or (mortal.outside / "printed").exists())
        if mortal.dead():
            mortal.again()
    mortal.watch(witness)
    checks = live(mortal)
    (mortal.outside / "over").touch()
    job = mortal.ended(witness)
    assert job["TrainingJobStatus"] == "Completed", job
    check_bill(job)
    for lines in mortal.log(witness).values():
        assert lines == [*(f"line {number}" for number in range(len(lines) - 1)), "over"]
    for check in checks:
        check(mortal)
    doubled = {host: count for host, count in mortal.starts().items() if count != 1}
    assert doubled == {}
    until(lambda: list((mortal.server.data / "s3" / ".staged").iterdir()) == [])
    until(lambda: mortal.shims() == [])
    with capsys.disabled():
        print(f"\n{mortal.figures}; {len(mortal.starts())} hosts, none started twice; {len(checks)} jobs, none lost")
