"""`make demo`: a server, the three jobs of submit.py, their comparison, and the server's end.

Uses Docker where an engine answers (and builds the training image first, once), plain processes otherwise.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import docker
from docker.errors import DockerException

import sagelet
from sagelet_engine.comparison.repeated import FEWEST_PAIRS, MOST_PAIRS

ROOT = Path(__file__).resolve().parents[2]
SAGELET = Path(sys.executable).with_name("sagelet")
DATA = ROOT / ".demo"
CLIENT = ROOT / ".venv-sdk" / "bin" / "python"


def stage(text: str) -> None:
    """Prints what comes next, how long it takes and how big it is, before it begins."""
    print(f"demo: {text}", flush=True)


def named(path: Path) -> str:
    """Returns a path as somebody types it who stands in the checkout."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


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


def submit(environment: dict[str, str]) -> list[str]:
    """Runs submit.py, shows what it prints, and returns the names of its three jobs."""
    command = [CLIENT, "-u", "-W", "ignore", Path(__file__).with_name("submit.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as client:
        assert client.stdout is not None
        for line in client.stdout:
            # The demo itself compares them, and its server ends.
            if not line.startswith("To compare them:"):
                print(line, end="", flush=True)
    if client.returncode:
        raise SystemExit(client.returncode)
    return line.split()[-3:]


def pairs() -> int | None:
    """Returns how often all jobs are trained again. None if once is enough."""
    parser = argparse.ArgumentParser(description="Trains a GPT-2 natively and by two compilers, and compares them.")
    allowed = range(FEWEST_PAIRS, MOST_PAIRS + 1)
    text = f"then train native and compiled N times more, in turn, for verdicts: {FEWEST_PAIRS} to {MOST_PAIRS}"
    parser.add_argument("--repeat", type=int, choices=allowed, metavar="N", help=text)
    found: int | None = parser.parse_args().repeat
    return found


def main() -> None:
    repeat = pairs()
    if has_docker():
        stage("the training image: 3 GB of disk and about 4 minutes, once; nothing where it is up to date")
        subprocess.run([SAGELET, "image", "build"], check=True)
    else:
        stage("no Docker Engine answers, so the jobs are processes of this machine")
    stage("a server of its own, on a free port: about a second")
    server, endpoint = start(DATA)
    try:
        steps = {name: os.environ[name] for name in ("DEMO_STEPS",) if name in os.environ}
        environment = {**steps, "PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "AWS_ENDPOINT_URL": endpoint}
        stage("three trainings of a small GPT-2, native, by XLA, by Inductor: about a minute each on two CPU cores")
        native, *compiled = submit(environment)
        stage("their comparison")
        comparison = sagelet.compare(native, *compiled, endpoint=endpoint, data=DATA)
        print(f"\n{comparison}\nreport: {comparison.to_html(DATA / 'compare.html')}", flush=True)
        if repeat is None:
            stage("one run of each does not say which is faster: make demo REPEAT=3 does, in about 6 minutes more")
        else:
            stage(f"each compiler and native {repeat} times more, in turn: about {4 * repeat} minutes on two CPU cores")
            where = ["--endpoint", endpoint, "--data", DATA]
            for one in compiled:
                subprocess.run([SAGELET, "compare", native, one, "--repeat", str(repeat), *where], check=True)
    finally:
        server.send_signal(signal.SIGTERM)
        print(server.communicate(timeout=60)[0], end="")
    again = f"{named(SAGELET)} up --data {named(DATA)}"
    stage(f"the jobs, their logs and models are in {named(DATA)}; `{again}` shows them again, in a browser, too")


if __name__ == "__main__":
    main()
