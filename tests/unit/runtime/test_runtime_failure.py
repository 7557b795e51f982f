import pytest

from sagelet_engine.model import verdict
from sagelet_runtime.base import compiler_faults
from sagelet_runtime.base.failure import ERROR_BUDGET, ErrorCollector, fit, without_error

NAMES = ["ValueError", "RuntimeError", "KeyError"]


def collected(text: str, limit: int = 256 * 1024) -> str:
    collector = ErrorCollector(NAMES, limit)
    for line in text.split("\n"):
        collector.feed(line)
    return collector.text()


def traceback(message: str, frames: int = 1) -> str:
    body = [f'  File "train.py", line {n}, in frame_{n}\n    call_{n}()' for n in range(frames)]
    return "\n".join(["Traceback (most recent call last):", *body, message])


def test_no_error_no_text() -> None:
    assert collected("epoch 1\nepoch 2") == ""


def test_from_the_first_known_name_as_aws_does() -> None:
    text = collected("epoch 1\n  ValueError: bad :\nnext\n\nlast")
    assert text == "ValueError: bad\n next\n \n last"


def test_whole_traceback() -> None:
    text = collected("epoch 1\n" + traceback("RuntimeError: boom"))
    assert text.split("\n ") == [
        "Traceback (most recent call last)",
        'File "train.py", line 0, in frame_0',
        "call_0()",
        "RuntimeError: boom",
    ]


def test_the_last_traceback_counts() -> None:
    text = collected(traceback("KeyError: 'handled'") + "\nepoch 2\n" + traceback("RuntimeError: fatal"))
    assert "handled" not in text
    assert text.endswith("RuntimeError: fatal")


def test_chained_tracebacks_stay_together() -> None:
    chain = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
    text = collected(traceback("KeyError: 'cause'") + chain + traceback("RuntimeError: effect"))
    assert "KeyError: 'cause'" in text
    assert text.endswith("RuntimeError: effect")


def test_what_is_printed_at_interpreter_shutdown_does_not_hide_the_error() -> None:
    after = "\nException ignored in: <function f at 0x7f>\n" + traceback("KeyError: 'at exit'")
    text = collected(traceback("RuntimeError: the reason") + after)
    assert text.index("RuntimeError: the reason") < text.index("at exit")


def test_what_comes_after_a_long_traceback_does_not_hide_its_message() -> None:
    after = "\nException ignored in: <function tqdm.__del__ at 0x7f>\n" + traceback("AttributeError: 'NoneType'", 9)
    text = collected(traceback("RuntimeError: the reason", 100) + after)
    assert "RuntimeError: the reason" in text
    assert "NoneType" not in text


def test_a_long_traceback_keeps_its_last_frames_and_message() -> None:
    text = collected(traceback("RuntimeError: boom", frames=200))
    assert len(text) <= ERROR_BUDGET
    assert text.startswith(
        'Traceback (most recent call last)\n File "train.py", line 0, in frame_0\n call_0()\n ...\n '
    )
    assert "frame_199" in text
    assert "frame_1\n" not in text
    assert text.endswith("RuntimeError: boom")


def test_marks_under_the_code_go_first() -> None:
    frames = "\n".join(f'  File "train.py", line {n}, in frame_{n}\n    call_{n}()\n    ^^^^^^^^' for n in range(15))
    text = collected(f"Traceback (most recent call last):\n{frames}\nRuntimeError: boom")
    assert "^" not in text
    assert "..." not in text
    assert all(f"frame_{n}\n" in text for n in range(15))


def test_marks_behind_the_prefix_of_a_rank_go_too() -> None:
    lines = traceback("ValueError: the reason", frames=12).split("\n")
    marked = [part for line in lines for part in ([line, "    ~~~~~~^^^^^^^^"] if "call_" in line else [line])]
    kept = fit([f"[rank0]: {line}" for line in marked])
    assert not any("^^" in line for line in kept)
    assert kept[-1].endswith("ValueError: the reason")


@pytest.mark.parametrize("end", ["", "\n"], ids=["a bar without an end", "a bar with one"])
@pytest.mark.parametrize("rank", ["", "[rank0]: "])
def test_a_progress_bar_does_not_push_the_exception_out(rank: str, end: str) -> None:
    """tqdm writes each state over the one before, and Python's traceback follows on the same line."""
    states = "".join(f"\r {done:3d}%|{'#' * 40}| {done}/100 [00:0{done % 10}<00:09,  1.00it/s]" for done in range(100))
    error = "\n".join(f"{rank}{line}" for line in traceback("ValueError: the reason", frames=12).split("\n"))
    text = collected(f"{states}{end}{error}")
    assert text.endswith("ValueError: the reason")
    assert "#" not in text
    assert len(text) <= ERROR_BUDGET


