"""The soak in short: counts and invariants; `make soak` is the long one, with figures."""

from pathlib import Path

from reliability.soak import OPTIONS, WINDOWS, Soak
from support.server import SageletProcess

JOBS, LINES = 60, 200


def test_many_jobs_leave_nothing_but_what_they_should(tmp_path: Path) -> None:
    server = SageletProcess(tmp_path / "data", *OPTIONS).start()
    try:
        soak = Soak(server, JOBS, LINES)
        soak.run()
    finally:
        server.stop()
    assert soak.found == {"jobs": {"Completed": JOBS}, "lines": JOBS * LINES, "models": JOBS, "left": []}
    assert [window.jobs for window in soak.windows][-1] == JOBS
    assert len(soak.windows) == WINDOWS
