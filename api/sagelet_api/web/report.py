"""The compile report for a page, in words and figures (docs/reference/compiler-report.md)."""

from sagelet_api.web.site import TemplateValues
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.rows import other_rows, rows
from sagelet_engine.telemetry.compiler.text import duration, heading, summary
from sagelet_engine.telemetry.compiler.worker import CallSite

#: Rows of the tables of places, shapes and operations.
MOST = 20


def report_view(report: CompilerReport) -> TemplateValues:
    total, how = report.total, heading(report)
    by_inductor = report.compiler == "inductor"
    return {
        "heading": how[:1].upper() + how[1:],
        "summary": summary(report) if report.compiled else "",
        "figures": rows(total, compiled=report.compiled, by_inductor=by_inductor),
        "others": other_rows(report.others),
        "places": [
            ("Calls that waited for the device", "A value that is read also ends a graph.", _longest(total.waits)),
            ("XLA tensors saved", "torch.save of tensors on the device.", _places(total.saves)),
            ("CUDA devices asked for", "", _places(total.devices.cuda_requests)),
        ],
        "instead": "Parts that run natively" if by_inductor else "Operations on the CPU instead",
        "fallbacks": list(total.fallbacks.items())[:MOST],
        "shapes": [(" x ".join(map(str, one.shape)), one.count) for one in total.batch_shapes[:MOST]],
    }


def _longest(places: tuple[CallSite, ...]) -> list[tuple[str, str, str, int | str, str]]:
    return _places(tuple(sorted(places, key=lambda one: -one.seconds)))


def _places(places: tuple[CallSite, ...]) -> list[tuple[str, str, str, int | str, str]]:
    """Returns rows: call, place, caller, count (empty if it is not known), duration."""
    return [
        (one.call, f"{one.file}:{one.line} {one.function}" if one.file else "", one.via, one.count or "",
         duration(one.seconds))
        for one in places[:MOST]
    ]  # fmt: skip
