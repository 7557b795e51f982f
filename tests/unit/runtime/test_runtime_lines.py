import asyncio
import io

from sagelet_runtime.base.failure import ErrorCollector
from sagelet_runtime.base.lines import LineSplitter
from sagelet_runtime.entry import plugin_noise
from sagelet_runtime.entry.output_relay import Relay, error_texts


def test_lines_over_chunk_borders() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"  one\ntw") == [b"  one"]
    assert splitter.feed(b"o\r\n\nthr") == [b"two\r", b""]
    assert splitter.close() == [b"thr"]
    assert splitter.close() == []


def test_long_lines_are_split_terminated_or_not() -> None:
    splitter = LineSplitter(limit=4)
    assert splitter.feed(b"abcdefghij\nk") == [b"abcd", b"efgh", b"ij"]
    assert splitter.feed(b"lmnopq") == [b"klmn"]
    assert splitter.feed(b"\n") == [b"opq"]


def test_every_byte_arrives_in_order() -> None:
    data = bytes(range(97, 123)) * 1000 + b"\n" + b"x\n" * 1000
    splitter = LineSplitter(limit=512)
    pieces = [piece for at in range(0, len(data), 77) for piece in splitter.feed(data[at : at + 77])]
    assert b"".join(pieces + splitter.close()) == data.replace(b"\n", b"")


def test_a_relay_passes_text_on_and_collects_the_error() -> None:
    out = io.StringIO()
    collector = ErrorCollector(["ValueError"])

    async def run() -> None:
        stream = asyncio.StreamReader()
        stream.feed_data(b"a\n\n  b \xe2\x82")
        stream.feed_data(b"\xac\nValueError: bad")
        stream.feed_eof()
        await Relay(stream, collector, out).run()

    asyncio.run(run())
    assert out.getvalue() == "a\n\n  b €\nValueError: bad\n"
    assert collector.text() == "ValueError: bad"


def test_the_stream_with_the_traceback_is_the_error() -> None:
    stdout, stderr = ErrorCollector(["ValueError"]), ErrorCollector(["ValueError"])
    stdout.feed("log: ValueError was handled")
    assert error_texts([stdout, stderr], 0) == ["log: ValueError was handled", ""]
    for line in ("Traceback (most recent call last):", '  File "x"', "ValueError: bad"):
        stderr.feed(line)
    assert error_texts([stdout, stderr], 1) == [stderr.text()]


def test_noise_of_the_plugin_is_left_out_and_what_resembles_it_is_not() -> None:
    profiler = (
        "2026-11-25 19:48:54.921781: W torch_xla/csrc/runtime/profiler.cpp:103] Profiler API not found for PJRT plugin"
    )
    like_it = [
        profiler + "!",
        "Profiler API not found for PJRT plugin",
        profiler.replace("profiler.cpp", "client.cpp"),
        f"[1] {profiler}",
    ]
    out, collector = io.StringIO(), ErrorCollector(["ValueError"])

    async def run() -> None:
        stream = asyncio.StreamReader()
        lines = [profiler, *like_it, profiler.replace(":103]", ":99]"), "losses=1"]
        stream.feed_data("\n".join(lines).encode() + b"\n")
        stream.feed_eof()
        await Relay(stream, collector, out).run()

    asyncio.run(run())
    assert out.getvalue().splitlines() == [*like_it, "losses=1"]
    assert all(plugin_noise.NOISE.values()), "each has its reason"


def test_a_stream_of_noise_alone_prints_no_empty_line() -> None:
    out = io.StringIO()

    async def run() -> None:
        stream = asyncio.StreamReader()
        stream.feed_data(
            b"2026-11-25 19:48:54.921781: W torch_xla/csrc/runtime/profiler.cpp:103] "
            b"Profiler API not found for PJRT plugin\n"
        )
        stream.feed_eof()
        await Relay(stream, ErrorCollector(["ValueError"]), out).run()

    asyncio.run(run())
    assert out.getvalue() == ""
