"""Commands in a pipe: lines with tabs, no padding, no colour, and no error when the reader has enough."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import Result

from sagelet_api.cli.text import until_reader_ends
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.pipelines import ROLE, definition, fail

Sagelet = Callable[..., Result]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiWorld]:
    """A server with a job that has printed more than a pipe holds."""
    with ApiWorld(tmp_path_factory.mktemp("world"), MotoBridge()) as world:
        world.create("chatty", HyperParameters={"[bold]name": "a\tb\nc"})
        host = world.host("chatty")
        host.say(*(f"line {number} {'x' * 200}" for number in range(2_000)))
        host.end(1)
        world.ended("chatty")
        yield world


def command(world: ApiWorld, *words: str) -> list[str]:
    server = ["--endpoint", f"http://127.0.0.1:{world.port}", "--account", ACCOUNT, "--region", REGION]
    return [str(Path(sys.executable).with_name("sagelet")), *words, *server]


def piped(words: Sequence[str], **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, **variables})


@pytest.mark.parametrize("words", [("jobs",), ("describe", "chatty"), ("logs", "chatty", "--tail", "3")])
def test_lines_are_plain_whatever_ci_wishes(filled: ApiWorld, words: tuple[str, ...]) -> None:
    done = piped(command(filled, *words), FORCE_COLOR="1", CLICOLOR_FORCE="1", TTY_COMPATIBLE="1", COLUMNS="40")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert not re.search(r" $", done.stdout, re.MULTILINE)
    assert "   " not in done.stdout


def test_facts_are_lines_with_one_tab(filled: ApiWorld) -> None:
    lines = piped(command(filled, "describe", "chatty")).stdout.splitlines()
    assert "Name\tchatty" in lines
    assert "[bold]name\ta b c" in lines
    assert next(line for line in lines if line.startswith("STATUS")) == "STATUS\tSINCE\tTOOK\tMESSAGE"


@pytest.mark.parametrize("options", ["", "--json", "-t"])
def test_head_ends_a_command_without_an_error(filled: ApiWorld, options: str) -> None:
    words = " ".join(command(filled, "logs", "chatty", *options.split()))
    done = piped(["bash", "-c", f"set -o pipefail; {words} | head -1"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "line 0 " in done.stdout


def test_a_reader_that_is_gone_at_once_is_no_error(filled: ApiWorld) -> None:
    for words in (("jobs",), ("describe", "chatty"), ("jobs", "--json"), ("status",), ("instances",), ("--help",)):
        ours, theirs = os.pipe()
        os.close(ours)
        server = command(filled)[1:] if words[0] in ("jobs", "describe") else []
        program = [str(Path(sys.executable).with_name("sagelet")), *words, *server]
        if words[0] == "status":
            program += ["--endpoint", f"http://127.0.0.1:{filled.port}"]
        done = subprocess.run(program, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=120)
        os.close(theirs)
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.parametrize("words", [("start", "Fails", "--wait"), ("wait", "Fails")])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_exit_code_tells_of_a_failed_execution_whoever_reads(
    filled: ApiWorld, words: tuple[str, ...], options: tuple[str, ...]
) -> None:
    if not filled.sagemaker.list_pipelines()["PipelineSummaries"]:
        asked = {"PipelineDefinition": definition(fail("a", "no")), "RoleArn": ROLE, "ClientRequestToken": "t" * 32}
        filled.sagemaker.create_pipeline(PipelineName="Fails", **asked)
        filled.sagemaker.start_pipeline_execution(PipelineName="Fails", ClientRequestToken="u" * 32)
    ours, theirs = os.pipe()
    os.close(ours)
    program = command(filled, "pipelines", *words, *options)
    done = subprocess.run(program, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(theirs)
    assert done.returncode == 3, done.stderr


def test_a_full_disk_is_one_line(filled: ApiWorld) -> None:
    for options in ((), ("--json",)):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                command(filled, "jobs", *options), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
            )
        assert (done.returncode, done.stderr) == (1, "Error: The output cannot be written: No space left on device\n")


def test_wait_keeps_its_exit_code_when_nobody_reads(filled: ApiWorld) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(
        command(filled, "wait", "chatty"), stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=120
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (3, "")


def test_another_pipe_that_breaks_is_an_error() -> None:
    with pytest.raises(BrokenPipeError), until_reader_ends():
        raise BrokenPipeError
