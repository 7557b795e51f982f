"""Remembers which runtime has the hosts of a data directory's jobs. Another runtime would consider them lost."""

from collections.abc import Sequence
from pathlib import Path

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.model.job import Job
from sagelet_engine.settings import RuntimeChoice, Settings

FILE = Path("runtime", "used")


def check(settings: Settings, name: str, unfinished: Sequence[Job]) -> None:
    """Notes the runtime of a server that starts.

    Raises SettingsError if `auto` now chooses another runtime while hosts of the last one may still run: no job may be
    lost because a Docker engine does not answer for a moment. A runtime that the user names is never refused.
    """
    path = settings.data / FILE
    last = path.read_text(encoding="utf-8") if path.exists() else name
    running = [job.key.name for job in unfinished if job.launched]
    if last != name and running and settings.runtime is RuntimeChoice.AUTO:
        more = f" and {len(running) - 1} more" if len(running) > 1 else ""
        raise SettingsError(
            f"--runtime auto is {name!r} now, and {running[0]}{more} may run in {last!r} still. Bring that back (start "
            f"its engine, then `sagelet up`), or give them up: --runtime {name}"
        )
    if last != name or not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(name, encoding="utf-8")