def test_a_line_of_many_bars_costs_no_more_than_its_length() -> None:
    """A script may print anything."""
    assert collected("Traceback (most recent call last):" + " 1%|" * 200_000 + "\n" + "ValueError: x")


def test_a_long_message_keeps_its_beginning_and_some_frames() -> None:
    text = collected(traceback("RuntimeError: size mismatch\n" + "weight x\n" * 500, frames=30))
    assert len(text) <= ERROR_BUDGET
    assert "RuntimeError: size mismatch" in text
    assert "frame_29" in text


def test_an_exception_of_any_name_is_the_message() -> None:
    text = collected(traceback("mymodule.Oops: " + "x" * 2000, frames=30))
    assert "mymodule.Oops: xxx" in text
    assert "frame_29" in text
    assert len(text) <= ERROR_BUDGET


def test_memory_is_bounded() -> None:
    collector = ErrorCollector(NAMES, limit=1000)
    for _ in range(10_000):
        collector.feed("RuntimeError: again and again")
    assert len(collector.text()) <= 1100


def test_a_rank_prefix_is_understood() -> None:
    lines = ["[rank0]: Traceback (most recent call last):", *['[rank0]:   File "a"' + "y" * 100] * 20]
    fitted = fit([*lines, "[rank0]: RuntimeError: boom"])
    assert fitted[0] == lines[0]
    assert fitted[-1] == "[rank0]: RuntimeError: boom"
    assert len("\n ".join(fitted)) <= ERROR_BUDGET


def compilers_error(*frames: str, message: str) -> str:
    collector = ErrorCollector([])
    for line in ("Traceback (most recent call last):", *frames, message):
        collector.feed(line)
    return collector.text()


@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 4000000000000 bytes.",
        "RuntimeError: Bad StatusOr access: INVALID_ARGUMENT: Executable expected parameter 0 of size 4",
        "RuntimeError: Error preparing computation: Out of memory allocating 4003906250000 bytes.",
        "RuntimeError: Expected XLA tensor. Got: torch.FloatTensor",
    ],
)
def test_an_error_of_the_compiler_is_known_by_its_message(message: str) -> None:
    assert compiler_faults.is_compilers([f"[rank1]: {message}"])
    assert not compiler_faults.is_compilers([message.replace("RuntimeError", "ValueError")])


@pytest.mark.xla
def test_what_the_toolkit_adds_about_the_compiler_fits_into_the_failure_reason() -> None:
    from sagemaker_training import errors

    frames = [f'  File "/opt/ml/code/train.py", line {number}, in step{number}' for number in range(90)]
    message = "RuntimeError: UNIMPLEMENTED: " + "x" * 2000
    text = compilers_error(*frames, message=message)
    assert message[:60] in text
    extra = "SMTrainingCompiler Error: Error occurred in SMTrainingCompiler."
    failure = str(errors.ExecuteUserScriptError("/usr/bin/python3 train.py", return_code=1, output=text, info=extra))
    assert f'ExtraInfo "{extra}"' in verdict.algorithm_error(failure[: verdict.REASON_LIMIT], 1)


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-28 09:06:27.628821: F external/xla/parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --typo=1",
        "F0000 00:00:1795856786.012318    1462 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --typo=1",
    ],
)
def test_why_cpp_ended_the_process_is_the_error_message(line: str) -> None:
    collector = ErrorCollector(NAMES)
    for one in ("step 1", line, "*** Check failure stack trace: ***"):
        collector.feed(one)
    said = "The script was ended by signal 6 (SIGABRT): Unknown flag in XLA_FLAGS: --typo=1"
    assert without_error(-6, collector.last_text, collector.fatal) == said
    assert without_error(1, line, collector.fatal) == "Unknown flag in XLA_FLAGS: --typo=1"
    assert without_error(1, "--", collector.fatal) == "Unknown flag in XLA_FLAGS: --typo=1"
    assert without_error(1, "no data", collector.fatal) == "no data"
    assert without_error(-9, collector.last_text, collector.fatal) == "The script was ended by signal 9 (SIGKILL)"
