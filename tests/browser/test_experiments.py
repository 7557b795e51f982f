"""The experiment pages in a real browser: charts, columns, the picker, overlays, artifacts; also without a mouse."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sagelet_api.durations import lasted
from support.devtools import Page
from support.jobs import Jobs
from support.server import SageletProcess

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=alert(1)>"
JOB, COMPARE = "/_sagelet/ui/jobs", "/_sagelet/ui/compare"
#: Each step takes a moment: samples of one moment would be one point of a curve.
CURVES = f"""
    import os, time
    rate = float(os.environ["SM_HP_LR"])
    for step in range(50):
        print(f"loss={{3 - step * rate}} epoch={{step / 25}} memory_bytes={{5_300_000_000 + step * 1_000_000}} "
              f"tiny={{0.00001234 * (step + 1):.10f}} count={{123456789 + step}}", flush=True)
        time.sleep(0.02)
    models = os.environ["SM_MODEL_DIR"]
    os.makedirs(models + "/checkpoints")
    open(models + "/config.json", "w").write({EVIL!r})
    open(models + "/checkpoints/step.pt", "wb").write(bytes(100))
"""
NAMES = ("loss", "epoch", "memory_bytes", "tiny", "count")
METRICS = [{"Name": name, "Regex": rf"{name}=([0-9.e+-]+)"} for name in NAMES]
#: Notes each text that a chart draws, with where it begins and ends and how large its canvas is.
DRAWN = """
    window.drawn = [];
    const fillText = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
      const at = this.getTransform().transformPoint({x, y}), width = this.measureText(text).width;
      const left = {left: 0, start: 0, center: width / 2, right: width, end: width}[this.textAlign];
      const upright = this.getTransform().b === 0;
      window.drawn.push({text, left: at.x - (upright ? left : 0), right: at.x - (upright ? left - width : 0), y: at.y,
                         width: this.canvas.width, height: this.canvas.height});
      return fillText.apply(this, arguments);
    };
"""


#: What a canvas fills a path with: points, not texts or rectangles.
FILLED = """
    window.filled = [];
    const fill = CanvasRenderingContext2D.prototype.fill;
    CanvasRenderingContext2D.prototype.fill = function () {
      window.filled.push(this.fillStyle);
      return fill.apply(this, arguments);
    };
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path_factory.mktemp("experiments") / "data", "--runtime", "process").start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def jobs(server: SageletProcess) -> Jobs:
    jobs = Jobs(server)
    for name, rate in (("lr-1", "0.01"), ("lr-2", "0.02")):
        parameters = {"lr": rate, "note": EVIL}
        jobs.submit(
            CURVES, name=name, metrics=METRICS, hyperparameters=parameters, Tags=[{"Key": "team", "Value": "nlp"}]
        )
        assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    jobs.submit("raise ValueError('wrong')", name="broken")
    assert jobs.ended("broken")["TrainingJobStatus"] == "Failed"
    return jobs


def drawn(page: Page) -> None:
    page.until("document.getElementById('curves').getAttribute('aria-busy') === 'false'")
    page.until("document.querySelectorAll('#metrics canvas').length >= 4")


@pytest.mark.parametrize("width", [1280, 390])
def test_no_label_of_an_axis_is_cut(page: Page, jobs: Jobs, server: SageletProcess, width: int) -> None:
    page.look(width, 844)
    page.ask("Page.addScriptToEvaluateOnNewDocument", source=DRAWN)
    page.goto(f"{server.endpoint}{JOB}/lr-1")
    drawn(page)
    # The last chart: as many digits as tell the numbers of its axis apart. uPlot draws when the browser does.
    page.until("new Set(window.drawn.map(one => one.text).filter(text => /^123[.]45.*M$/.test(text))).size > 2")
    texts: list[dict[str, Any]] = page.run("window.drawn")
    assert {"seconds since the training began"} < {one["text"] for one in texts}
    cut = [one for one in texts if one["left"] < 0 or one["right"] > one["width"] or one["y"] > one["height"]]
    assert cut == []


