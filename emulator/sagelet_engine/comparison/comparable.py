"""The differences of two jobs, and which of them make a comparison meaningless."""

from collections.abc import Iterator
from dataclasses import dataclass

from sagelet_engine.comparison.facts import ChannelFacts, JobFacts
from sagelet_engine.comparison.measured import measure

#: Largest relative difference of the samples trained on. The last batches of epochs stay within it.
OTHER_WORK = 0.05
#: Channels without data: SDK v3 sends scripts and its driver in them.
CODE_CHANNELS = frozenset({"code", "sm_drivers"})
#: Parts of the names of hyperparameters that name the data.
_DATA = ("dataset", "train_file", "validation_file", "data_dir")
_WORK = ("epochs", "max_steps", "num_steps", "train_steps")
#: Parts of names that the SDK and AWS's scripts set for their own use, or that other rules compare.
_OWN = ("sagemaker_", "n_gpus", "num_gpus", "training_script", "output_dir", "batch_size")


@dataclass(frozen=True)
class Difference:
    #: The job that differs from the first one.
    job: str
    #: status, data, instances, script, seed, batch, work, learning rate, hyperparameters, image, spot, attempts
    what: str
    #: For people: a sentence without its full stop.
    text: str
    #: True if it makes the comparison meaningless. Then the comparison is only made on request (`anyway`).
    blocks: bool = False


def differences(baseline: JobFacts, other: JobFacts) -> tuple[Difference, ...]:
    """Differences of `other` from `baseline`, the blocking ones first."""
    found = [
        *_status(baseline, other),
        *_data(baseline, other),
        *_instances(baseline, other),
        *_script(baseline, other),
        *_batch(baseline, other),
        *_work(baseline, other),
        *_hyperparameters(baseline, other),
        *_circumstances(baseline, other),
    ]
    return tuple(sorted(found, key=lambda one: not one.blocks))


def _status(baseline: JobFacts, other: JobFacts) -> Iterator[Difference]:
    for job in (baseline, other):
        if job.status == "InProgress":
            yield Difference(other.name, "status", f"{job.name} still runs: its figures are as of now", True)
        elif job.status != "Completed":
            yield Difference(other.name, "status", f"{job.name} did not complete: it is {job.status}", True)


def _data(baseline: JobFacts, other: JobFacts) -> Iterator[Difference]:
    before, after = _channels(baseline), _channels(other)
    for name in sorted(before.keys() | after.keys()):
        if name not in before or name not in after:
            has = baseline if name in before else other
            yield Difference(other.name, "data", f"only {has.name} has the channel {name}", True)
        else:
            yield from _channel(baseline, other, before[name], after[name])
    for changed in _changed(baseline, other):
        if any(part in changed.name.lower() for part in _DATA):
            yield Difference(other.name, "data", changed.text, True)


def _channels(job: JobFacts) -> dict[str, ChannelFacts]:
    return {channel.name: channel for channel in job.channels if channel.name not in CODE_CHANNELS}


def _channel(baseline: JobFacts, other: JobFacts, one: ChannelFacts, two: ChannelFacts) -> Iterator[Difference]:
    if one.source != two.source and (not one.fingerprint or one.fingerprint != two.fingerprint):
        text = f"the channel {one.name} has other data: {two.source}, not {one.source}"
        yield Difference(other.name, "data", text, True)
        return
    for job, channel in ((baseline, one), (other, two)):
        if job.started_ms is not None and channel.newest_ms > job.started_ms:
            text = f"objects of the channel {channel.name} were written after {job.name} had started"
            yield Difference(other.name, "data", f"{text}: it may have trained on other data")
            return


def _instances(baseline: JobFacts, other: JobFacts) -> Iterator[Difference]:
    one, two = (sorted(job.bill.instances) for job in (baseline, other))
    if one != two:
        text = f"it ran on {instances_text(other)}, not on {instances_text(baseline)}"
        yield Difference(other.name, "instances", text, True)


def instances_text(job: JobFacts) -> str:
    """`2 x ml.p4d.24xlarge`."""
    return " + ".join(f"{count} x {name}" for name, count in job.bill.instances)


