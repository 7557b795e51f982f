"""The thread that removes what is too old: its end."""

import threading
from pathlib import Path

from sagelet_engine.retention.gc import Keep
from sagelet_engine.retention.thread import RetentionThread
from support.world import World, until


def test_a_close_is_seen_whenever_it_comes(tmp_path: Path) -> None:
    closing = threading.Event()

    class Woken(threading.Event):
        """The engine closes at the worst moment: before the thread clears this."""

        def clear(self) -> None:
            closing.set()
            thread.wake()
            super().clear()

    world = World(tmp_path)
    engine = world.engine
    thread = RetentionThread(engine.log_groups, engine._collector, Keep(), closing, Woken())
    thread.wake()
    thread.start()
    until(lambda: not thread.is_alive())
    world.close()
