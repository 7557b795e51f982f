import itertools
import random
from datetime import datetime, timezone

import pytest

from sagelet_engine.model.runtime import Line
from sagelet_engine.runtimes.docker.log import (
    HEADER,
    SLACK_NS,
    STDERR,
    STDOUT,
    Frame,
    FrameParser,
    LineAssembler,
    as_since,
    nanoseconds,
    size_in_log,
)

T = 1_700_000_000_000_000_000


def packed(stream: int, ns: int, payload: bytes) -> bytes:
    time = datetime.fromtimestamp(ns // 10**9, timezone.utc).strftime(f"%Y-%m-%dT%H:%M:%S.{ns % 10**9:09d}Z")
    body = time.encode() + b" " + payload
    return HEADER.pack(stream, len(body)) + body


def read(frames: list[Frame], position: str | None = None, *, flush: bool = True) -> list[Line]:
    """What a follower gets from a Docker that keeps `since`."""
    assembler = LineAssembler(position)
    since = assembler.since_ns
    lines = assembler.feed(frame for frame in frames if frame.ns >= since)
    return [*lines, *assembler.flush()] if flush else lines


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2023-11-14T22:13:20.123456789Z", T + 123_456_789),
        ("2023-11-14T22:13:20Z", T),
        ("2023-11-14T22:13:20.5Z", T + 500_000_000),
        ("2023-11-14T23:13:20.000000001+01:00", T + 1),
    ],
)
def test_times_keep_every_digit(text: str, ns: int) -> None:
    assert nanoseconds(text) == ns
    assert as_since(T + 5) == "1700000000.000000005"


def test_text_that_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="not a time"):
        nanoseconds("yesterday")


def test_frames_are_found_however_the_bytes_are_cut() -> None:
    frames = [Frame(STDOUT, T + i, b"x" * i + b"\n") for i in range(50)]
    data = b"".join(packed(*frame) for frame in frames)
    for size in (1, 7, 64, len(data)):
        parser = FrameParser()
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert [frame for piece in pieces for frame in parser.feed(piece)] == frames


def test_pieces_of_a_line_are_joined_per_stream() -> None:
    frames = [
        Frame(STDOUT, T, b"a" * 16384),
        Frame(STDERR, T + 1, b"warning\n"),
        Frame(STDOUT, T + 2, b"b\n"),
        Frame(STDOUT, T + 3, b"no end"),
    ]
    assert [line.text for line in read(frames)] == ["warning", "a" * 16384 + "b", "no end"]
    assert [line.text for line in read(frames, flush=False)] == ["warning", "a" * 16384 + "b"]


def test_equal_times_are_told_apart() -> None:
    frames = [Frame(STDOUT, T, b"%d\n" % number) for number in range(5)]
    lines = read(frames)
    for index, line in enumerate(lines):
        assert read(frames, line.position) == lines[index + 1 :]


def test_silent_stream_does_not_pull_the_start_back() -> None:
    frames = [Frame(STDERR, T, b"once\n"), Frame(STDOUT, T + 100 * SLACK_NS, b"later\n")]
    assembler = LineAssembler(read(frames)[-1].position)
    assert assembler.since_ns == T + 99 * SLACK_NS


def test_times_of_lines_never_go_back() -> None:
    lines = read([Frame(STDOUT, T + 10**9, b"a\n"), Frame(STDERR, T, b"b\n")])
    assert lines[1].time_ms == lines[0].time_ms == (T + 10**9) // 10**6


@pytest.mark.parametrize("seed", range(20))
def test_any_position_continues_without_gap_or_double(seed: int) -> None:
    """Two streams, times that repeat and are out of order between them, lines in pieces; a restart at every line."""
    frames = _random_frames(random.Random(seed))
    whole = [line.text for line in read(frames)]
    expected = sorted(whole)
    for cut in range(len(frames)):
        first = read(frames[:cut], flush=False)
        rest = read(frames, first[-1].position if first else None)
        assert sorted(line.text for line in (*first, *rest)) == expected


def _random_frames(chance: random.Random) -> list[Frame]:
    number = itertools.count()
    clocks = {STDOUT: T, STDERR: T}
    frames = []
    for _ in range(60):
        stream = chance.choice((STDOUT, STDERR))
        # Within a stream times rise; one stream is behind the other by less than the slack.
        latest = max(clocks.values())
        behind = chance.choice((0, SLACK_NS // 3))
        clocks[stream] = max(clocks[stream], latest - behind) + chance.choice((0, 0, 1, SLACK_NS // 10, 2 * SLACK_NS))
        end = b"" if chance.random() < 0.3 else b"\n"
        frames.append(Frame(stream, clocks[stream], b"<%d>" % next(number) + end))
    return frames


def in_json_file(payload: bytes) -> int:
    """As Docker's json-file driver writes a frame (moby, daemon/logger/jsonfilelog/jsonlog)."""
    text = payload.decode(errors="replace")
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
    special = {*map(chr, range(0x20)), "<", ">", "&", "\u2028", "\u2029", "\ufffd"}
    written = "".join(escapes.get(one, "?" * 6 if one in special else one) for one in text)
    time = "2026-01-01T00:00:00.123456789Z"
    return len(f'{{"log":"{written}","stream":"stdout","time":"{time}"}}\n'.encode())


@pytest.mark.parametrize(
    "payload",
    [
        b"\n",
        b"plain\n",
        b"no end",
        "ä€😀\n".encode(),
        b'\x1b[31m<a>&"\\\t\r\n',
        b"\xff\xfe\xc3\n",
        "\u2028\u2029".encode() * 9,
    ],
)
def test_what_a_line_takes_in_dockers_log_is_not_underestimated(payload: bytes) -> None:
    written = in_json_file(payload)
    assert written <= size_in_log(payload) <= 6 * written


def test_what_was_printed_is_known_after_a_restart() -> None:
    frames = [Frame(STDOUT if i % 2 else STDERR, T + i, b"x" * i + b"\n") for i in range(20)]
    size = sum(size_in_log(frame.payload) for frame in frames)
    first = LineAssembler(None)
    (*_, last) = first.feed(frames[:13])
    second = LineAssembler(last.position)
    second.feed(frame for frame in frames if frame.ns >= second.since_ns)
    assert (first.printed, second.printed) == (sum(size_in_log(one.payload) for one in frames[:13]), size)
