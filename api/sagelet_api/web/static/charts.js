// Charts, drawn by uPlot. An element with data-chart='{"title": ..., "unit": ..., "series": [...]}' becomes one by itself.

const COLOURS = ["--curve-1", "--curve-2", "--curve-3", "--curve-4", "--curve-5", "--curve-6", "--curve-7", "--curve-8"];
const HEIGHT = 220;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function written(value) {
  if (value === null || value === undefined) return "-";
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(2) : String(+value.toPrecision(5));
}

// Draws into `element`, which is emptied. x and y: numbers of the same length, x growing; y may be null (no value).
export function sageletChart(element, {title, unit = "", xLabel = "", series}) {
  element._sagelet?.stop();
  const drawn = new Chart(element, {title, unit, xLabel, series});
  element._sagelet = drawn;
  return drawn;
}

class Chart {
  constructor(element, chart) {
    this.element = element;
    this.chart = chart;
    element.classList.add("chart");
    const heading = document.createElement("h3");
    heading.textContent = chart.unit ? `${chart.title} (${chart.unit})` : chart.title;
    this.plot = document.createElement("div");
    this.plot.setAttribute("role", "img");
    this.plot.setAttribute("aria-label", `Chart of ${chart.title}. ${chart.series.map(inWords).join(" ")}`);
    this.words = document.createElement("p");
    this.words.className = "quiet small";
    this.words.textContent = chart.series.length === 1 ? inWords(chart.series[0]) : "";
    element.replaceChildren(heading, this.plot, this.words);
    this.draw = this.draw.bind(this);
    document.addEventListener("sagelet-theme", this.draw);
    this.sizes = new ResizeObserver(() => this.uplot?.setSize({width: this.plot.clientWidth, height: HEIGHT}));
    this.draw();
    this.sizes.observe(this.plot);
  }

  stop() {
    document.removeEventListener("sagelet-theme", this.draw);
    this.sizes.disconnect();
    this.uplot?.destroy();
  }

  draw() {
    this.uplot?.destroy();
    const axis = {stroke: colour("--quiet"), grid: {stroke: colour("--line"), width: 1}, ticks: {stroke: colour("--line")}};
    const {series, xLabel} = this.chart;
    const options = {
      width: this.plot.clientWidth || 320,
      height: HEIGHT,
      scales: {x: {time: false}},
      cursor: {drag: {x: true, y: false}},
      legend: {show: true},
      axes: [
        {...axis, label: xLabel, labelSize: xLabel ? 18 : 0, size: 34},
        {...axis, size: 64, values: (_, values) => values.map(written)},
      ],
      series: [
        {label: xLabel || "x", value: (_, value) => written(value)},
        ...series.map((one, index) => ({
          label: one.label,
          stroke: colour(COLOURS[index % COLOURS.length]),
          width: 2,
          spanGaps: true,
          dash: index >= COLOURS.length ? [6, 4] : undefined,
          points: {show: one.x.length < 60, size: 5},
          value: (_, value) => written(value),
        })),
      ],
    };
    this.uplot = new window.uPlot(options, aligned(series), this.plot);
  }
}

// uPlot has one x for all series.
function aligned(series) {
  if (series.length === 1) return [series[0].x, series[0].y];
  return window.uPlot.join(series.map((one) => [one.x, one.y]));
}

function inWords({label, y}) {
  const values = y.filter((value) => value !== null);
  if (values.length === 0) return `${label}: no values.`;
  const lowest = values.reduce((a, b) => Math.min(a, b));
  const highest = values.reduce((a, b) => Math.max(a, b));
  return `${label}: last ${written(values.at(-1))}, lowest ${written(lowest)}, highest ${written(highest)}.`;
}

for (const element of document.querySelectorAll("[data-chart]")) {
  sageletChart(element, JSON.parse(element.dataset.chart));
}
