"""Makes docs/images: pictures of the pages, of real jobs. `make screenshots` runs it, so that they never age.

It starts a server of its own, runs `sagelet demo` and one job that fails, and looks at the pages with Chromium. It
takes three minutes, and needs what the tests of the pages need. No picture shows a measured speed: that of this
machine, with a browser beside it, means nothing.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))

from support.devtools import Page, driven  # noqa: E402 - the tests' own browser
from support.jobs import Jobs  # noqa: E402
from support.server import ACCOUNT, SageletProcess  # noqa: E402

#: Width and height of a window, in CSS pixels.
WINDOW = (1180, 820)
FAILING = """
import os

def load():
    return open(os.path.join(os.environ["SM_CHANNEL_TRAINING"], "reviews.csv"))

load()
"""


def demo(server: SageletProcess) -> list[str]:
    """Trains the demo's jobs and returns their names."""
    sagelet = Path(sys.executable).with_name("sagelet")
    where = ["--endpoint", server.endpoint, "--account", ACCOUNT]
    done = subprocess.run([sagelet, "demo", "--json", *where], stdout=subprocess.PIPE, text=True, check=True)
    return [str(name) for name in json.loads(done.stdout)["jobs"]]


def failure(server: SageletProcess) -> str:
    """Runs a job whose script looks for a channel that it does not have, and returns its name."""
    jobs = Jobs(server)
    name = jobs.submit(FAILING, name="reviews-first-try")
    jobs.ended(name)
    return name


def pictures(page: Page, server: SageletProcess, trained: str, failed: str) -> None:
    pages = {
        "jobs": "",
        "job": f"jobs/{trained}",
        "failure": f"jobs/{failed}",
    }
    page.look(*WINDOW)
    for name, path in pages.items():
        page.goto(f"{server.endpoint}/_sagelet/ui/{path}" if path else f"{server.endpoint}/")
        page.until("!document.querySelector('[aria-busy=true]')")
        page.picture(IMAGES / f"{name}.png", whole=False)
        print(f"docs/images/{name}.png", flush=True)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        server = SageletProcess(Path(scratch) / "data", "--runtime", "process").start()
        try:
            compiled = next(name for name in demo(server) if name.startswith("demo-compiled-"))
            failed = failure(server)
            with driven(Path(scratch) / "profile") as browser:
                pictures(browser.page(), server, compiled, failed)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
