"""Answers are read the same in whatever pieces their bytes come, and what is no answer is told from one."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.kube.client.http_answer import LONGEST_HEAD, LONGEST_LINE, Answer, Garbled, reading


def read(pieces: Iterable[bytes], bodiless: bool = False) -> Answer | str:
    """What is made of bytes, after which the connection ends."""
    answer = reading(bodiless)
    next(answer)
    try:
        for piece in (*pieces, b""):
            answer.send(piece)
    except StopIteration as whole:
        made: Answer = whole.value
        return made
    except Garbled:
        return "garbled"
    raise AssertionError("still waiting after the end")


def waits(pieces: Iterable[bytes]) -> bool:
    """Whether more is needed."""
    answer = reading()
    next(answer)
    try:
        for piece in pieces:
            answer.send(piece)
    except StopIteration:
        return False
    return True


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """In pieces, none of them empty."""
    at = sorted({0, len(data), *(place % (len(data) or 1) for place in places)})
    return [data[begin:end] for begin, end in pairwise(at)]


PLACES = st.lists(st.integers(min_value=0), max_size=8)
OTHERS = st.sampled_from([b"Audit-Id: 1-2", b"date: Sun, 18 Oct 2026 10:00:00 GMT", b"X-Content-Length: 9", b"Empty:"])
CASES = st.sampled_from([bytes.lower, bytes.upper, bytes.title])


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, Answer]:
    """Any answer, and what is to be read of it."""
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
            b"%x%s\r\n%s\r\n" % (len(chunk), draw(st.sampled_from([b"", b";a=b", b" "])), chunk)
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
    expected = Answer(status, b"" if empty else body, float(after or 0), last)
    return b"".join(early) + head + (b"" if empty else sent), expected


@given(answers(), PLACES)
def test_safety_an_answer_is_the_same_in_any_pieces(answer: tuple[bytes, Answer], places: list[int]) -> None:
    data, expected = answer
    assert expected == read([data])
    assert expected == read(cut(data, places))
    assert expected == read([data[i : i + 1] for i in range(len(data))])


@given(answers(), st.integers(min_value=0))
def test_safety_a_part_of_an_answer_is_none(answer: tuple[bytes, Answer], place: int) -> None:
    data, expected = answer
    part = data[: place % len(data)]
    assert waits([part] if part else [])
    if b"\r\n\r\n" not in part or not expected.last:
        assert "garbled" == read([part] if part else [])


@given(answers(), st.lists(st.tuples(st.integers(min_value=0), st.binary(max_size=4)), max_size=3), PLACES)
def test_safety_whatever_comes_is_read_the_same_in_any_pieces(
    answer: tuple[bytes, Answer], changes: list[tuple[int, bytes]], places: list[int]
) -> None:
    data, _ = answer
    for place, change in changes:
        at = place % (len(data) + 1)
        data = data[:at] + change + data[at + len(change) // 2 :]
    # Bytes beyond an answer may come after it, when nobody listens.
    whole, parts = (
        made[:3] if isinstance(made := read(each), Answer) else made for each in ([data], cut(data, places))
    )
    assert whole == parts


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
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * (LONGEST_LINE + 2),
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * LONGEST_HEAD,
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * LONGEST_HEAD + b"\r\n\r\n",
    ],
)
def test_what_is_no_answer_is_not_waited_for(data: bytes) -> None:
    with pytest.raises(Garbled):
        waits([data])
    assert "garbled" == read(cut(data, range(0, len(data), 997)))


def test_a_head_may_be_long() -> None:
    begin = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: "
    head = begin + b"b" * (LONGEST_HEAD - len(begin))
    assert Answer(200, b"{}", 0.0, False) == read([head + b"\r\n\r\n{}"])


def test_an_answer_to_a_head_has_no_body() -> None:
    assert Answer(200, b"", 0.0, False) == read([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"], bodiless=True)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\n{}", Answer(200, b"{}", 0.0, False)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 408", Answer(200, b"{}", 0.0, True)),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            Answer(200, b"{}", 0.0, True),
        ),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n Content-Length: 1\r\n\r\n{}", Answer(200, b"{}", 0.0, True)),
        (b"HTTP/1.1 429\r\nContent-Length: 0\r\nRetry-After: Sun, 18 Oct 2026\r\n\r\n", Answer(429, b"", 0.0, False)),
        (b"HTTP/1.1 200\r\nContent-Length: 0\r\nConnection: Upgrade, Close\r\n\r\n", Answer(200, b"", 0.0, True)),
    ],
)
def test_an_answer_that_is_written_in_another_way(data: bytes, expected: Answer) -> None:
    assert expected == read([data])
