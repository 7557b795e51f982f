"""The server of a test, as a process: `python -m sagelet.testing.serving`. It goes when its standard input ends.

So it also goes when the tests are killed, and takes the hosts of its jobs with it: what `sagelet up` leaves running for
the next server would run on for nobody. The first line of the input are the settings, as JSON.
"""

import json
import os
import signal
import sys
from typing import NoReturn

from sagelet.testing.settings import settings_from
from sagelet_api.serve import Sagelet
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import SageletError
from sagelet_engine.machine.runtimes import every_runtime
from sagelet_engine.settings import RuntimeChoice
from sagelet_engine.state.resetting import end_hosts


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        settings = settings_from(json.loads(sys.stdin.readline()))
        server = Sagelet(settings)
        server.start()
    except (SageletError, TypeError, ValueError) as error:
        _say({"error": str(error)})
        sys.exit(1)
    try:
        _say({"endpoint": server.server.endpoint})
        sys.stdin.read()
    finally:
        server.stop()
        # One runtime of `--runtime process`; Docker is asked where it may have started something.
        process_only = settings.runtime is RuntimeChoice.PROCESS
        runtimes = [server.choice.runtime] if process_only else every_runtime(settings, SystemClock())
        end_hosts(settings.data, runtimes)
    # Threads that load moto still would hold up the interpreter's end.
    os._exit(0)


def _say(answer: dict[str, str]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
