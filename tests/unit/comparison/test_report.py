"""Comparisons as pictures, page and table."""

import io
import json
import re
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image
from rich.console import Console

from sagelet.comparing import Comparison
from sagelet_api.comparison import files, html, table
from sagelet_api.comparison.charts import (
    FEW_POINTS,
    Bar,
    Curve,
    Frame,
    Scale,
    bar_picture,
    line_picture,
    tick_text,
    ticks,
)
from sagelet_api.comparison.drawing import Label, Picture
from sagelet_api.comparison.pictures import NO_LOSS, captions, pictures
from sagelet_api.comparison.png import NoPillow, dashes
from sagelet_api.comparison.svg import svg
from sagelet_engine.comparison.comparing import compare
from sagelet_engine.comparison.facts import JobFacts
from support.comparison_facts import compiled, facts, native, trainer

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>&\"'"
FRAME = Frame("cost", "Title", "Lower is better", "s")


def made(*jobs: JobFacts, anyway: bool = False) -> Comparison:
    return Comparison.from_json(_as_sent(compare(jobs or [native(), compiled()], anyway=anyway).to_json()))


def _as_sent(value: object) -> dict[str, object]:
    sent: dict[str, object] = json.loads(json.dumps(value))
    return sent


def elements(picture: Picture, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg(picture)).iter(f"{SVG}{name}"))


