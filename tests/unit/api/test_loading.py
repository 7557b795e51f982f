"""moto and Flask load late and share packages: they must not be loaded at once by two threads."""

import subprocess
import sys
from pathlib import Path

# In an interpreter of its own, since here both are loaded already.
BOTH_AT_ONCE = """
import threading
import time
from sagelet_api.control.endpoints import control_app
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.control.throttling import Throttling
from support.fake_jobs import FakeEngine

environ = {ENVIRON}

bridge = MotoBridge()
threading.Thread(target=bridge.process.app).start()
while "werkzeug" not in sys.modules:
    time.sleep(0.0001)
answers = []
body = b"".join(control_app(FakeEngine(), Throttling())(environ, lambda status, *_rest: answers.append(status)))
assert answers == ["404 NOT FOUND"], (answers, body)
assert bridge.process.backend("events") is not None
"""
ENVIRON = {
    "REQUEST_METHOD": "GET", "PATH_INFO": "/_sagelet/none", "SERVER_NAME": "localhost", "SERVER_PORT": "80",
    "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http",
}  # fmt: skip


def test_a_control_call_while_moto_loads() -> None:
    script = f"import sys; sys.path[:0] = {sys.path!r}" + BOTH_AT_ONCE.replace("{ENVIRON}", repr(ENVIRON))
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr


UNTIL_READY = """
from pathlib import Path
from sagelet_api.cli import main, up
from sagelet_api.serve import Sagelet
from sagelet_engine.settings import RuntimeChoice, Settings
from urllib.request import urlopen

server = Sagelet(Settings(data=Path("{DATA}"), port=0, runtime=RuntimeChoice.PROCESS))
server.start()
assert b'"ok"' in urlopen(server.server.endpoint + "/_sagelet/health").read()
late = {"moto", "flask", "boto3", "docker", "torch", "rich", "sagelet_engine.comparison.comparing"}
loaded = sorted(late & set(sys.modules))
server.stop()
assert loaded == [], loaded
"""


def test_a_server_is_ready_before_it_loads_what_few_calls_need(tmp_path: Path) -> None:
    script = f"import sys; sys.path[:0] = {sys.path!r}" + UNTIL_READY.replace("{DATA}", str(tmp_path))
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
