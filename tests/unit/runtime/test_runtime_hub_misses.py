"""An ErrorMessage names the command that adds what the offline hub did not have: libraries hide the hub's own words."""

import pytest

from sagelet_runtime.base.failure import ERROR_BUDGET, ErrorCollector
from sagelet_runtime.base.hub_misses import HubMisses
from sagelet_runtime.entry.output_relay import error_texts

SAID = (
    "sagelet's hub has no {kind} {name}: add it with `sagelet hub add DIR --as {name}`, or have the job ask the real "
    "Hub by Environment={{'HF_ENDPOINT': 'https://huggingface.co'}}"
)
MODEL = SAID.format(kind="model", name="org/bert")
COMMAND = "sagelet's hub has no model org/bert: add it with `sagelet hub add DIR --as org/bert`"
#: transformers 4.57, whose traceback has the hub's words in a part that does not fit.
OSERROR = (
    "OSError: org/bert is not a local folder and is not a valid model identifier listed on "
    "'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a token"
)
REFUSED = "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.\n\nRepository Not Found for url: http://x."
FRAMES = "\n".join(f'  File "hub.py", line {number}, in cached_files_{"x" * 60}' for number in range(12))


def traceback(message: str) -> str:
    return f"Traceback (most recent call last):\n{FRAMES}\n{message}"


CHAIN = "\n\nThe above exception was the direct cause of the following exception:\n\n"


def message(stdout: str, stderr: str) -> str:
    misses = HubMisses()
    collectors = [ErrorCollector(["Error"], misses=misses) for _ in range(2)]
    for collector, text in zip(collectors, (stdout, stderr), strict=True):
        for line in text.splitlines():
            collector.feed(line)
    return "\n".join(error_texts([*collectors], 1))


@pytest.mark.parametrize(
    ("stdout", "stderr"),
    [
        ("", traceback(f"{REFUSED}\n{MODEL}") + CHAIN + traceback(OSERROR)),
        # `datasets` cuts the chain.
        (f"sagelet: {MODEL}", traceback("DatasetNotFoundError: Dataset 'org/bert' doesn't exist on the Hub")),
    ],
)
def test_the_command_stands_behind_an_error_that_does_not_name_it(stdout: str, stderr: str) -> None:
    text = message(stdout, stderr)
    assert text.endswith(f"\n {COMMAND}")
    assert len(text) <= ERROR_BUDGET
    assert "OSError: org/bert" in text or "DatasetNotFoundError" in text


def test_once_where_the_error_names_it() -> None:
    assert message(f"sagelet: {MODEL}", traceback(f"{REFUSED}\n{MODEL}")).count("sagelet hub add") == 1


def test_the_last_miss_counts() -> None:
    first = SAID.format(kind="model", name="org/first")
    assert message(f"sagelet: {first}\nsagelet: {MODEL}", traceback(OSERROR)).endswith(COMMAND)


@pytest.mark.parametrize(
    ("stdout", "error"),
    [
        # The script lived with the miss.
        (f"sagelet: {MODEL}", "ValueError: bad data"),
        ("", OSERROR),
    ],
)
def test_other_failures_are_left_alone(stdout: str, error: str) -> None:
    assert "sagelet hub add" not in message(stdout, traceback(error))
