"""What Docker's State of a container becomes."""

from sagelet_engine.runtimes.docker.runtime import observation

ENDED = {
    "Status": "exited",
    "ExitCode": 3,
    "OOMKilled": False,
    "Error": "",
    "StartedAt": "2026-11-21T15:45:58.2361Z",
    "FinishedAt": "2026-11-21T15:45:59.5Z",
}
STARTED_MS = 1_795_275_958_236


def test_an_end_is_when_docker_noted_it() -> None:
    seen = observation(ENDED)
    assert (seen.running, seen.exit_code, seen.finished_ms) == (False, 3, STARTED_MS + 1264)


def test_a_host_never_ends_before_it_began() -> None:
    # Docker 20.10 notes the start when its call returns, and the end as the kernel tells it.
    assert observation(ENDED | {"FinishedAt": "2026-11-21T15:45:58.2350Z"}).finished_ms == STARTED_MS


def test_a_container_that_never_ended_has_no_end() -> None:
    assert observation(ENDED | {"FinishedAt": "0001-01-01T00:00:00Z"}).finished_ms is None
