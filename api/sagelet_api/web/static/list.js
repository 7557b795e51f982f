// The list of jobs, kept up to date.
import {listen, replacePart} from "./live.js";
import {showTimes} from "./times.js";

const jobs = document.getElementById("jobs");
const live = document.getElementById("live");
const here = new URL(location.href);

const events = new URL("/_sagelet/ui/events", here);
events.search = here.search;
events.searchParams.set("seen", jobs.dataset.fingerprint);
const rows = new URL(here);
rows.searchParams.set("part", "rows");

let busy = false, again = false;
async function refresh() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  do {
    again = false;
    await replacePart(jobs, rows);
    showTimes(jobs);
    offer();
  } while (again);
  busy = false;
}

// Comparing takes two jobs.
function offer() {
  const button = document.getElementById("compare-button");
  const chosen = jobs.querySelectorAll("input:checked").length;
  if (button) button.disabled = chosen < 2;
}

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

jobs.addEventListener("change", offer);
offer();
listen(events, {
  onChange: refresh,
  onState: (connected) => (live.textContent = connected ? "" : "The server does not answer; trying again."),
});