def test_points_have_the_colour_of_their_curve_in_the_dark(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.look(1280, dark=True)
    page.ask("Page.addScriptToEvaluateOnNewDocument", source=FILLED)
    page.goto(f"{server.endpoint}/_sagelet/ui/compare?job=lr-1&job=lr-2")
    page.until("document.querySelectorAll('#instances canvas').length === 3")
    page.until("window.filled.length > 0")
    assert "#ffffff" not in page.run("window.filled")


def test_charts_have_names_and_units_the_jobs_own_first(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(f"{server.endpoint}{JOB}/lr-1")
    drawn(page)
    titles = page.run("[...document.querySelectorAll('#metrics h3')].map(one => one.innerText)")
    assert titles == ["loss", "epoch", "memory_bytes (GiB)", "tiny", "count"]
    order = page.run("[...document.querySelectorAll('#metrics, #compiler, #instances')].map(one => one.id)")
    assert order == ["metrics", "compiler", "instances"]
    page.until("document.querySelectorAll('#instances h3').length === 3")
    instances = page.run("[...document.querySelectorAll('#instances h3')].map(one => one.innerText)")
    assert instances == ["CPUUtilization (%)", "DiskUtilization (%)", "MemoryUtilization (%)"]
    label = page.run("document.querySelectorAll('#metrics [role=img]')[2].getAttribute('aria-label')")
    assert "over seconds since the training began" in label
    assert "highest 4.982 GiB" in label


def test_the_timelines_bars_are_as_wide_as_the_times(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(f"{server.endpoint}{JOB}/lr-1")
    widths = page.run(
        "[...document.querySelectorAll('.timeline .bar')].map(bar => [bar.dataset.to - bar.dataset.from,"
        " bar.getBBox().width / bar.ownerSVGElement.getBoundingClientRect().width])"
    )
    whole = sum(took for took, _ in widths)
    assert whole > 0
    for took, share in widths:
        assert share == pytest.approx(took / whole, abs=0.01)


def test_columns_are_chosen_and_filters_keep_what_is_typed(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(server.endpoint)
    page.click("#columns summary")
    for key in ("reason", "tags", "HyperParameters.lr", "Metrics.loss"):
        page.click(f"input[name=columns][value='{key}']")
    page.click("#columns button")
    page.until("document.querySelector('thead').innerText.includes('Reason')")
    head = page.run("[...document.querySelectorAll('thead th')].map(one => one.innerText.trim())")
    assert {"Reason", "Tags", "lr", "loss"} <= set(head)
    assert "wrong" in page.run("document.querySelector('td.reason').textContent")
    page.run("document.querySelector('[name=q]').focus()")
    page.type("lr-")
    page.click(".chips a.completed")
    page.until("document.querySelectorAll('tbody tr').length === 2")
    assert page.run("document.querySelector('[name=q]').value") == "lr-"
    assert page.run("document.querySelector('[name=status]').value") == "Completed"
    assert "lr" in page.text("thead")
    page.click("thead th.sorts a")
    page.until("location.search.includes('sort=name') && document.querySelector('[name=q]')?.value === 'lr-'")
    # Remembered: the next visit has the same columns.
    page.goto(server.endpoint)
    assert "Reason" in page.text("thead")
    assert page.run("document.querySelectorAll('tbody tr').length") == 3


def test_jobs_are_picked_and_their_metrics_drawn_over_each_other(
    page: Page, jobs: Jobs, server: SageletProcess
) -> None:
    page.goto(f"{server.endpoint}{JOB}/lr-1")
    page.run("[...document.querySelectorAll('.actions a')].find(one => one.innerText === 'Compare').click()")
    page.until("document.querySelector('#picker button.primary')?.disabled")
    page.run("document.querySelector('#picker [name=q]').focus()")
    page.type("HyperParameters.lr=0.02")
    page.click("#picker [name=pick]")
    page.until("document.querySelectorAll('.found li').length === 1")
    assert page.run("document.querySelector('.chosen input').value") == "lr-1"
    page.click(".found input")
    page.click("#picker button.primary")
    page.until("!!document.getElementById('curves')")
    drawn(page)
    assert "lr differs" in " ".join(page.text("table.sides").split())
    legends = page.run(
        "[...document.querySelectorAll('#metrics .chart')].map(one =>"
        " [...one.querySelectorAll('.u-label')].map(label => label.innerText))"
    )
    assert legends == [["lr-1", "lr-2"]] * 5
    page.run(
        "(() => { const over = document.getElementById('over'); over.value = 'epoch';"
        " over.dispatchEvent(new Event('change')) })()"
    )
    page.until("document.querySelectorAll('#metrics .chart').length === 4")
    assert "over epoch" in page.run("document.querySelector('#metrics [role=img]').getAttribute('aria-label')")
    page.run("document.getElementById('metric-filter').focus()")
    page.type("MEMORY")
    page.until("document.getElementById('shown-charts').innerText === '1 charts'")
    assert page.run("[...document.querySelectorAll('#metrics .chart:not([hidden]) h3')].map(one => one.innerText)") == [
        "memory_bytes (GiB)"
    ]


def test_artifacts_are_browsed(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(f"{server.endpoint}{JOB}/lr-1/artifacts")
    assert "config.json" in page.text("main")
    page.run("[...document.querySelectorAll('main a')].find(one => one.innerText === 'checkpoints/').click()")
    page.until("document.querySelector('h1')?.innerText.endsWith('model.tar.gz')")
    assert "step.pt" in page.text("main")
    href = page.run("document.querySelector('a[download]').href")
    assert page.run(f"fetch({json.dumps(href)}).then(a => a.arrayBuffer()).then(b => b.byteLength)") == 100
    page.run("[...document.querySelectorAll('.crumbs a')].find(one => one.innerText === 'model.tar.gz/').click()")
    page.until("document.querySelector('main').innerText.includes('config.json')")
    page.run("[...document.querySelectorAll('main a')].find(one => one.innerText === 'config.json').click()")
    page.until("document.querySelector('pre.file')?.innerText.length > 0")
    assert page.text("pre.file") == EVIL


def test_without_a_mouse(page: Page, jobs: Jobs, server: SageletProcess) -> None:
    page.goto(f"{server.endpoint}{COMPARE}")
    page.run("document.querySelector('.found input').focus()")
    seen = 0
    for _ in range(3):
        page.ask("Input.dispatchKeyEvent", type="keyDown", key=" ", code="Space", text=" ", windowsVirtualKeyCode=32)
        page.ask("Input.dispatchKeyEvent", type="keyUp", key=" ", code="Space", windowsVirtualKeyCode=32)
        seen += 1
        page.press("Tab", 9)
    assert page.run("document.querySelectorAll('.found input:checked').length") == seen
    assert page.run("document.activeElement.innerText") == "Compare"
    page.press("Enter", 13)
    page.until("!!document.querySelector('table.sides')")


PAGES = {
    "the list with columns": "/?columns=reason&columns=tags&columns=compiled&columns=cost&columns=HyperParameters.lr",
    "the overview": f"{JOB}/lr-1",
    "artifacts": f"{JOB}/lr-1/artifacts",
    "folders": "/_sagelet/ui/objects?uri=s3://tests/",
    "an archive": "/_sagelet/ui/inside?uri=s3://tests/out/lr-1/output/model.tar.gz",
    "a text": "/_sagelet/ui/inside/text?uri=s3://tests/out/lr-1/output/model.tar.gz&member=2",
    "the picker": f"{COMPARE}?job=lr-1",
    "the comparison": f"{COMPARE}?job=lr-1&job=lr-2",
    "no comparison": f"{COMPARE}?job=lr-1&job=broken",
}


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use(name: str, page: Page, jobs: Jobs, server: SageletProcess, axe: str) -> None:
    """axe-core's rules in light and dark; and nothing is wider than a telephone."""
    page.goto(f"{server.endpoint}{PAGES[name]}")
    if page.run("!!document.getElementById('curves')"):
        page.until("document.getElementById('curves').getAttribute('aria-busy') === 'false'")
    for details in range(page.run("document.querySelectorAll('details').length")):
        page.run(f"document.querySelectorAll('details')[{details}].open = true")
    assert page.violations(axe) == []
    page.look(390, 844, dark=True)
    page.until("document.documentElement.dataset.theme === 'dark'")
    assert page.violations(axe) == []
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


def test_numbers_in_words_have_the_unit_that_fits_them(page: Page, server: SageletProcess) -> None:
    page.goto(server.endpoint)
    smaller = "[['KiB', 1024], ['B', 1048576]]"
    calls = {
        f"inUnit(4 / 1048576, 'MiB', {smaller})": "4 B",
        f"inUnit(0, 'MiB', {smaller})": "0 MiB",
        f"inUnit(3.5, 'MiB', {smaller})": "3.5 MiB",
        "inUnit(0.000254, '%')": "less than 0.01 %",
        "inUnit(null, 's')": "",
    }
    module = "import('/_sagelet/ui/static/charts.js')"
    asked = ", ".join(f"charts.{call}" for call in calls)
    assert page.run(f"{module}.then(charts => [{asked}])") == list(calls.values())


def test_charts_wait_for_their_library(page: Page, server: SageletProcess) -> None:
    """A slow connection brings the classic script later than the module that draws."""
    page.goto(f"{server.endpoint}/_sagelet/ui/processing")
    found = page.run("""(async () => {
        const library = Object.assign(document.createElement("script"), {type: "text/plain", src: "uPlot.js"});
        document.head.append(library);
        let isAsked = false, hasCome = false;
        Object.defineProperty(window, "uPlot", {configurable: true, get() { isAsked = true; }});
        const charts = import("/_sagelet/ui/static/charts.js").then(() => { hasCome = true; });
        while (!isAsked) await new Promise(requestAnimationFrame);
        const before = hasCome;
        library.dispatchEvent(new Event("load"));
        await charts;
        return [before, hasCome];
    })()""")
    assert found == [False, True]


def test_an_axis_ends_above_its_curve(page: Page, server: SageletProcess) -> None:
    page.goto(server.endpoint)
    tops = (
        "[[0, 1], [0, 100], [0.1, 1.1], [-5, -1], [5, 5], [0, 0], [0, 30]].map(([low, high]) => charts.top(low, high))"
    )
    found = page.run(f"import('/_sagelet/ui/static/charts.js').then(charts => {tops})")
    assert found == [1.25, 125, 1.25, 0, 6, 0.25, 40]


def test_how_long_something_lasts_is_written_as_the_server_does(page: Page, server: SageletProcess) -> None:
    page.goto(server.endpoint)
    seconds = (0, 38, 60, 250, 3600, 10_950, 90_000)
    found = page.run(f"import('/_sagelet/ui/static/times.js').then(times => {list(seconds)}.map(times.lasted))")
    assert found == [lasted(one) for one in seconds]


def test_the_theme_button_says_what_it_does(page: Page, server: SageletProcess) -> None:
    page.goto(server.endpoint)
    assert page.text("#theme") == "Dark theme"
    page.click("#theme")
    page.until("document.documentElement.dataset.theme === 'dark'")
    assert page.text("#theme") == "Light theme"
    page.run("localStorage.removeItem('sagelet-theme')")
