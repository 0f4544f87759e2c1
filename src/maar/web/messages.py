"""Messages between `maar run` and its HTTP process (`maar.web.front`), over one socket pair.

The HTTP process imports this module, so it imports little. A frame is the length of a message in four bytes, then the
message in MessagePack. A lost connection means that the other process has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

LENGTH = 4
LONGEST = 256 * 1024 * 1024
"""Maximum bytes of a message. A larger one means that a process is broken."""

Whole = Annotated[int, Meta(ge=1, le=2**53)]
Seconds = Annotated[float, Meta(gt=0, le=1e8)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Speeds = Annotated[dict[Count, Annotated[float, Meta(gt=0, le=1e15)]], Meta(min_length=1, max_length=64)]
Word = Annotated[str, Meta(max_length=253, pattern=r"^[\w./:@+ -]*\Z")]


class Message(msgspec.Struct, frozen=True, tag=True):
    """One message."""


# -- from the scheduler


class Health(Message, frozen=True):
    """The state of the scheduler, sent every second; empty texts mean that all is well."""

    healthy: str
    ready: str


class Page(Message, frozen=True):
    """The metrics."""

    body: bytes
    good_for: float
    """Seconds for which they may be served again."""


class Reviewed(Message, frozen=True):
    """The response to `Review`."""

    id: int
    user: str
    """The user name of the token; empty if the API server does not accept the token."""
    problem: str = ""
    """Why the API server could not be asked."""


class Taken(Message, frozen=True):
    """The response to `MeasurementBatch`: for each of its posts, why it is refused; empty if it is accepted."""

    problems: list[str]


class Stored(Message, frozen=True):
    """The response to `ReadMeasurements`: measurements as a JSON array."""

    id: int
    rows: bytes
    problem: str = ""


FromScheduler = Health | Page | Reviewed | Taken | Stored


# -- from the HTTP process


class WantPage(Message, frozen=True):
    """Asks for `Page`."""


class Review(Message, frozen=True):
    """Asks whose token this is."""

    id: int
    token: str
    audience: str
    """Empty: the audience of the API server."""


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One epoch as a training job reports it. The fields are those of `maar.history.records.Measurement`."""

    epoch: Annotated[int, Meta(ge=0, le=2**53)]
    seconds: Seconds
    workers: Count
    total_epochs: Whole | None = None
    local_batch_size: Whole | None = None
    global_batch_size: Whole | None = None
    step_seconds: Seconds | None = None
    nodes: Count | None = None
    noise_scale: Annotated[float, Meta(ge=0, le=1e15)] | None = None
    goodput: Speeds | None = None
    """Progress per second by number of workers, in any unit."""
    started: Annotated[float, Meta(ge=0, le=1e11)] = 0.0
    workers_at_start: Count | None = None
    resized: bool = False
    category: Word = ""
    accelerator: Word = ""

    def __post_init__(self) -> None:
        if self.nodes is not None and self.nodes > self.workers:
            raise ValueError(f"Expected at most as many `nodes` as `workers` ({self.workers}), got {self.nodes}")


class Post(msgspec.Struct, frozen=True):
    """The measurements of one request."""

    namespace: str
    name: str
    reports: list[Report]


class MeasurementBatch(Message, frozen=True):
    """The measurements of several requests."""

    posts: list[Post]


class ReadMeasurements(Message, frozen=True):
    """Asks for the stored measurements of a job."""

    id: int
    namespace: str
    name: str


class Alive(Message, frozen=True):
    """A sign of life, sent every second: open connections, and the responses since the last one by status code."""

    connections: int
    responses: dict[int, int]


class LogLine(Message, frozen=True):
    """A line for the log."""

    level: int
    text: str


FromFront = WantPage | Review | MeasurementBatch | ReadMeasurements | Alive | LogLine

T = TypeVar("T")


class Channel(asyncio.Protocol, Generic[T]):
    """One end of the socket pair. `T` is the union of the messages that arrive."""

    def __init__(self, arriving: type[T], on_message: Callable[[T], None], on_lost: Callable[[], None]) -> None:
        self._decoder = msgspec.msgpack.Decoder(arriving)
        self._encoder = msgspec.msgpack.Encoder()
        self._on_message = on_message
        self._on_lost = on_lost
        self._arrived = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        arrived = self._arrived
        arrived += data
        while len(arrived) >= LENGTH:
            end = LENGTH + int.from_bytes(arrived[:LENGTH], "big")
            if end > LONGEST:
                raise ValueError(f"a message of {end} bytes")
            if len(arrived) < end:
                return
            frame = bytes(memoryview(arrived)[LENGTH:end])
            del arrived[:end]
            self._on_message(self._decoder.decode(frame))

    def send(self, message: Message) -> None:
        """Send a message; it is dropped if the other end is gone."""
        if self._transport is not None and not self._transport.is_closing():
            body = self._encoder.encode(message)
            self._transport.writelines([len(body).to_bytes(LENGTH, "big"), body])

    @property
    def unsent(self) -> int:
        """Bytes that the other end has not read yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
