"""`make demo`: a server, the three jobs of submit.py, what they show in four lines, and the server's end.

The jobs are processes of this machine. With RUNTIME=docker they are containers of the training image, which is built
first, once.
"""

import argparse
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sagelet.connection import server_named
from sagelet_api.cli.demo import FEWEST_STEPS, PAGE, STEPS
from sagelet_api.cli.demo_jobs import ENVIRONMENTS, compile_bytecode
from sagelet_api.cli.demo_run import EXPECT, JobEnded, Shown, run, show, stop_running
from sagelet_engine.base.database import UnknownSchema
from sagelet_engine.comparison.repeated import FEWEST_PAIRS, MOST_PAIRS
from sagelet_engine.data.removal import remove_tree
from sagelet_engine.state.contents import NoDataDirectory, check_data_directory

ROOT = Path(__file__).resolve().parents[2]
SAGELET = Path(sys.executable).with_name("sagelet")
DATA = ROOT / ".demo"
CLIENT = ROOT / ".venv-sdk" / "bin" / "python"
#: What submit.py says of a job that it has submitted.
_SUBMITTED = re.compile(r"(compiled|native|again): (\S+) trains in ")


def stage(text: str) -> None:
    """Prints what comes next, how long it takes and how big it is, before it begins."""
    print(f"demo: {text}", flush=True)


def named(path: Path) -> str:
    """Returns a path as somebody types it who stands in the checkout."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def begin_anew(data: Path) -> None:
    """Removes what a demo of another version of sagelet left, which this one could not read. It is the demo's own."""
    try:
        check_data_directory(data, damaged=True)
    except NoDataDirectory:
        return
    except UnknownSchema:
        stage(f"{named(data)} is of another version of sagelet, and is removed")
        remove_tree(data)


def start(data: Path, runtime: str) -> tuple["subprocess.Popen[str]", str]:
    """Starts a server on a free port; returns it and its endpoint."""
    server = subprocess.Popen(
        [SAGELET, "up", "--port", "0", "--data", data, "--runtime", runtime],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert server.stdout is not None
    line = server.stdout.readline()
    ready = re.search(r"ready: (\S+)", line)
    if ready is None:
        raise SystemExit(f"sagelet did not start: {line}")
    print(line, end="", flush=True)
    return server, ready[1]


def submitted(environment: dict[str, str], arguments: list[str]) -> Iterator[tuple[str, str]]:
    """Runs submit.py, and yields kind and name of each job that it submits."""
    command = [CLIENT, "-u", "-W", "ignore", Path(__file__).with_name("submit.py"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as client:
        assert client.stdout is not None
        try:
            for line in client.stdout:
                if found := _SUBMITTED.match(line):
                    yield found[1], found[2]
        finally:
            # Not if it has ended by itself.
            client.terminate()
    if client.returncode:
        raise SystemExit(client.returncode)


def enough_steps(text: str) -> int:
    if int(text) < FEWEST_STEPS:
        raise argparse.ArgumentTypeError(f"{text} are too few steps: at least {FEWEST_STEPS}")
    return int(text)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a GPT-2 compiled and natively, and says what that brought.")
    parser.add_argument("--compiler", choices=ENVIRONMENTS, default="xla")
    parser.add_argument("--runtime", choices=("process", "docker"), default="process")
    parser.add_argument("--steps", type=enough_steps, default=STEPS, help=f"at least {FEWEST_STEPS}")
    allowed = range(FEWEST_PAIRS, MOST_PAIRS + 1)
    text = f"then train native and compiled N times more, in turn, for a verdict: {FEWEST_PAIRS} to {MOST_PAIRS}"
    parser.add_argument("--repeat", type=int, choices=allowed, metavar="N", help=text)
    return parser.parse_args()


def trained(endpoint: str, compiler: str, steps: int) -> Shown:
    stage(EXPECT[compiler])
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "AWS_ENDPOINT_URL": endpoint}
    arguments = ["--compiler", compiler, "--steps", str(steps)]
    try:
        return run(server_named(endpoint, data=DATA), submitted(environment, arguments))
    except JobEnded as error:
        raise SystemExit(str(error)) from error


def main() -> None:
    options = parsed()
    if options.runtime == "docker":
        stage("the training image: 3 GB of disk and about 4 minutes, once; nothing where it is up to date")
        subprocess.run([SAGELET, "image", "build"], check=True)
    else:
        stage("Python's bytecode of what compiles: some seconds in a new environment, once")
        compile_bytecode()
    # A demo that is ended from outside ends its server, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    begin_anew(DATA)
    server, endpoint = start(DATA, options.runtime)
    try:
        # Jobs of a demo that was killed, and what an earlier one compiled: both would be in these figures.
        stop_running(server_named(endpoint, data=DATA))
        subprocess.run([SAGELET, "cache", "clear", "--data", DATA], check=True, stdout=subprocess.DEVNULL)
        shown = trained(endpoint, options.compiler, options.steps)
        if options.repeat:
            stage(f"native and compiled {options.repeat} times more, in turn: about {options.repeat} minutes")
            where = ["--endpoint", endpoint, "--data", DATA]
            pair = [shown.native.name, shown.compiled.name]
            subprocess.run([SAGELET, "compare", *pair, "--repeat", str(options.repeat), *where], check=True)
    except BaseException:
        # Ctrl-C, too: its job would train on.
        stop_running(server_named(endpoint, data=DATA))
        raise
    finally:
        server.send_signal(signal.SIGTERM)
        ended = server.communicate(timeout=60)[0]
    print(ended, end="")
    native, compiled, _ = shown.names
    again = f"{named(SAGELET)} up --data {named(DATA)}"
    show(
        shown,
        DATA / PAGE,
        [
            f"{again}      # the jobs again, with their logs and models, in a browser; then, beside it:",
            f"{named(SAGELET)} report {compiled} --data {named(DATA)}      # what compiling did, step by step",
            f"{named(SAGELET)} compare {native} {compiled} --data {named(DATA)}      # the bill of the whole jobs, too",
            "make demo COMPILER=inductor      # PyTorch's own compiler; two minutes",
            "docs/tutorial/first-compiled-job.md      # a script of your own",
        ],
    )


if __name__ == "__main__":
    main()
