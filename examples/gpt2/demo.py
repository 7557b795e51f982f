"""`make demo`: a server, the two jobs of submit.py, and the server's end.

Uses Docker where an engine answers (and builds the training image first, once), plain processes otherwise.
"""

import re
import signal
import subprocess
import sys
from pathlib import Path

import docker
from docker.errors import DockerException

ROOT = Path(__file__).resolve().parents[2]
SAGELET = Path(sys.executable).with_name("sagelet")
CLIENT = ROOT / ".venv-sdk" / "bin" / "python"


def has_docker() -> bool:
    try:
        return bool(docker.from_env(timeout=5).ping())
    except DockerException:
        return False


def start(data: Path) -> tuple["subprocess.Popen[str]", str]:
    """Starts a server on a free port; returns it and its endpoint."""
    server = subprocess.Popen(
        [SAGELET, "up", "--port", "0", "--data", data], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    ready = re.search(r"ready: (\S+)", line)
    if ready is None:
        raise SystemExit(f"sagelet did not start: {line}")
    print(line, end="", flush=True)
    return server, ready[1]


def main() -> None:
    if has_docker():
        subprocess.run([SAGELET, "image", "build"], check=True)
    server, endpoint = start(ROOT / ".demo")
    try:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "AWS_ENDPOINT_URL": endpoint}
        subprocess.run([CLIENT, "-W", "ignore", Path(__file__).with_name("submit.py")], check=True, env=environment)
    finally:
        server.send_signal(signal.SIGTERM)
        print(server.communicate(timeout=60)[0], end="")


if __name__ == "__main__":
    main()
