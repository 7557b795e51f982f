// Charts, drawn by uPlot. What they show is made by the server: curves.py.

// uPlot is a classic script, and a slow connection brings it later than the modules that import this one.
const library = document.querySelector("script[src*=uPlot]");
if (library && !window.uPlot) await new Promise((loaded) => library.addEventListener("load", loaded));

const COLOURS = ["--curve-1", "--curve-2", "--curve-3", "--curve-4", "--curve-5", "--curve-6", "--curve-7", "--curve-8"];
const HEIGHT = 220, SMALL = 170;
//: Pixels from an axis to its numbers, and beyond them.
const GAP = 14;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// `beside`: the largest of the numbers that stand together. All of them are written alike.
function written(value, digits = 6, beside = value) {
  if (value === null || value === undefined) return "";
  if (value !== 0 && Math.abs(beside) < 1e-3) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
  const notation = Math.abs(beside) >= 1e6 ? "compact" : "standard";
  return value.toLocaleString("en", {maximumSignificantDigits: digits, notation});
}

// The numbers of an axis, with as many digits as tell them apart.
function marks(_uplot, values, _index, _space, step) {
  const largest = Math.max(...values.map((value) => Math.abs(value ?? 0)), step);
  const digits = Math.floor(Math.log10(largest)) - Math.floor(Math.log10(step)) + 2;
  return values.map((value) => written(value, Math.min(15, Math.max(3, digits)), largest));
}

// In words, where more digits say nothing. A number that is small in its unit gets a smaller one: 4 B, not 3.8e-6 MiB.
export function inUnit(value, unit, smaller = []) {
  if (value === null || value === undefined) return "";
  let [number, name] = [value, unit];
  for (const [smallerName, count] of smaller) {
    if (number === 0 || Math.abs(number) >= 0.1) break;
    [number, name] = [value * count, smallerName];
  }
  if (name === "%" && number !== 0 && Math.abs(number) < 0.01) return "less than 0.01 %";
  const text = written(+number.toPrecision(4));
  return name ? `${text} ${name}` : text;
}

// The highest number of an axis: one whole mark above the curve, so that no curve runs along the last mark.
export function top(lowest, highest) {
  const size = (highest - lowest || Math.abs(highest) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(size));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= size * 0.999);
  const marks = highest / step;
  return (Math.floor(marks + 1e-9) + 1) * step;
}

// As wide as its widest number.
function widthOfNumbers(uplot, values, index, cycle) {
  const axis = uplot.axes[index];
  if (cycle > 1) return axis._size;
  uplot.ctx.font = axis.font[0];
  const widest = Math.max(0, ...(values ?? []).map((text) => uplot.ctx.measureText(text).width));
  return Math.ceil(widest / devicePixelRatio) + GAP + axis.ticks.size / 2;
}

// Draws into `element`, which is emptied. `chart`: title, name, unit, x: {label, unit, range}, fromZero, holds, and
// series of label, x and y: numbers of the same length, x growing; y may be null (no value).
export function sageletChart(element, chart) {
  element._sagelet?.stop();
  const drawn = new Chart(element, chart);
  element._sagelet = drawn;
  return drawn;
}

class Chart {
  constructor(element, chart) {
    this.element = element;
    this.chart = chart;
    element.classList.add("chart");
    this.height = element.parentElement?.classList.contains("small") ? SMALL : HEIGHT;
    const heading = document.createElement("h3");
    heading.textContent = chart.title;
    this.plot = document.createElement("div");
    this.plot.setAttribute("role", "img");
    const inWords = chart.series.map((one) => described(one, chart)).join(" ");
    this.plot.setAttribute("aria-label", `Chart of ${chart.title} over ${chart.x.label}. ${inWords}`);
    this.words = document.createElement("p");
    this.words.className = "quiet small words";
    this.summary = chart.series.length === 1 ? described(chart.series[0], chart) : "";
    this.words.textContent = this.summary;
    element.replaceChildren(heading, this.plot, this.words);
    element.dataset.names = `${chart.title} ${chart.name}`;
    if (!chart.title.startsWith(chart.name)) {
      const name = document.createElement("code");
      name.textContent = chart.name;
      heading.after(name);
    }
    this.draw = this.draw.bind(this);
    document.addEventListener("sagelet-theme", this.draw);
    this.sizes = new ResizeObserver(() => this.uplot?.setSize({width: this.plot.clientWidth, height: this.height}));
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
    const {series, x} = this.chart;
    this.uplot = new window.uPlot(this.options(), aligned(series), this.plot);
    const [min, max] = x.range;
    this.uplot.setScale("x", {min, max});
  }

