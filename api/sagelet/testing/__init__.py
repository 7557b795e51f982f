"""sagelet in tests of pipelines: servers of their own, training as a Python function, faults on purpose.

`docs/how-to/test-your-pipeline.md` shows it. Installing sagelet installs the pytest plugin (`plugin.py`). This package
has the same for tests without pytest. Nothing is loaded before it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sagelet.testing.fast_forward import FastForward as FastForward
    from sagelet.testing.faults import Fault as Fault
    from sagelet.testing.faults import Faults as Faults
    from sagelet.testing.job import Job as Job
    from sagelet.testing.job import ProcessingJob as ProcessingJob
    from sagelet.testing.job import Terminated as Terminated
    from sagelet.testing.server import Account as Account
    from sagelet.testing.server import Server as Server
    from sagelet.testing.server import ServerFailed as ServerFailed

_WHERE = {
    "Account": "server",
    "Fault": "faults",
    "Faults": "faults",
    "FastForward": "fast_forward",
    "Job": "job",
    "ProcessingJob": "job",
    "Terminated": "job",
    "Server": "server",
    "ServerFailed": "server",
}
__all__ = [*_WHERE]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
