"""`make demo`, as the README promises it, with fewer steps."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from support.clients import ROOT


@pytest.mark.sdk
@pytest.mark.xla
def test_the_demo_shows_the_point_in_four_lines_and_a_picture() -> None:
    command = [sys.executable, ROOT / "examples" / "gpt2" / "demo.py", "--steps", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    for kind in ("compiled", "native", "again"):
        # Progress of each job, and its end. How many lines are between depends on what the jobs do when looked at.
        assert any(re.match(rf"{kind}: step \d+ of 20, loss \d\.\d{{4}}, [\d.]+ s", line) for line in said), kind
        assert any(re.match(rf"{kind}: step 20 of 20, .*; Completed$", line) for line in said), kind
    losses, speed, price, warm = said[said.index("", said.index("sagelet stopped; no job was running")) + 1 :][:4]
    differ = re.fullmatch(r"the loss curves agree: they differ by (\S+) while the loss falls by (\S+)", losses)
    assert differ is not None
    assert float(differ[1]) < 0.01 * float(differ[2])
    # Timing gives no verdict here, but what is said has numbers.
    assert re.search(r"between [\d.]+ and [\d.]+ times native|times native's speed \([\d.]+ to [\d.]+\)", speed)
    assert re.match(r"compiling cost [\d.]+ s[,;]", price)
    assert re.match(r"the same compiled job once more compiled nothing: (\d+) of \1 programs from the cache", warm)
    assert said[-1].startswith("The picture: file://")
    page = Path(url2pathname(urlsplit(said[-1].partition(": ")[2]).path)).read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert losses in page
