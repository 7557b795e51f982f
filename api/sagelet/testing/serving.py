"""Runs the server of a test as a process: `python -m sagelet.testing.serving`. It ends when its standard input ends.

So it also ends when the tests are killed, and it ends the hosts of its jobs. `sagelet up` would leave them running for
the next server, which never comes here. The first line of the input has the settings, as JSON.
"""

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.interpreter import set_for_server
from sagelet_engine.settings import RuntimeChoice, Settings

if TYPE_CHECKING:
    from sagelet_api.serve import Sagelet


def main() -> NoReturn:
    set_for_server()
    from sagelet.testing.settings import settings_from
    from sagelet_api.serve import Sagelet

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
        _end_hosts(server, settings)
    # Threads that still load moto would delay the interpreter's end.
    os._exit(0)


def _end_hosts(server: "Sagelet", settings: Settings) -> None:
    # Loaded when the tests are over.
    from sagelet_engine.base.clock import SystemClock
    from sagelet_engine.machine.runtimes import every_runtime
    from sagelet_engine.state.resetting import end_hosts

    # With `--runtime process` there is one runtime. Docker is only asked if it may have started something.
    process_only = settings.runtime is RuntimeChoice.PROCESS
    runtimes = [server.choice.runtime] if process_only else every_runtime(settings, SystemClock())
    end_hosts(settings.data, runtimes)


def _say(answer: dict[str, str]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
