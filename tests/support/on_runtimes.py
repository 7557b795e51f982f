"""Marks of acceptance tests whose fact is the same on every runtime: they run on one.

What a runtime does by itself is in `tests/contract`, for each of them, and the main path of a job runs on each.
"""

import pytest

PROCESS = pytest.param("process", marks=pytest.mark.xla)
DOCKER = pytest.param("docker", marks=pytest.mark.docker)
RUNTIMES = [PROCESS, DOCKER]
#: With the server that tests share, and with one that the test may kill.
by_processes = pytest.mark.parametrize("server", [PROCESS], indirect=True)
in_docker = pytest.mark.parametrize("server", [DOCKER], indirect=True)
own_by_processes = pytest.mark.parametrize("own_server", [PROCESS], indirect=True)
own_in_docker = pytest.mark.parametrize("own_server", [DOCKER], indirect=True)
