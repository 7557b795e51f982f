"""The four pictures of AWS's blog "How to Speed Up Open Source LLMs Training and Cut Down Billing Time with Amazon
SageMaker": throughput, loss, training time, billable seconds. Titles and axes are as in its notebook.
"""

from sagelet_api.comparison.charts import Bar, Curve, Frame, bar_picture, line_picture
from sagelet_api.comparison.drawing import Picture
from sagelet_api.comparison.wording import UNKNOWN, value_text
from sagelet_engine.comparison.result import Comparison, Job, Row

NO_LOSS = "No training loss: neither in the log nor by a metric definition"


def pictures(comparison: Comparison) -> tuple[Picture, ...]:
    return (_throughput(comparison), _loss(comparison), _time(comparison), _cost(comparison))


def captions(comparison: Comparison) -> dict[str, str]:
    """Returns the text below each picture, by its name, in the blog's words."""
    if [job.label for job in comparison.jobs] == ["native", "XLA"]:
        against = "without Training Compiler vs. with Training Compiler"
    else:
        against = " vs. ".join(job.label for job in comparison.jobs)
    return {
        "throughput": f"Training data throughput: {against}",
        "loss": f"Training loss convergence: {against}",
        "time": f"Training time: {against}",
        "cost": f"Training cost (billable seconds): {against}",
    }


def _throughput(comparison: Comparison) -> Picture:
    return _bars(comparison, "throughput", "throughput", "Training Throughput", "Higher is better", "Samples/sec")


def _cost(comparison: Comparison) -> Picture:
    title = "Training Cost (billable seconds)"
    return _bars(comparison, "cost", "billable_seconds", title, "Lower is better", "Billable seconds", "usd")


def _bars(
    comparison: Comparison, name: str, key: str, title: str, subtitle: str, unit: str, beside: str = ""
) -> Picture:
    """Makes a picture of bars. `beside`: a figure above the value."""
    row, more = _row(comparison, key), _row(comparison, beside)
    bars = [
        Bar(job.label, _value(row, index), _text(row, index), above=_known(more, index))
        for index, job in enumerate(comparison.jobs)
    ]
    return bar_picture(
        Frame(name=name, title=title, subtitle=subtitle, unit=unit, note="", description=_described(bars)), bars
    )


def _time(comparison: Comparison) -> Picture:
    row, compiling = _row(comparison, "runtime"), _row(comparison, "compile_seconds")
    bars = [
        Bar(job.label, _value(row, index), _text(row, index), *_part(compiling, index, _value(row, index)))
        for index, job in enumerate(comparison.jobs)
    ]
    subtitle = "Lower is better" + ("; the light part is compiling" if any(bar.part for bar in bars) else "")
    frame = Frame(
        name="time",
        title="Training Time",
        subtitle=subtitle,
        unit="Seconds (train_runtime)",
        note="",
        description=_described(bars),
    )
    return bar_picture(frame, bars)


def _part(compiling: Row | None, index: int, whole: float | None) -> tuple[float, str, str]:
    seconds = _value(compiling, index)
    if not seconds or compiling is None or whole is None or seconds > whole:
        return 0.0, "", ""
    figure = value_text(compiling, seconds)
    return seconds, f"compiling {figure}", figure


def _loss(comparison: Comparison) -> Picture:
    by_epoch = all(point.epoch is not None for job in comparison.jobs for point in job.losses)
    curves = [Curve(job.label, _points(job, by_epoch)) for job in comparison.jobs]
    told = [
        f"{curve.label}: {len(curve.points)} points, from {curve.points[0][1]:.4g} to {curve.points[-1][1]:.4g}"
        for curve in curves
        if curve.points
    ]
    title = "Plot of Training Loss"
    frame = Frame(
        name="loss", title=title, subtitle="", unit="Training Loss", note="", description="; ".join(told) or NO_LOSS
    )
    return line_picture(frame, "Epoch" if by_epoch else "Entry of the log", curves, NO_LOSS)


def _points(job: Job, by_epoch: bool) -> tuple[tuple[float, float], ...]:
    if by_epoch:
        return tuple((point.epoch or 0.0, point.loss) for point in job.losses)
    return tuple((float(number), point.loss) for number, point in enumerate(job.losses, 1))


def _described(bars: list[Bar]) -> str:
    texts = [
        f"{bar.label}: {bar.text}"
        + (f" ({bar.above})" if bar.above else "")
        + (f", of which {bar.part_text}" if bar.part else "")
        for bar in bars
    ]
    return "; ".join(texts)


def _row(comparison: Comparison, key: str) -> Row | None:
    return next((row for row in comparison.rows if row.key == key), None)


def _value(row: Row | None, index: int) -> float | None:
    return None if row is None else row.values[index]


def _text(row: Row | None, index: int) -> str:
    """Returns a short text, because bars are narrow. The axis says samples/s."""
    if row is None:
        return UNKNOWN
    return value_text(row, row.values[index]).removesuffix(" samples/s")


def _known(row: Row | None, index: int) -> str:
    return "" if _value(row, index) is None else _text(row, index)