  options() {
    const {series, x, fromZero, holds} = this.chart;
    const axis = {stroke: colour("--quiet"), grid: {stroke: colour("--line"), width: 1}, ticks: {stroke: colour("--line"), size: 6}};
    const limits = {min: {pad: 0.1, soft: 0, mode: fromZero ? 1 : 3}, max: {pad: 0.1, soft: 0, mode: 0}};
    const range = (_uplot, lowest, highest) => {
      if (lowest === null) return [0, 1];
      const [min, max] = window.uPlot.rangeNum(lowest, highest, limits);
      return [min, Math.max(max, top(min, highest))];
    };
    const paths = holds ? window.uPlot.paths.stepped({align: 1}) : undefined;
    return {
      width: this.plot.clientWidth || 320,
      height: this.height,
      padding: [10, 14, 0, 0],
      scales: {x: {time: false}, y: {range}},
      cursor: {drag: {x: true, y: false}},
      // One curve's value stands in the words below it.
      legend: {
        show: series.length > 1,
        live: false,
        markers: {dash: (_, index) => (series[index - 1]?.dashed ? "dashed" : "solid")},
      },
      hooks: {setCursor: [(uplot) => this.tell(uplot)]},
      axes: [
        {...axis, label: x.label, labelSize: 20, labelFont: "12px sans-serif", size: 30, values: marks},
        {...axis, size: widthOfNumbers, values: marks},
      ],
      series: [
        {label: x.label},
        ...series.map((one) => ({
          label: one.label,
          stroke: strokeOf(one),
          width: 2,
          spanGaps: true,
          paths,
          dash: one.dashed || one.colour >= COLOURS.length ? [6, 4] : undefined,
          // uPlot fills points with white, which in the dark theme hides whose they are.
          points: {show: !holds && one.x.length < 60, size: 5, fill: strokeOf(one)},
        })),
      ],
    };
  }

  // What the curves have where the mouse is.
  tell(uplot) {
    const index = uplot.cursor.idx;
    if (index === null || index === undefined || uplot.cursor.left < 0) {
      this.words.textContent = this.summary;
      return;
    }
    const {x, unit, smaller, series} = this.chart;
    const values = series
      .map((one, number) => [one.label, uplot.data[number + 1][index]])
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([label, value]) => (series.length > 1 ? `${label}: ${inUnit(value, unit, smaller)}` : inUnit(value, unit, smaller)));
    this.words.textContent = `at ${inUnit(uplot.data[0][index], x.unit)}: ${values.join(", ")}`;
  }
}

function strokeOf(one) {
  return colour(COLOURS[one.colour % COLOURS.length]);
}

// uPlot has one x for all series.
function aligned(series) {
  if (series.length === 1) return [series[0].x, series[0].y];
  return window.uPlot.join(series.map((one) => [one.x, one.y]));
}

function described({label, y}, {unit, smaller}) {
  const words = (value) => inUnit(value, unit, smaller);
  const values = y.filter((value) => value !== null);
  if (values.length === 0) return `${label}: no values.`;
  if (values.length === 1) return `${label}: ${words(values[0])}.`;
  const lowest = values.reduce((a, b) => Math.min(a, b));
  const highest = values.reduce((a, b) => Math.max(a, b));
  return `${label}: last ${words(values.at(-1))}, lowest ${words(lowest)}, highest ${words(highest)}.`;
}

// The charts of each section into the elements of the sections' names; what was drawn there stays in its place.
export async function drawSections(found) {
  for (const [name, charts] of Object.entries(found)) {
    const all = document.getElementById(name);
    if (!all) continue;
    document.getElementById(`no-${name}`).hidden = charts.length > 0;
    while (all.children.length > charts.length) all.lastElementChild.remove();
    charts.forEach((chart, index) => {
      if (!all.children[index]) all.append(document.createElement("div"));
      sageletChart(all.children[index], chart);
    });
  }
}
