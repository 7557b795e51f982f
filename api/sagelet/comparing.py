"""`sagelet.compare`: the comparison that `sagelet compare` prints, as an object."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode

from rich.console import Console

from sagelet.connection import server_named
from sagelet_api.cli.control_client import ServerRefused, ask
from sagelet_api.comparison import files, html, table
from sagelet_engine.base.errors import SageletError
from sagelet_engine.comparison import result


class NotComparable(SageletError):
    """A comparison of the jobs means nothing. The message says why."""


@dataclass(frozen=True)
class Comparison(result.Comparison):
    """A comparison of two or more jobs; the first is the baseline. A notebook shows it as tables and pictures."""

    def to_html(self, path: Path | str) -> Path:
        """Writes one file that needs nothing else, and returns its path."""
        return files.write_html(self, Path(path))

    def to_png(self, directory: Path | str) -> list[Path]:
        """Writes throughput.png, loss.png, time.png and cost.png. Raises NoPillow without Pillow."""
        return files.write_pngs(self, Path(directory))

    def __str__(self) -> str:
        """Returns what `sagelet compare` prints, as wide as the terminal, and at most 100 characters."""
        width = min(100, shutil.get_terminal_size((100, 24)).columns)
        console = Console(highlight=False, width=width, color_system=None)
        with console.capture() as captured:
            table.show(self, console)
        return captured.get()

    def _repr_html_(self) -> str:
        return html.fragment(self)


def compare_jobs(
    jobs: Sequence[str],
    endpoint: str | None,
    account: str | None,
    region: str | None,
    data: Path | str | None,
    context: str | None,
    anyway: bool,
    steps: int | None = None,
) -> Comparison:
    """Compares jobs; see `sagelet.compare`."""
    server = server_named(endpoint, account=account, region=region, data=data, context=context)
    query = [*(("job", job) for job in jobs), ("account", server.account), ("region", server.region)]
    query += [("anyway", "1")] if anyway else []
    query += [] if steps is None else [("steps", str(steps))]
    try:
        answer = ask(server, "GET", f"compare?{urlencode(query)}")
    except ServerRefused as error:
        if isinstance(error.__cause__, HTTPError) and error.__cause__.code == HTTPStatus.CONFLICT:
            raise NotComparable(f"{error} To compare all the same: anyway=True") from error
        raise
    return Comparison.from_json(answer)
