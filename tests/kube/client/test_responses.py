"""A response is read the same in whatever pieces it arrives; bytes that are not a response are rejected."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.kube.client.connection import LONGEST_HEAD, READ_BUFFER, Connection, Malformed, Response


class Wire(asyncio.Transport):
    """The transport of a connection whose server calls `answer` after each request."""

    def __init__(self, answer: Callable[[], None]) -> None:
        super().__init__()
        self.calls: list[str] = []
        self._answer = answer

    def write(self, data: object) -> None:
        asyncio.get_running_loop().call_soon(self._answer)

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


def read(pieces: Iterable[bytes], ends: bool = True) -> tuple[Response, bool] | str:
    """The response in these bytes and whether its connection can be used again, or `malformed`.

    The server closes the connection at the end; without `ends` it does not, and the result may be `waiting`.
    """
    reusable = False

    async def main() -> tuple[Response, bool]:
        connection = Connection("http://server", set())

        def answer() -> None:
            nonlocal reusable
            for piece in pieces:
                connection.data_received(piece)
            reusable = connection.usable
            if ends:
                connection.eof_received()
            connection.connection_lost(None if ends else TimeoutError())

        connection.connection_made(Wire(answer))
        await connection.ask(b"request")
        return connection.take(), reusable

    try:
        return asyncio.run(main())
    except Malformed:
        return "malformed"
    except TimeoutError:
        return "waiting"


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The data in nonempty pieces."""
    at = sorted({0, len(data), *(place % (len(data) or 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(at)]


PLACES = st.lists(st.integers(min_value=0), max_size=8)
OTHERS = st.sampled_from([b"Audit-Id: 1-2", b"date: Sun, 18 Oct 2026 10:00:00 GMT", b"X-Content-Length: 9", b"Empty:"])
CASES = st.sampled_from([bytes.lower, bytes.upper, bytes.title])


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, Response, bool]:
    """The bytes of a response, its content, and whether the connection can be used again."""
    body = draw(st.binary(max_size=300))
    status = draw(st.sampled_from([200, 201, 204, 304, 401, 409, 429, 500]))
    framing = draw(st.sampled_from(["sized", "chunked", "until the end"]))
    version = draw(st.sampled_from([b"HTTP/1.1", b"HTTP/1.0"]))
    close = draw(st.booleans())
    after = draw(st.sampled_from([None, 0, 7]))
    lines = draw(st.lists(OTHERS, max_size=4))
    case = draw(CASES)
    sent = body
    if framing == "sized":
        lines.append(case(b"Content-Length: ") + b"%d" % len(body))
    elif framing == "chunked":
        lines.append(case(b"Transfer-Encoding:") + b"chunked ")
        sent = b"".join(
            b"%x%s\r\n%s\r\n" % (len(chunk), draw(st.sampled_from([b"", b";a=b"])), chunk)
            for chunk in cut(body, draw(PLACES))
        )
        sent += b"000" + b"\r\n" + b"".join(line + b"\r\n" for line in draw(st.lists(OTHERS, max_size=2))) + b"\r\n"
    if close:
        lines.append(case(b"Connection: ") + b"close")
    if after is not None:
        lines.append(case(b"Retry-After: ") + b"%d" % after)
    early = draw(st.lists(st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hints\r\nA: b\r\n\r\n"])))
    reason = draw(st.sampled_from([b"", b" ", b" Too Bad"]))
    empty = status in (204, 304)
    head = b"\r\n".join([version + b" %d" % status + reason, *draw(st.permutations(lines))]) + b"\r\n\r\n"
    last = close or version == b"HTTP/1.0" or (framing == "until the end" and not empty)
    expected = Response(status, b"" if empty else body, float(after or 0))
    return b"".join(early) + head + (b"" if empty else sent), expected, not last


@given(responses(), PLACES)
def test_safety_a_response_is_the_same_in_any_pieces(response: tuple[bytes, Response, bool], places: list[int]) -> None:
    data, *expected = response
    assert tuple(expected) == read([data])
    assert tuple(expected) == read(cut(data, places))
    assert tuple(expected) == read([data[i : i + 1] for i in range(len(data))])


@given(responses(), st.integers(min_value=0))
def test_safety_a_part_of_a_response_is_rejected(response: tuple[bytes, Response, bool], place: int) -> None:
    data, _, reusable = response
    part = data[: 1 + place % (len(data) - 1)]
    assert "waiting" == read([part], ends=False)
    if b"\r\n\r\n" not in part or reusable:
        assert "malformed" == read([part])


@given(responses(), st.lists(st.tuples(st.integers(min_value=0), st.binary(max_size=4)), max_size=3), PLACES)
def test_safety_all_bytes_are_read_the_same_in_any_pieces(
    response: tuple[bytes, Response, bool], changes: list[tuple[int, bytes]], places: list[int]
) -> None:
    data = response[0]
    for place, change in changes:
        at = place % (len(data) + 1)
        data = data[:at] + change + data[at + len(change) // 2 :]
    if data:
        assert read([data]) == read(cut(data, places))


@pytest.mark.parametrize(
    "data",
    [
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1" + b"0" * 40 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 20,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * LONGEST_HEAD,
    ],
)
def test_bytes_that_are_not_a_response_are_rejected_at_once(data: bytes) -> None:
    assert "malformed" == read([data], ends=False)
    assert "malformed" == read(cut(data, range(0, len(data), 997)), ends=False)


def test_a_head_may_be_long() -> None:
    begin = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: "
    head = begin + b"b" * (LONGEST_HEAD - len(begin) - 4)
    assert (Response(200, b"{}", 0.0), True) == read(cut(head + b"\r\n\r\n{}", range(0, LONGEST_HEAD, 997)))


@pytest.mark.parametrize(
    ("data", "expected", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 408", Response(200, b"{}", 0.0), False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}\0", Response(200, b"{}", 0.0), False),
        (b"HTTP/1.1 429\r\nContent-Length: 0\r\nRetry-After: Sun, 18 Oct 2026\r\n\r\n", Response(429, b"", 0.0), True),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: Upgrade, Close\r\n\r\n", Response(200, b"", 0.0), False),
    ],
)
def test_an_unusual_response(data: bytes, expected: Response, reusable: bool) -> None:
    assert (expected, reusable) == read([data])


def test_a_stream_that_is_processed_too_slowly_is_not_read_meanwhile() -> None:
    async def main() -> None:
        connection = Connection("http://server", set())
        wire = Wire(lambda: connection.data_received(b"HTTP/1.1 200 OK\r\n\r\n"))
        connection.connection_made(wire)
        await connection.ask(b"request", streamed=True)
        for times in range(2):
            connection.data_received(b"x" * READ_BUFFER)
            assert ["pause", "resume"] * times == wire.calls
            connection.data_received(b"yz")
            assert ["pause", "resume"] * times + ["pause"] == wire.calls
            assert b"x" * READ_BUFFER + b"yz" == await anext(connection.chunks(None))
            assert ["pause", "resume"] * (times + 1) == wire.calls

    asyncio.run(main())
