// Curves of several jobs over each other: over time, samples or epochs, and those metrics whose name holds a text.
import {drawSections} from "./charts.js";

const curves = document.getElementById("curves");
const axis = document.getElementById("over");
const needle = document.getElementById("metric-filter");
const words = {time: "time", sample: "number of the sample"};

async function draw() {
  curves.setAttribute("aria-busy", "true");
  const url = new URL(curves.dataset.url, location.href);
  url.searchParams.set("over", axis.value);
  const answer = await fetch(url, {headers: {Accept: "application/json"}});
  if (!answer.ok) return;
  const found = await answer.json();
  axis.replaceChildren(...found.axes.map((name) => new Option(words[name] ?? name, name, false, name === found.axis)));
  drawSections(found.charts);
  filter();
  curves.setAttribute("aria-busy", "false");
}

function filter() {
  const text = needle.value.trim().toLowerCase();
  let shown = 0;
  for (const chart of curves.querySelectorAll(".chart")) {
    chart.hidden = !chart.dataset.names.toLowerCase().includes(text);
    shown += !chart.hidden;
  }
  document.getElementById("shown-charts").textContent = `${shown} charts`;
}

axis.addEventListener("change", draw);
needle.addEventListener("input", filter);
draw();
