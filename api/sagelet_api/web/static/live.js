// Word from the server that something has changed. A tab that nobody sees asks for none: a browser opens six connections
// to a server at most, and the server holds a few of these open only (it answers the others at once, which ask again).

export function listen(url, {onChange, onState = () => {}}) {
  let source = null;
  let seen = "";
  const open = () => {
    if (source || document.hidden) return;
    const address = new URL(url, location.href);
    if (seen) address.searchParams.set("seen", seen);
    source = new EventSource(address);
    source.addEventListener("change", (event) => {
      seen = event.lastEventId;
      onChange(JSON.parse(event.data));
    });
    source.addEventListener("open", () => onState(true));
    source.addEventListener("error", () => {
      // It connects again by itself, unless the server said that it should not.
      if (source?.readyState === EventSource.CLOSED) {
        source = null;
        onState(false);
        setTimeout(open, 5000);
      }
    });
  };
  const close = () => {
    source?.close();
    source = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
}

// Puts a part of a page that the server made anew in its place; what has the focus keeps it.
export async function replacePart(element, url) {
  const answer = await fetch(url, {headers: {Accept: "text/html"}});
  if (!answer.ok || answer.redirected) {
    location.reload();
    return;
  }
  const focused = element.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const checked = [...element.querySelectorAll("input:checked")].map((box) => box.value);
  const opened = [...element.querySelectorAll("details[open][id]")].map((one) => one.id);
  const scrolled = [...element.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
  // Text of the server's own templates, where everything that others wrote is escaped.
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  element.replaceChildren(...parsed.body.childNodes);
  for (const box of element.querySelectorAll("input[type=checkbox]")) box.checked = checked.includes(box.value);
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  element.querySelectorAll(".scroll").forEach((one, index) => one.scrollTo(...(scrolled[index] ?? [0, 0])));
  if (focused) [...element.querySelectorAll("a, button, input")].find((one) => keyOf(one) === focused)?.focus();
}

function keyOf(element) {
  return `${element.tagName} ${element.getAttribute("href") ?? ""} ${element.value ?? ""} ${element.id}`;
}

// One at a time, and again when there was word meanwhile.
export function oneAtATime(work) {
  let busy = false, again = false;
  return async () => {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    do {
      again = false;
      await work();
    } while (again);
    busy = false;
  };
}

// Does the work less often than there is news: lines come faster than anybody looks at curves and figures, and long curves
// cost the server more.
export function atLeisure(work) {
  return oneAtATime(async () => {
    const began = performance.now();
    await work();
    await new Promise((done) => setTimeout(done, Math.max(2000, 5 * (performance.now() - began))));
  });
}