def _script(baseline: JobFacts, other: JobFacts) -> Iterator[Difference]:
    if baseline.code and other.code and baseline.code != other.code:
        yield Difference(other.name, "script", "its scripts are not the same files")
    one, two = (job.hyperparameters.get("sagemaker_program", "") for job in (baseline, other))
    if one and two and _entry(baseline) != _entry(other):
        text = f"its entry point is {_entry(other)}, not {_entry(baseline)}"
        yield Difference(other.name, "script", text)


def _entry(job: JobFacts) -> str:
    """Returns the script itself if a launcher of the Training Compiler is the program."""
    given = job.hyperparameters
    return given.get("training_script") or given.get("sagemaker_program", "")


def _batch(baseline: JobFacts, other: JobFacts) -> Iterator[Difference]:
    one, two = measure(baseline).rows.number, measure(other).rows.number
    if one and two:
        if one != two:
            text = f"a step takes {two:g} rows ({_workers(other)}), not {one:g} ({_workers(baseline)})"
            yield Difference(other.name, "batch", f"{text}; compare throughput, not seconds per step")
        return
    for changed in _changed(baseline, other):
        if "batch_size" in changed.name.lower():
            yield Difference(other.name, "batch", changed.text)


def _workers(job: JobFacts) -> str:
    count = len(job.report.workers)
    return f"{count} worker{'s' if count > 1 else ''}"


def _work(baseline: JobFacts, other: JobFacts) -> Iterator[Difference]:
    one, two = measure(baseline).samples.number, measure(other).samples.number
    if one and two:
        if abs(two - one) > OTHER_WORK * max(one, two):
            text = f"it trained on {two:g} samples, not {one:g}, so seconds and dollars are for different amounts of "
            text += "work"
            yield Difference(other.name, "work", text)
        return
    for changed in _changed(baseline, other):
        if any(part in changed.name.lower() for part in _WORK):
            text = f"{changed.text}, so seconds and dollars are for different amounts of work"
            yield Difference(other.name, "work", text)


def _hyperparameters(baseline: JobFacts, other: JobFacts) -> Iterator[Difference]:
    rest: list[str] = []
    for changed in _changed(baseline, other):
        name = changed.name.lower()
        if "seed" in name:
            yield Difference(other.name, "seed", f"{changed.text}: losses differ by chance, too")
        elif name in ("learning_rate", "lr"):
            yield Difference(other.name, "learning rate", changed.text)
        elif not any(part in name for part in (*_DATA, *_WORK, *_OWN)):
            rest.append(changed.text)
    if rest:
        yield Difference(other.name, "hyperparameters", "; ".join(rest))


@dataclass(frozen=True)
class Change:
    """A hyperparameter that differs. A value is None if the job does not set it."""

    name: str
    before: str | None
    after: str | None

    @property
    def text(self) -> str:
        if self.before is None:
            return f"{self.name} is {self.after}, and not set in the first job"
        return f"{self.name} is {'not set' if self.after is None else self.after}, not {self.before}"


def _changed(baseline: JobFacts, other: JobFacts) -> list[Change]:
    one, two = baseline.hyperparameters, other.hyperparameters
    names = sorted(one.keys() | two.keys())
    return [Change(name, one.get(name), two.get(name)) for name in names if one.get(name) != two.get(name)]


def _circumstances(baseline: JobFacts, other: JobFacts) -> Iterator[Difference]:
    if other.asked and not other.compiled:
        yield Difference(other.name, "compilation", f"it asked for the compiler and trained natively: {other.reason}")
    if baseline.spot != other.spot:
        who = other if other.spot else baseline
        text = f"{who.name} is managed spot training: its billable seconds have a discount that the other's have not"
        yield Difference(other.name, "spot", text)
    for job in (baseline, other):
        if job.attempt > 1:
            text = f"{job.name} was interrupted and started again: its seconds include {job.attempt} attempts"
            yield Difference(other.name, "attempts", f"{text}, its other figures only the last one")
    if (baseline.account, baseline.region) != (other.account, other.region):
        place = f"account {other.account} in {other.region}, not {baseline.account} in {baseline.region}"
        yield Difference(other.name, "account", f"it ran in {place}; prices are those of us-east-1")
