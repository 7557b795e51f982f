"""sagelet for Python programs: what users import. The server and the engine are `sagelet_api` and `sagelet_engine`.

Importing it loads neither boto3 nor the server. Functions that need them import them when called.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sagelet_engine import __version__ as __version__

if TYPE_CHECKING:
    import boto3

    from sagelet.comparing import Comparison

__all__ = ["__version__", "compare", "connect"]


def connect(
    endpoint: str | None = None,
    *,
    account: str | None = None,
    region: str | None = None,
    data: Path | str | None = None,
    context: str | None = None,
) -> "boto3.Session":
    """Returns a boto3 session whose clients and resources all go to a running sagelet server.

    Which server is decided as for commands, by the first of these that names one: `endpoint`, `data` or `context`; the
    environment (SAGELET_CONTEXT, SAGELET_ENDPOINT, SAGELET_DATA, else AWS_ENDPOINT_URL); the current context (`sagelet
    context`); the default, which is the server on the default data directory, else http://127.0.0.1:4599.

    `data`: the server's data directory, which has its key pair (`--auth`) and its certificate authority (`--tls`).
    `account`: 12 digits; sagelet tells accounts apart by the access key. Account and region are by default the
    context's, else 123456789012 and us-east-1.

    Nothing of the user's own AWS configuration is used or sent: no profile, no key, no proxy. Raises NoServer if no
    server answers, and SettingsError for a wrong value. Both name the remedy.
    """
    from sagelet.connection import connect_to

    return connect_to(endpoint, account=account, region=region, data=data, context=context)


def compare(
    *jobs: str,
    endpoint: str | None = None,
    account: str | None = None,
    region: str | None = None,
    data: Path | str | None = None,
    context: str | None = None,
    anyway: bool = False,
    steps: int | None = None,
) -> "Comparison":
    """Compares training jobs with the first: throughput, loss, training time, billable seconds and cost.

    `jobs`: names, or ARNs for those of other accounts and regions; the native one first. `anyway`: also jobs that are
    not comparable. `steps`: also the bill of a training of so many steps. The other arguments: see `connect`.

    Raises sagelet.comparing.NotComparable (a SageletError) with the reasons, and SageletError if there is no such job
    or no server.
    """
    from sagelet.comparing import compare_jobs

    return compare_jobs(jobs, endpoint, account, region, data, context, anyway, steps)
