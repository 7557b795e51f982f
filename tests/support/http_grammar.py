"""Conversations on a raw socket, made from a seed: a request that is odd or wrong, and an honest one behind it.

Each conversation knows how a server may understand it. Requests to SMUGGLED are in places where no request can be:
bodies, chunk extensions, trailers, header values. A server that sees one has taken a part of a request for a request.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

SMUGGLED = "/smuggled"
_INNER = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\nX-Id: smuggled\r\n\r\n"


@dataclass
class Message:
    """One request, in the parts that rules of the grammar combine or break."""

    method: bytes = b"PUT"
    target: bytes = b"/first"
    version: bytes = b"HTTP/1.1"
    headers: list[bytes] = field(default_factory=lambda: [b"Host: localhost", b"X-Id: first"])
    #: The body that the application reads.
    content: bytes = b""
    #: The body with its framing.
    framed: bytes = b""
    before: bytes = b""
    #: True if the connection ends after this valid request.
    closes: bool = False

    def encoded(self) -> bytes:
        line = b" ".join((self.method, self.target, self.version))
        return self.before + b"\r\n".join((line, *self.headers, b"", b"")) + self.framed


@dataclass(frozen=True)
class Conversation:
    seed: int
    rules: tuple[str, ...]
    first: Message
    #: True if the first request is valid. An invalid one must be refused and end the connection.
    valid: bool
    pieces: tuple[bytes, ...]


SECOND = b"PUT /second HTTP/1.1\r\nHost: localhost\r\nX-Id: second\r\nContent-Length: 2\r\n\r\nok"
Rule = Callable[[random.Random, Message], None]


def conversation(seed: int) -> Conversation:
    """Returns the conversation of a seed, which is always the same."""
    chance = random.Random(seed)
    message = Message()
    rules = [chance.choice(FRAMES), *chance.sample(ODD, chance.randrange(4))]
    valid = chance.random() < 0.5
    if not valid:
        rules.append(chance.choice(WRONG))
    for rule in rules:
        rule(chance, message)
    whole = message.encoded() + SECOND
    cuts = sorted(chance.randrange(len(whole)) for _ in range(chance.choice((0, 0, 1, 2, 9))))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    names = tuple(rule.__name__ for rule in rules)
    return Conversation(seed, names, message, valid, tuple(piece for piece in pieces if piece))


def mutated(seed: int) -> bytes:
    """Returns a conversation with bytes changed, doubled or removed. Any clear answer to it is right."""
    chance = random.Random(seed)
    data = bytearray(b"".join(conversation(seed).pieces))
    for _ in range(chance.randrange(1, 9)):
        place, length = chance.randrange(len(data)), chance.choice((1, 1, 2, 7, 50))
        change = chance.randrange(4)
        if change == 0:
            data[place] = chance.choice((*b"\r\n\0\t :;,=%/?#", chance.randrange(256)))
        elif change == 1:
            data[place:place] = data[place : place + length]
        elif change == 2:
            del data[place : place + length]
        else:
            data[place:place] = chance.choice((b"\r\n", b"\n", b"\r", b"\0", b"-1", b"9" * 30, _INNER))
        data = data or bytearray(b"\r\n")
    return bytes(data)


# --- bodies -----------------------------------------------------------------------------------------------------------


def no_body(_chance: random.Random, message: Message) -> None:
    message.method = b"GET"


def with_length(chance: random.Random, message: Message) -> None:
    message.content = message.framed = chance.choice((b"x", b"{}", _INNER, _INNER * 40, b"\0\xff" * 50_000))
    message.headers.append(b"Content-Length: %d" % len(message.framed))


def with_chunks(chance: random.Random, message: Message) -> None:
    message.headers.append(chance.choice((b"Transfer-Encoding: chunked", b"transfer-encoding:\tCHUNKED ")))
    for _ in range(chance.randrange(5)):
        data = chance.choice((b"x", b"\r\n", _INNER, b"0\r\n\r\n", b"y" * 70_000))
        size = chance.choice((b"%x", b"%X", b"000%x")) % len(data)
        extension = chance.choice((b"", b"", b";a=b", b';a="GET /smuggled HTTP/1.1"', b" ;x", b";" + b"e" * 3000))
        message.content += data
        message.framed += size + extension + b"\r\n" + data + b"\r\n"
    trailers = (b"", b"", b"X-Trailer: 1\r\n", b"GET: /smuggled HTTP/1.1\r\nX-Id: smuggled\r\nHost: localhost\r\n")
    message.framed += b"0\r\n" + chance.choice(trailers) + b"\r\n"


FRAMES: tuple[Rule, ...] = (no_body, with_length, with_chunks)

# --- odd, and right ---------------------------------------------------------------------------------------------------


def empty_line_before(_chance: random.Random, message: Message) -> None:
    message.before = b"\r\n"


def spaces_around_values(chance: random.Random, message: Message) -> None:
    message.headers.append(b"X-Spaces:" + b" \t" * chance.randrange(1, 500) + b"value" + b"\t ")


def many_headers(chance: random.Random, message: Message) -> None:
    message.headers += [b"X-%d: %d" % (number, number) for number in range(chance.choice((10, 1000, 10_000)))]


def long_target(chance: random.Random, message: Message) -> None:
    message.target += b"?" + b"q" * chance.choice((1_000, 100_000))


def escaped_target(chance: random.Random, message: Message) -> None:
    message.target += chance.choice((b"?a=%00%0d%0a", b"?%", b"?%zz", b"?/../", b"?\xc3\xbc", b"?a?b?c", b"?[", b"?@:"))


def continued(chance: random.Random, message: Message) -> None:
    message.headers.append(chance.choice((b"Expect: 100-continue", b"expect: 100-CONTINUE")))


def closing(chance: random.Random, message: Message) -> None:
    message.headers.append(chance.choice((b"Connection: close", b"Connection: Close", b"connection: x, close")))
    message.closes = True


def old_version(chance: random.Random, message: Message) -> None:
    if b"transfer-encoding" in b"".join(message.headers).lower():
        return
    message.version = b"HTTP/1.0"
    keep = chance.random() < 0.5
    message.closes = message.closes or not keep
    if keep:
        message.headers.append(b"Connection: Keep-Alive")


def odd_values(chance: random.Random, message: Message) -> None:
    message.headers.append(b"X-Odd: " + chance.choice((b"\xff\xfe", b"GET /smuggled HTTP/1.1", b":", b"", b"a\tb")))


def doubled_harmless(_chance: random.Random, message: Message) -> None:
    message.headers += [b"Accept: a", b"ACCEPT: b", b"Via: 1.1 a", b"via: 1.1 b"]


def underscores(_chance: random.Random, message: Message) -> None:
    message.headers += [b"Content_Length: 5", b"Transfer_Encoding: chunked", b"X_Id: smuggled"]


ODD: tuple[Rule, ...] = (
    empty_line_before, spaces_around_values, many_headers, long_target, escaped_target, continued, closing, old_version,
    odd_values, doubled_harmless, underscores,
)  # fmt: skip

# --- wrong ------------------------------------------------------------------------------------------------------------


def wrong_length(chance: random.Random, message: Message) -> None:
    values = (b"-1", b"+1", b"1_0", b"0x1", b"1,1", b"1, 1", b"", b" ", b"1 1", b"\xb2", b"9" * 19, b"9" * 5000, b"1.0")
    _drop(message, b"content-length", b"transfer-encoding")
    message.headers.append(b"Content-Length: " + chance.choice(values))


def two_lengths(chance: random.Random, message: Message) -> None:
    _drop(message, b"content-length", b"transfer-encoding")
    message.headers += [b"Content-Length: 0", b"Content-Length: %d" % chance.randrange(99)]


def length_and_chunks(_chance: random.Random, message: Message) -> None:
    _drop(message, b"content-length", b"transfer-encoding")
    message.headers += [b"Content-Length: 5", b"Transfer-Encoding: chunked"]
    message.framed = b"0\r\n\r\n" + _INNER


def unknown_encoding(chance: random.Random, message: Message) -> None:
    _drop(message, b"content-length", b"transfer-encoding")
    values = (
        b"gzip",
        b"gzip, chunked",
        b"chunked, chunked",
        b"xchunked",
        b"chunked;q=1",
        b"identity",
        b"",
        b"chunke d",
    )
    message.headers.append(b"Transfer-Encoding: " + chance.choice(values))
    message.framed = b"0\r\n\r\n" + _INNER


def encoding_of_old_version(_chance: random.Random, message: Message) -> None:
    _drop(message, b"content-length", b"transfer-encoding", b"connection")
    message.version = b"HTTP/1.0"
    message.headers += [b"Transfer-Encoding: chunked", b"Connection: Keep-Alive"]
    message.framed = b"5\r\nhello\r\n0\r\n\r\n"


def broken_chunk(chance: random.Random, message: Message) -> None:
    _drop(message, b"content-length", b"transfer-encoding")
    message.headers.append(b"Transfer-Encoding: chunked")
    sizes = (b"-1", b"+5", b"0x5", b"5_0", b"", b" 5", b"g", b"f" * 16, b"5\n", b"5 \x00", b"\xb2", b"5;" + b"x" * 5000)
    message.framed = chance.choice(sizes) + b"\r\nhello\r\n0\r\n\r\n" + _INNER


def longer_chunk(_chance: random.Random, message: Message) -> None:
    _drop(message, b"content-length", b"transfer-encoding")
    message.headers.append(b"Transfer-Encoding: chunked")
    message.framed = b"3\r\nhello\r\n0\r\n\r\n"


def broken_trailer(chance: random.Random, message: Message) -> None:
    _drop(message, b"content-length", b"transfer-encoding")
    message.headers.append(b"Transfer-Encoding: chunked")
    message.framed = b"0\r\n" + chance.choice(
        (_INNER, b"a b: c\r\n\r\n", b"x" * 70_000 + b": y\r\n\r\n", b"A: b\n\r\n")
    )


def folded(chance: random.Random, message: Message) -> None:
    place = chance.randrange(len(message.headers) + 1)
    message.headers.insert(place, chance.choice((b" folded", b"\tfolded: 1", b" Content-Length: 50")))


def broken_header(chance: random.Random, message: Message) -> None:
    lines = (
        b"no colon", b": no name", b"a b: c", b"a : c", b"X-Nul: a\0b", b"X-Cr: a\rb", b"X-Lf: a\nb: c", b"\xfc: 1",
        b"X-Cr: a\rGET /smuggled HTTP/1.1", b"X-Del: \x7f", b"(x): 1", b"X-Bel: \a", b"Content-Length : 3", b"\0",
    )  # fmt: skip
    message.headers.insert(chance.randrange(len(message.headers) + 1), chance.choice(lines))


def doubled(chance: random.Random, message: Message) -> None:
    name = chance.choice((b"Host", b"Authorization", b"X-Amz-Target", b"X-Amz-Date", b"Origin", b"X-Any"))
    message.headers += [name + b": localhost", name.lower() + b": other"]


def broken_line(chance: random.Random, message: Message) -> None:
    method, target, version = message.method, message.target, message.version
    line = chance.choice(
        (
            (b"get", target, version), (b"G\0T", target, version), (b"", target, version), (method, b"", version),
            (method, b"http://localhost/first", version), (method, b"localhost:80", version), (method, b"*", version),
            (b"CONNECT", b"localhost:80", version), (method, b"/a b", version), (method, b"/\0", version),
            (method, b"/\x7f", version), (method, b"/#f", version), (method, target, b"HTTP/2.0"),
            (method, target, b"HTTP/0.9"), (method, target, b"HTTP/1.2"), (method, target, b"HTTP/+1.1"),
            (method, target, b"HTTP/1.1.1"), (method, target, b"HTTP/01.1"), (method, target, b"http/1.1"),
            (method, target, b""), (method, target + b"\t", version), (method, target, b"HTTP/1.1 "),
            (b"PRI", b"*", b"HTTP/2.0"), (b"\x16\x03\x01", b"\x02\0", b"\x01\xfc"), (method, target, b"HTTP/1.1\r"),
        )
    )  # fmt: skip
    message.method, message.target, message.version = line


def too_much(chance: random.Random, message: Message) -> None:
    if chance.random() < 0.5:
        message.target = b"/" + b"u" * 1_000_000
    else:
        message.headers.append(b"X-Huge: " + b"h" * 1_000_000)


def unknown_expectation(chance: random.Random, message: Message) -> None:
    _drop(message, b"expect")
    message.headers.append(b"Expect: " + chance.choice((b"a-miracle", b"100-continue, x", b"")))


WRONG: tuple[Rule, ...] = (
    wrong_length, two_lengths, length_and_chunks, unknown_encoding, encoding_of_old_version, broken_chunk, longer_chunk,
    broken_trailer, folded, broken_header, doubled, broken_line, too_much, unknown_expectation,
)  # fmt: skip


def _drop(message: Message, *names: bytes) -> None:
    """Removes headers. With a length or an encoding it also removes the body, which would be the next request."""
    message.headers = [line for line in message.headers if line.split(b":")[0].lower() not in names]
    if b"content-length" in names:
        message.framed = message.content = b""
