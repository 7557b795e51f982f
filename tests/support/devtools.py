"""A headless Chromium that tests drive through DevTools' protocol over a pipe, without a port or another package."""

import base64
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from support.browser import find_chromium
from support.server import until

#: Seconds that an answer of the browser may take on a machine that is busy with other tests.
PATIENCE = 120.0
#: What fails while an interface of the machine comes or goes: tests beside this one make Docker networks.
NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
#: Chromium reads commands from descriptor 3 and answers on 4. Both may be in use. (Debian's sh knows only one digit.)
_LAUNCHER = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(commands, 3)
os.dup2(answers, 4)
os.closerange(5, 1024)
os.execv(sys.argv[3], sys.argv[3:])
"""
#: The middle of an element that has not moved for three frames, on a page that waits for no chart. Else null.
_PLACE = """(async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const element = document.querySelector(%s);
  if (!element || document.querySelector('[aria-busy=true]')) return null;
  element.scrollIntoView({block: 'center'});
  const middle = () => { const b = element.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] };
  const place = middle();
  for (const _ of [1, 2, 3]) await frame();
  const there = document.elementFromPoint(...place);
  return String(middle()) === String(place) && (element.contains(there) || there?.contains(element)) ? place : null
})()"""


class DevToolsError(Exception):
    """Chromium refuses a command."""


class Browser:
    """A browser, from `with driven(profile) as browser`. `browser.page()` opens a new tab."""

    def __init__(self, process: "subprocess.Popen[bytes]", commands: int, answers: int) -> None:
        self._process = process
        self._commands = commands
        self._ids = count(1)
        self._changed = threading.Condition()
        self._results: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}
        self._over = False
        threading.Thread(target=self._read, args=(answers,), daemon=True).start()

    def page(self, width: int = 1280, height: int = 900) -> "Page":
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(f"{domain}.enable")
        page.look(width, height)
        return page

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Sends a command and returns its answer. Raises DevToolsError."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        with self._changed:
            os.write(self._commands, json.dumps(message).encode() + b"\0")
            there = self._changed.wait_for(lambda: self._over or number in self._results, PATIENCE)
            assert there, f"Chromium does not answer {method}"
            assert number in self._results, f"Chromium ended before it answered {method}"
            answer = self._results.pop(number)
        if "error" in answer:
            raise DevToolsError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self, answers: int) -> None:
        rest = b""
        with os.fdopen(answers, "rb", buffering=0) as pipe:
            while chunk := pipe.read(1 << 16):
                *messages, rest = (rest + chunk).split(b"\0")
                for message in messages:
                    self._take(json.loads(message))
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        with self._changed:
            if "id" in message:
                self._results[message["id"]] = message
                self._changed.notify_all()
            elif message.get("sessionId") in self._pages:
                self._pages[message["sessionId"]].take(message)


class Page:
    """A tab. `events`: what DevTools said about it, oldest first."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target
        self.events: deque[dict[str, Any]] = deque()
        self._failures: deque[dict[str, Any]] = deque()

    def take(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event["method"] == "Network.loadingFailed":
            self._failures.append(event["params"])

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **parameters)

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Sets the size of the window and the system's theme."""
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[theme])

    def goto(self, url: str) -> None:
        """Opens a page and waits until it is loaded.

        A navigation that Chromium gives up because the network changed is tried again.
        """
        until(lambda: self._navigated(url))
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def _navigated(self, url: str) -> bool:
        answer = self.ask("Page.navigate", url=url)
        error = answer.get("errorText", "")
        assert error in ("", NETWORK_CHANGED), answer
        return not error

    def run(self, script: str) -> Any:
        """Returns the value of a JavaScript expression. Waits for a promise."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """Returns the text of an element as it is shown. Empty if there is no such element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def until(self, script: str) -> Any:
        """Waits until an expression is true and returns it. A page that is still loading has no answer yet."""

        def holds() -> Any:
            self._again_after_a_changed_network()
            try:
                answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
            except DevToolsError:
                return None  # The tab is going to another page.
            return answer["result"].get("value") if "exceptionDetails" not in answer else None

        return until(holds, PATIENCE)

    def _again_after_a_changed_network(self) -> None:
        """Loads a page again which a click asked for while an interface of the machine came or went (see `goto`)."""
        while self._failures:
            failure = self._failures.popleft()
            if failure["type"] == "Document" and failure["errorText"] == NETWORK_CHANGED:
                self.ask("Page.reload")

    def click(self, selector: str) -> None:
        """Clicks in the middle of the element, as a mouse does, once it stands still with nothing before it.

        A page grows while its charts are drawn, and what is below them moves.
        """
        place = self.until(_PLACE % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def press(self, key: str, code: int) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def complaints(self) -> list[str]:
        """Returns the console's errors, uncaught exceptions and refusals of the content policy."""
        found: list[str] = []
        for event in list(self.events):
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                if NETWORK_CHANGED not in parameters["entry"]["text"]:
                    found.append(str(parameters["entry"]))
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(str(parameters["args"]))
        return found

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Writes a PNG of the whole page, or of what the window shows."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def violations(self, axe: str) -> list[str]:
        """Returns the rules for accessible pages that axe-core finds broken. `axe`: its source."""
        if not self.run("'axe' in window"):
            self.run(f"{axe}; true")
        found = self.run(
            "axe.run(document, {resultTypes: ['violations']}).then(found => found.violations.map(one =>"
            " `${one.id} (${one.impact}): ${one.help}: ${one.nodes.map(node => node.html + ' ' + node.failureSummary)"
            ".join(' | ')}`))"
        )
        return list(found)

    def close(self) -> None:
        self._browser.ask("Target.closeTarget", targetId=self._target)


@contextmanager
def driven(profile: Path) -> Iterator[Browser]:
    """Starts a browser that ends with the block."""
    program = find_chromium()
    assert program is not None
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    options = [
        "--headless=new", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--no-sandbox",
        "--disable-background-networking", "--disable-component-update", "--no-proxy-server",
        # A browser without a screen takes its pages for background ones.
        "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding", "--force-color-profile=srgb",
        "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
    ]  # fmt: skip
    command = [sys.executable, "-S", "-c", _LAUNCHER, str(in_read), str(out_write), program, *options]
    with (profile.parent / "chromium.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, pass_fds=(in_read, out_write))
    os.close(in_read)
    os.close(out_write)
    try:
        yield Browser(process, in_write, out_read)
    finally:
        process.kill()
        process.wait(60)
        os.close(in_write)
