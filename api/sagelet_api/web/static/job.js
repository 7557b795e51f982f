// The page of a job, kept up to date: its head, its facts, its charts. The log has a script of its own.
import {atLeisure, listen, oneAtATime, replacePart} from "./live.js";
import {showTimes} from "./times.js";

const job = document.getElementById("job");
const curves = document.getElementById("curves");
let version = Number(job.dataset.version);

async function renew(id) {
  const element = document.getElementById(id);
  if (!element) return;
  await replacePart(element, element.dataset.url);
  showTimes(element);
}

const renewAll = oneAtATime(async () => {
  await renew("head");
  await renew("timeline");
  await renew("facts");
});

async function drawCharts() {
  const answer = await fetch(curves.dataset.url, {headers: {Accept: "application/json"}});
  if (!answer.ok) return;
  const found = await answer.json();
  const {drawSections} = await import("./charts.js");
  drawSections(found);
  curves.setAttribute("aria-busy", "false");
}
const renewCharts = atLeisure(drawCharts);
const renewReport = atLeisure(() => renew("report"));

if (curves) renewCharts();
// Workers write their report also while the script prints nothing.
if (document.getElementById("report") && !("ended" in job.dataset)) {
  setInterval(() => document.hidden || renewReport(), 5000);
}
listen(job.dataset.events, {
  onChange: (news) => {
    if (news.version !== version) {
      version = news.version;
      renewAll();
    }
    if (curves) renewCharts();
    renewReport();
    document.dispatchEvent(new CustomEvent("sagelet-lines", {detail: news.lines}));
  },
});
