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
    account: str = "123456789012",
    region: str = "us-east-1",
    data: Path | str | None = None,
) -> "boto3.Session":
    """Returns a boto3 session whose clients and resources all go to a running sagelet server.

    `endpoint`: by default SAGELET_ENDPOINT, else AWS_ENDPOINT_URL, else http://127.0.0.1:4599. `account`: 12 digits;
    sagelet takes it from the access key. `data`: the server's data directory, which has its key pair (`--auth`) and its
    certificate authority (`--tls`); by default SAGELET_DATA, else the one of `sagelet up`.

    Nothing of the user's own AWS configuration is used or sent: no profile, no key, no proxy. Raises NoServer if no
    server answers, and SettingsError for a wrong value. Both name the remedy.
    """
    from sagelet.connection import connect_to

    return connect_to(endpoint, account=account, region=region, data=data)


def compare(
    *jobs: str,
    endpoint: str | None = None,
    account: str = "123456789012",
    region: str = "us-east-1",
    data: Path | str | None = None,
    anyway: bool = False,
) -> "Comparison":
    """Compares training jobs with the first: throughput, loss, training time, billable seconds and cost.

    `jobs`: names, or ARNs for those of other accounts and regions; the native one first. `endpoint`: by default
    SAGELET_ENDPOINT, else AWS_ENDPOINT_URL, else http://127.0.0.1:4599. `data`: the server's data directory, for its
    key pair (`--auth`) and certificate (`--tls`). `anyway`: even if the jobs are not comparable.

    Raises sagelet.comparing.NotComparable (a SageletError) with the reasons, and SageletError if there is no such job
    or no server.
    """
    from sagelet.comparing import compare_jobs

    return compare_jobs(jobs, endpoint, account, region, data, anyway)
