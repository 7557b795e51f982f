// Times in the reader's own zone, and how long what is under way has lasted.

export function showTimes(root = document) {
  for (const element of root.querySelectorAll("time[datetime]:not([title])")) {
    const moment = new Date(element.dateTime);
    element.title = element.textContent;
    element.textContent = moment.toLocaleString(undefined, {
      year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
      hour12: false,
    });
  }
  count(root);
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// As `durations.py` does: what is smaller than the last unit is cut off.
export function lasted(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const index = UNITS.findIndex(([unit]) => whole >= unit);
  if (index === -1) return "0 s";
  const [unit, name] = UNITS[index], [smaller, smallName] = UNITS[index + 1] ?? [1, ""];
  const rest = Math.floor((whole % unit) / smaller);
  return `${Math.floor(whole / unit)} ${name}` + (rest ? ` ${rest} ${smallName}` : "");
}

function count(root = document) {
  for (const element of root.querySelectorAll("[data-since]")) {
    element.textContent = lasted((Date.now() - Number(element.dataset.since)) / 1000);
  }
}

// The bars of a job that runs: they shrink as its time grows.
function grow() {
  for (const table of document.querySelectorAll("table[data-start]")) {
    const start = Number(table.dataset.start), now = Date.now(), whole = Math.max(1, now - start);
    for (const bar of table.querySelectorAll("[data-from]")) {
      const from = Number(bar.dataset.from), to = Number(bar.dataset.to || now);
      bar.setAttribute("x", `${((from - start) / whole) * 100}%`);
      bar.setAttribute("width", `${(Math.max(0, to - from) / whole) * 100}%`);
    }
  }
}

showTimes();
setInterval(() => {
  count();
  grow();
}, 1000);
