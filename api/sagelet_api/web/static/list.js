// A list of jobs, kept up to date.
import {offerToCompare} from "./choosing.js";
import {listen, oneAtATime, replacePart} from "./live.js";
import {showTimes} from "./times.js";

const jobs = document.getElementById("jobs");
const live = document.getElementById("live");
const here = new URL(location.href);

const events = new URL(jobs.dataset.events, here);
events.search = here.search;
events.searchParams.set("seen", jobs.dataset.fingerprint);
const rows = new URL(here);
rows.searchParams.set("part", "rows");

const refresh = oneAtATime(async () => {
  await replacePart(jobs, rows);
  showTimes(jobs);
  offerToCompare(jobs);
});

// A search that is typed and not sent yet goes along with a filter or an order.
const typed = document.querySelector("#filters [name=q]");
jobs.addEventListener("click", (event) => {
  const link = event.target.closest(".chips a, thead a");
  if (!link) return;
  const address = new URL(link.href);
  if (typed.value.trim()) address.searchParams.set("q", typed.value.trim());
  else address.searchParams.delete("q");
  link.href = address;
});

jobs.addEventListener("change", () => offerToCompare(jobs));
offerToCompare(jobs);
listen(events, {
  onChange: refresh,
  onState: (connected) => (live.textContent = connected ? "" : "The server does not answer; trying again."),
});
