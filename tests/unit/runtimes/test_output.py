from sagelet_engine.runtimes.node.output import MAX_LINE_BYTES, split_lines, text_of


def test_lines_are_split_at_line_feeds_only() -> None:
    lines, rest = split_lines(b"a\r\n\nb\x0cc\x85\nrest")
    assert lines == [(b"a\r", 3), (b"", 1), (b"b\x0cc\x85", 5)]
    assert rest == b"rest"


def test_line_of_the_greatest_length_is_one_line() -> None:
    line = b"x" * MAX_LINE_BYTES
    assert split_lines(line) == ([], line)
    assert split_lines(line + b"\n") == ([(line, len(line) + 1)], b"")


def test_longer_line_is_cut_between_characters_and_loses_no_byte() -> None:
    data = "ä€😀".encode() * 60_000 + b"\nend\n"
    lines, rest = split_lines(data)
    assert rest == b""
    assert b"".join(line for line, _ in lines) == data.replace(b"\n", b"")
    assert sum(size for _, size in lines) == len(data)
    assert all(len(line) <= MAX_LINE_BYTES and "�" not in text_of(line) for line, _ in lines)


def test_longer_line_without_end_goes_out_in_pieces_and_keeps_a_rest() -> None:
    lines, rest = split_lines(b"x" * (2 * MAX_LINE_BYTES + 5))
    assert [size for _, size in lines] == [MAX_LINE_BYTES, MAX_LINE_BYTES]
    assert rest == b"xxxxx"


def test_bytes_that_are_no_character_at_all_are_still_cut() -> None:
    lines, rest = split_lines(b"\x80" * (MAX_LINE_BYTES + 10))
    assert sum(size for _, size in lines) + len(rest) == MAX_LINE_BYTES + 10
    assert lines
