"""The catalogue of instance types, and what a job costs by it."""

import itertools
from datetime import date

import botocore.session
import pytest

from sagelet_engine.instances.bill import bill
from sagelet_engine.instances.catalogue import every, find, gpu_count, prices_as_of, prices_region
from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.lifecycle import advance
from sagelet_engine.model.training import TrainingJob, create
from support.world import key, request

S = SecondaryStatus
START = 1_700_000_000_000


def test_every_type_of_the_service_model_is_in_the_catalogue() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    assert set(model.shape_for("TrainingInstanceType").enum) == {kind.name for kind in every()}


def test_every_entry_makes_sense() -> None:
    for kind in every():
        assert kind.vcpus >= 2, kind
        assert kind.memory_gib >= 4, kind
        assert bool(kind.gpus) == bool(kind.gpu_model) == bool(kind.gpu_memory_gib), kind
        assert (kind.usd_per_hour is None) == (kind.priced_on is None), kind
        assert kind.usd_per_hour is None or 0.01 < kind.usd_per_hour < 200, kind
        assert kind.priced_on is None or kind.priced_on <= prices_as_of(), kind


def test_what_has_more_of_everything_costs_more() -> None:
    priced = [kind for kind in every() if kind.usd_per_hour is not None]
    assert len(priced) > 40
    for small, large in itertools.permutations(priced, 2):
        assert small.usd_per_hour is not None
        assert large.usd_per_hour is not None
        same_family = small.name.rpartition(".")[0] == large.name.rpartition(".")[0]
        if same_family and small.vcpus < large.vcpus and small.gpus <= large.gpus:
            assert small.usd_per_hour < large.usd_per_hour, (small.name, large.name)


@pytest.mark.parametrize(
    ("name", "count", "model", "memory"),
    [
        ("ml.p3.2xlarge", 1, "NVIDIA V100", 16),
        ("ml.g4dn.12xlarge", 4, "NVIDIA T4", 16),
        ("ml.p4d.24xlarge", 8, "NVIDIA A100", 40),
        ("ml.p5.4xlarge", 1, "NVIDIA H100", 80),
        ("ml.p6e-gb200.36xlarge", 4, "NVIDIA GB200", 185),
        # 12xlarge has four GPUs in the older families and two in these.
        ("ml.g7e.12xlarge", 2, "NVIDIA RTX PRO 6000", 96),
        ("ml.p6-b300.48xlarge", 8, "NVIDIA B300", 268),
        ("ml.trn1.32xlarge", 0, "", 0),
    ],
)
def test_gpus(name: str, count: int, model: str, memory: int) -> None:
    kind = find(name)
    assert kind is not None
    assert (kind.gpus, kind.gpu_model, kind.gpu_memory_gib) == (count, model, memory)
    assert gpu_count(name) == count


def test_a_type_that_is_not_there_is_none_and_has_no_gpu() -> None:
    assert find("ml.unheard.of") is None
    assert gpu_count("ml.unheard.of") == 0


def test_prices_say_where_and_when() -> None:
    assert prices_region() == "us-east-1"
    assert find("ml.p4d.24xlarge").priced_on == prices_as_of()  # type: ignore[union-attr]
    # The list has it no more.
    assert find("ml.p3.2xlarge").priced_on == date(2020, 10, 1)  # type: ignore[union-attr]


def job(*steps: tuple[SecondaryStatus, int], resources: dict[str, object], spot: float = 0.0) -> TrainingJob:
    """A job that entered each status so many seconds after its creation."""
    body = request("one", ResourceConfig={"VolumeSizeInGB": 1, **resources}, EnableManagedSpotTraining=spot > 0)
    made = create(key("one"), "id", body, {}, START, spot)
    for status, seconds in steps:
        made = advance(made, status, START + seconds * 1000)
    return made


ENDED = ((S.DOWNLOADING, 10), (S.TRAINING, 20), (S.UPLOADING, 3600), (S.COMPLETED, 3610))


def test_the_bill_is_seconds_times_instances_times_price() -> None:
    made = bill(job(*ENDED, resources={"InstanceType": "ml.g4dn.12xlarge", "InstanceCount": 2}), START + 9_999_000)
    assert made.seconds == 3600
    assert made.instances == (("ml.g4dn.12xlarge", 2),)
    assert made.usd == pytest.approx(2 * 4.89)
    assert made.usd_per_hour == pytest.approx(2 * 4.89)
    assert (made.as_of, made.running) == (prices_as_of(), False)


def test_instance_groups_are_added_up_and_the_oldest_price_list_is_named() -> None:
    groups = [
        {"InstanceGroupName": "a", "InstanceType": "ml.p3.2xlarge", "InstanceCount": 1},
        {"InstanceGroupName": "b", "InstanceType": "ml.m5.large", "InstanceCount": 2},
        {"InstanceGroupName": "c", "InstanceType": "ml.p3.2xlarge", "InstanceCount": 1},
    ]
    made = bill(job(*ENDED, resources={"InstanceGroups": groups}), START)
    assert made.instances == (("ml.p3.2xlarge", 2), ("ml.m5.large", 2))
    assert made.usd == pytest.approx(2 * 3.825 + 2 * 0.115)
    assert made.as_of == date(2020, 10, 1)


def test_the_discount_of_spot_is_in_the_seconds_already() -> None:
    spot = job(*ENDED, resources={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}, spot=0.7)
    made = bill(spot, START)
    assert made.seconds == spot.billable_seconds == 1080
    assert made.usd == pytest.approx(1.408 * 0.3)


def test_no_price_is_no_sum() -> None:
    made = bill(job(*ENDED, resources={"InstanceType": "ml.p2.xlarge", "InstanceCount": 1}), START)
    assert (made.seconds, made.usd, made.usd_per_hour) == (3600, None, None)


@pytest.mark.parametrize(("spot", "seconds"), [(0.0, 90), (0.5, 45)])
def test_a_job_that_runs_is_billed_so_far(spot: float, seconds: int) -> None:
    running = job(*ENDED[:2], resources={"InstanceType": "ml.m5.large", "InstanceCount": 1}, spot=spot)
    made = bill(running, START + 100_000)
    assert (made.seconds, made.running) == (seconds, True)
    assert made.usd == pytest.approx(seconds * 0.115 / 3600)


@pytest.mark.parametrize("steps", [(), ((S.FAILED, 60),)])
def test_a_job_that_never_downloaded_costs_nothing(steps: tuple[tuple[SecondaryStatus, int], ...]) -> None:
    made = bill(job(*steps, resources={"InstanceType": "ml.m5.large", "InstanceCount": 1}), START + 100_000)
    assert (made.seconds, made.usd) == (0, 0)
