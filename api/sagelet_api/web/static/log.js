// A window on a log: some lines are in the page, more come from the server where one scrolls to, or searches for.

const log = document.getElementById("log");
//: Lines in the page at most; those at the other end go.
const MOST = 2000;
const ANSI = /\u001b\[[0-9;?]*[A-Za-z]/g;

if (log) start();
else document.addEventListener("sagelet-lines", (event) => {
  if (Object.values(event.detail).some((count) => count > 0)) location.reload();
});

function start() {
  const id = (name) => document.getElementById(name);
  const follow = id("follow"), where = id("where"), needle = id("needle"), clear = id("clear");
  let total = Number(log.dataset.total);
  let searching = 0; // Counts searches: an answer to an earlier one is not shown.
  let busy = false;

  const rows = () => [...log.children];
  const first = () => Number(log.firstElementChild?.dataset.seq ?? 0);
  const next = () => Number(log.lastElementChild?.dataset.seq ?? -1) + 1;

  function line([seq, time, text]) {
    const row = document.createElement("div");
    row.className = "line";
    row.dataset.seq = seq;
    row.dataset.time = time;
    const number = document.createElement("span");
    number.className = "number";
    number.textContent = seq + 1;
    const shown = document.createElement("span");
    shown.className = "text";
    shown.textContent = text.replace(ANSI, "");
    row.append(number, shown);
    stamp(row);
    return row;
  }

  function stamp(row) {
    row.querySelector(".stamp")?.remove();
    if (!id("stamps").checked) return;
    const time = document.createElement("span");
    time.className = "stamp";
    time.textContent = new Date(Number(row.dataset.time)).toLocaleTimeString(undefined, {hour12: false});
    row.firstElementChild.after(time);
  }

  async function ask(address, values) {
    const url = new URL(address, location.href);
    for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
    const answer = await fetch(url, {headers: {Accept: "application/json"}});
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    const found = await answer.json();
    total = found.total;
    return found;
  }

  async function work(action) {
    if (busy) return;
    busy = true;
    try {
      await action();
    } catch (error) {
      where.textContent = error.message;
    }
    busy = false;
  }

  function tell() {
    const count = total.toLocaleString();
    where.textContent = log.children.length
      ? `Lines ${(first() + 1).toLocaleString()} to ${next().toLocaleString()} of ${count}` : `${count} lines`;
  }

  async function show(values, toEnd) {
    const found = await ask(log.dataset.lines, values);
    log.replaceChildren(...found.lines.map(line));
    log.scrollTop = toEnd ? log.scrollHeight : 0;
    tell();
  }

  // Whole windows, until as many lines are there as the server has.
  async function later() {
    if (next() >= total) return;
    const atEnd = isAtEnd();
    const found = await ask(log.dataset.lines, {from: next()});
    log.append(...found.lines.map(line));
    const over = log.children.length - MOST;
    if (over > 0) {
      const height = log.scrollHeight;
      rows().slice(0, over).forEach((row) => row.remove());
      log.scrollTop -= height - log.scrollHeight;
    }
    if (atEnd && follow.checked) log.scrollTop = log.scrollHeight;
    tell();
  }

  async function earlier() {
    if (first() === 0) return;
    const found = await ask(log.dataset.lines, {below: first()});
    const height = log.scrollHeight;
    log.prepend(...found.lines.map(line));
    log.scrollTop += log.scrollHeight - height;
    rows().slice(MOST).forEach((row) => row.remove());
    tell();
  }

  const isAtEnd = () => log.scrollTop + log.clientHeight >= log.scrollHeight - 40;
  const isSearch = () => !clear.hidden;

  async function toEnd() {
    if (total - next() > MOST / 2 || total < first()) await show({below: total}, true);
    else while (next() < total) {
      const before = next();
      await later();
      if (next() === before) break; // Expired meanwhile.
    }
    log.scrollTop = log.scrollHeight;
  }

  async function find() {
    const text = needle.value;
    if (!text) return showAll();
    const mine = ++searching;
    clear.hidden = false;
    log.replaceChildren();
    let count = 0, from = 0;
    while (from !== null && count < MOST && mine === searching) {
      where.textContent = `Searching from line ${(from + 1).toLocaleString()} of ${total.toLocaleString()}: ${count} found`;
      const found = await ask(log.dataset.find, {q: text, from});
      if (mine !== searching) return;
      log.append(...found.lines.map((one) => marked(line(one), text)));
      count += found.lines.length;
      from = found.next;
    }
    where.textContent = from === null ? `${count.toLocaleString()} lines hold it`
      : `The first ${count.toLocaleString()} lines that contain it`;
  }

  function marked(row, text) {
    const shown = row.querySelector(".text");
    const whole = shown.textContent, lower = whole.toLowerCase(), wanted = text.toLowerCase();
    const parts = [];
    let from = 0;
    for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
      const mark = document.createElement("mark");
      mark.textContent = whole.slice(at, at + wanted.length);
      parts.push(whole.slice(from, at), mark);
      from = at + wanted.length;
    }
    shown.replaceChildren(...parts, whole.slice(from));
    const button = document.createElement("button");
    button.type = "button";
    button.className = "number";
    button.textContent = row.firstElementChild.textContent;
    button.setAttribute("aria-label", `Go to line ${button.textContent}`);
    button.addEventListener("click", () => showAll(Number(row.dataset.seq)));
    row.firstElementChild.replaceWith(button);
    return row;
  }

  function showAll(at) {
    searching += 1;
    clear.hidden = true;
    needle.value = "";
    follow.checked = at === undefined && follow.checked;
    work(async () => {
      if (at === undefined) return show({below: total}, true);
      await show({from: Math.max(0, at - 100)}, false);
      const row = log.querySelector(`[data-seq="${at}"]`);
      row?.classList.add("chosen");
      row?.scrollIntoView({block: "center"});
    });
  }

  id("find").addEventListener("submit", (event) => {
    event.preventDefault();
    find().catch((error) => (where.textContent = error.message));
  });
  clear.addEventListener("click", () => showAll());
  id("start").addEventListener("click", () => {
    follow.checked = false;
    leaveSearch();
    work(() => show({from: 0}, false));
  });
  id("end").addEventListener("click", () => {
    leaveSearch();
    work(() => show({below: total}, true));
  });
  id("earlier").addEventListener("click", () => {
    follow.checked = false;
    if (!isSearch()) work(earlier);
  });
  id("later").addEventListener("click", () => isSearch() || work(later));
  id("wrap").addEventListener("change", (event) => log.classList.toggle("wraps", event.target.checked));
  id("stamps").addEventListener("change", () => rows().forEach(stamp));
  follow.addEventListener("change", () => follow.checked && !isSearch() && work(toEnd));
  log.addEventListener("scroll", () => {
    if (isSearch()) return;
    if (log.scrollTop < 100 && first() > 0) work(earlier);
    else if (isAtEnd() && next() < total) work(later);
    else if (!isAtEnd() && log.scrollHeight > log.clientHeight) return;
  });
  // Who scrolls up wants to read.
  for (const kind of ["wheel", "touchmove", "keydown"]) {
    log.addEventListener(kind, () => requestAnimationFrame(() => isAtEnd() || (follow.checked = false)), {passive: true});
  }
  document.addEventListener("sagelet-lines", (event) => {
    total = event.detail[log.dataset.stream] ?? total;
    if (isSearch()) return;
    if (follow.checked) work(toEnd);
    else tell();
  });

  function leaveSearch() {
    searching += 1;
    clear.hidden = true;
  }

  rows().forEach((row) => {
    const text = row.querySelector(".text");
    text.textContent = text.textContent.replace(ANSI, "");
  });
  log.scrollTop = log.scrollHeight;
  tell();
}