def texts(picture: Picture) -> list[str]:
    return [element.text or "" for element in elements(picture, "text")]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 95.4, [0, 20, 40, 60, 80, 100]),
        (2.5, 3.84, [2.5, 3.0, 3.5, 4.0]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (3, 3, [2.4, 2.6, 2.8, 3.0, 3.2, 3.4, 3.6]),
        (-1, 1, [-1.0, -0.5, 0.0, 0.5, 1.0]),
        (0, 1e-7, [0, 2e-8, 4e-8, 6e-8, 8e-8, 1e-7]),
    ],
)
def test_ticks_are_round_and_hold_everything(low: float, high: float, expected: Sequence[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("number", "step", "text"), [(25, 25, "25"), (2.5, 2.5, "2.5"), (0.5, 0.25, "0.50"), (1e6, 5e5, "1,000,000")]
)
def test_ticks_have_the_decimals_they_need(number: float, step: float, text: str) -> None:
    assert tick_text(number, step) == text


def test_a_scale_may_run_upward() -> None:
    scale = Scale(0, 10, 260, 60)
    assert (scale.at(0), scale.at(5), scale.at(10)) == (260, 160, 60)


def test_bars_are_as_high_as_their_values() -> None:
    picture = bar_picture(FRAME, [Bar("one", 100, "100 s"), Bar("two", 50, "50 s", 20, "compiling 20 s")])
    bars = elements(picture, "rect")
    heights = [float(bar.get("height", "0")) for bar in bars]
    assert heights[1] + heights[2] == pytest.approx(heights[0] / 2, abs=0.02)
    assert heights[2] == pytest.approx(heights[0] / 5, abs=0.02)
    assert [bar.get("class") for bar in bars] == ["series-0", "series-1", "series-1 light"]
    assert {"100 s", "50 s", "compiling 20 s", "one", "two"} <= set(texts(picture))


def test_no_figure_is_cut_however_many_bars() -> None:
    bars = [Bar(f"XLA {n}", 12345.6, "12,345.6 s", 6000, "compiling 6,000 s", "6,000 s", "$12.3456") for n in range(12)]
    shown = texts(bar_picture(FRAME, bars))
    assert [shown.count(text) for text in ("12,345.6 s", "6,000 s", "$12.3456")] == [12, 12, 12]
    assert not [text for text in shown if "…" in text]


@pytest.mark.parametrize(
    ("corner", "falling"), [("right", True), ("left", False)], ids=["a falling curve", "a rising curve"]
)
def test_the_legend_is_where_no_curve_is(corner: str, falling: bool) -> None:
    points = tuple((float(n), -float(n) if falling else float(n)) for n in range(20))
    picture = line_picture(FRAME, "Epoch", [Curve("one", points)], "none")
    (label,) = [shape for shape in picture.shapes if isinstance(shape, Label) and shape.text == "one"]
    assert ("right" if label.x > picture.width / 2 else "left") == corner
    assert label.y < picture.height / 2


def test_a_value_that_is_not_known_has_no_bar() -> None:
    picture = bar_picture(FRAME, [Bar("one", None, "not known"), Bar("two", 0.0, "0 s")])
    assert [bar.get("height") for bar in elements(picture, "rect")] == ["0"]
    assert "not known" in texts(picture)


def test_curves() -> None:
    points = tuple((float(number), 4.0 - number / 10) for number in range(5))
    picture = line_picture(FRAME, "Epoch", [Curve("one", points), Curve("two", points)], "none")
    lines = [line for line in elements(picture, "polyline") if "series" in (line.get("class") or "")]
    # Both curves and their lines in the legend; the second is dashed, so that the first is seen beneath.
    assert [line.get("stroke-dasharray") for line in lines] == [None, "7 5", None, "7 5"]
    assert lines[0].get("points") == lines[1].get("points")
    assert len(elements(picture, "circle")) == 10
    many = tuple((float(number), 1.0) for number in range(FEW_POINTS))
    assert not elements(line_picture(FRAME, "Epoch", [Curve("one", many)], "none"), "circle")


def test_one_point_is_a_dot_and_none_is_said() -> None:
    dot = line_picture(FRAME, "Epoch", [Curve("one", ((1.0, 2.0),)), Curve("two", ())], "none")
    assert len(elements(dot, "circle")) == 1
    assert "nothing there" in texts(line_picture(FRAME, "Epoch", [Curve("one", ())], "nothing there"))


def test_pictures_are_named_and_described_for_those_who_do_not_see_them() -> None:
    (throughput, loss, time, cost) = pictures(made())
    root = ElementTree.fromstring(svg(throughput))
    named = {element.get("id"): element.text for element in root if element.tag in (f"{SVG}title", f"{SVG}desc")}
    assert [named[name] for name in (root.get("aria-labelledby") or "").split()] == [
        "Training Throughput",
        "native: 10; XLA: 20",
    ]
    assert loss.description == "native: 3 points, from 4 to 2; XLA: 3 points, from 4 to 2"
    assert time.description == "native: 100 s; XLA: 60 s, of which compiling 10 s"
    assert cost.description == "native: 120 s ($0.1200); XLA: 75 s ($0.0750)"


def test_captions_are_the_blogs() -> None:
    assert captions(made())["cost"] == (
        "Training cost (billable seconds): without Training Compiler vs. with Training Compiler"
    )
    both = made(facts("one", compiled=True, seconds=9), facts("two", compiled=True, seconds=9))
    assert captions(both)["time"] == "Training time: XLA vs. XLA 2"


def test_pictures_of_jobs_of_which_little_is_known() -> None:
    bare = {"log": trainer(60, losses=()), "training_seconds": None, "billable_seconds": None, "status": "InProgress"}
    shown = pictures(made(native(log=trainer(100, losses=())), compiled(**bare), anyway=True))
    assert NO_LOSS in texts(shown[1])
    assert "not known" in texts(shown[3])


class Page(HTMLParser):
    """What a page loads, what is in it, and whether its elements are closed in order."""

    VOID = ("meta", "link", "br", "input", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attributes if name in ("src", "href", "data", "action")]
        assert not any(name.startswith("on") for name, _ in attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    path = files.write_html(made(), tmp_path / "new" / "report.html")
    text = path.read_text()
    page = Page(text)
    assert page.seen.count("svg") == 4
    assert page.links == []
    assert "script" not in page.seen
    assert not re.search(r"@import|url\(", text)
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert text.count("{") == text.count("}")
    for sentence in made().sentences:
        assert sentence.text.replace("<", "&lt;").replace(">", "&gt;") in text
    assert "train_samples_per_second" in text


def test_all_that_comes_from_jobs_is_escaped() -> None:
    hostile = compiled(
        hyperparameters={"sagemaker_program": "train.py", "epochs": "3", HOSTILE: HOSTILE},
        stand_in=HOSTILE,
        log=trainer(60),
    )
    page = html.report(made(native(), hostile))
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)") >= 3
    assert "<script" not in html.fragment(made(native(), hostile))


def test_commands_are_shown_as_code() -> None:
    found = made(native(), facts("same", compiled=True, seconds=120, log=trainer(100.4)))
    command = "sagelet compare NATIVE COMPILED --repeat 3"
    (told,) = {one.text for one in found.sentences if one.kind == "speed"}
    (remark,) = (one for one in found.remarks if "how far runs vary" in one)
    # One comparison asks for one command.
    assert (f"`{command}`" in told, f"`{command}`" in remark) == (True, True)
    for page in (html.report(found), html.fragment(found)):
        assert f"<code>{command}</code>" in page
        assert "`" not in page


def test_a_report_of_what_is_not_comparable_says_so_first() -> None:
    page = html.report(made(native(), compiled(status="Stopped", code="other"), anyway=True))
    assert page.index("These jobs are not comparable") < page.index("fast did not complete") < page.index("In words")
    assert page.index("The jobs differ") < page.index("its scripts are not the same files")


def test_the_table_of_a_terminal() -> None:
    console = Console(width=100, color_system=None, file=io.StringIO())
    table.show(made(native(), compiled(code="other"), facts("third", compiled=True, seconds=60)), console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"native +XLA +XLA 2", shown)
    assert re.search(r"Billable time \(BillableTimeInSeconds\) +120 s +75 s +-37.5% +60 s +-50.0%", shown)
    assert "differs: fast: its scripts are not the same files." in shown
    # Job by job.
    first, second = shown.index("XLA: fast\n"), shown.index("XLA 2: third\n")
    faster = "SageMaker Training Compiler is about 40% faster in terms of total training time."
    assert first < shown.index(faster) < second < shown.index("50% faster in summary")
    assert str(made()).startswith("fast against plain\n")


@pytest.mark.parametrize("others", [1, 2, 6])
def test_no_figure_wraps_on_a_terminal_of_80_columns(others: int) -> None:
    console = Console(width=80, color_system=None, file=io.StringIO())
    jobs = [facts(f"job-{number}", compiled=True, seconds=1234567 + number) for number in range(others)]
    comparison = made(native(), *jobs)
    table.show(comparison, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= 80
    shown = "\n".join(lines)
    for row in comparison.rows:
        assert any(line.startswith(row.title) for line in lines), row.title
    assert re.search(r"Billable time \(BillableTimeInSeconds\)\s+120 s +1,234,567 s +\+[\d,]+%", shown)
    headings = [line for line in lines if re.match(r" {3,}(native|XLA)", line)]
    labels = [label for line in headings for label in re.findall(r"native|XLA(?: \d)?", line)]
    assert labels == [job.label for job in comparison.jobs]


def test_pngs_are_the_same_pictures(tmp_path: Path) -> None:
    written = made().to_png(tmp_path / "pictures")
    assert [path.name for path in written] == ["throughput.png", "loss.png", "time.png", "cost.png"]
    for path in written:
        with Image.open(path) as image:
            assert image.size == (960, 640)
            assert image.getpixel((0, 0)) == (255, 255, 255)
            colours = {colour for _, colour in image.getcolors(1 << 20) or []}
    # The first job's bar and the second's.
    assert {(0, 114, 178), (213, 94, 0)} <= colours


def test_without_pillow_there_is_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(NoPillow, match=re.escape("pip install 'pillow>=12.3,<14'")):
        made().to_png(tmp_path / "pictures")
    assert not (tmp_path / "pictures").exists()


def test_a_dashed_line_goes_around_corners() -> None:
    corner = ((0.0, 0.0), (5.0, 0.0), (5.0, 20.0))
    pieces = dashes(corner)
    # 25 long: 7 drawn, 5 left out, and so on.
    assert pieces == [[(0.0, 0.0), (5.0, 0.0), (5.0, 2.0)], [(5.0, 7.0), (5.0, 14.0)], [(5.0, 19.0), (5.0, 20.0)]]


def test_a_notebook_shows_it() -> None:
    shown = made()._repr_html_()
    assert shown.startswith("<style>")
    assert "<html" not in shown
    assert shown.count("<svg") == 4
