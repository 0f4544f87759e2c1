"""Recordings: the input and the plan of each cycle, in a compact file that `maar plan` can replay.

A file is a magic line, then frames: a length, then a compressed message. The first frame, and every frame after the
tables were rebuilt, holds the whole cluster; the others hold only the changed jobs. Each frame has the time, the plan,
and the configuration if it changed. Deciding a frame again gives the same plan, byte for byte.
"""

from __future__ import annotations

import contextlib
import logging
import struct
import zlib
from collections.abc import Iterator
from os import SEEK_END
from pathlib import Path
from typing import IO

import msgspec

from maar.files import check_regular
from maar.model.facts import Lost, from_before
from maar.model.jobs import Job
from maar.model.plan import Plan
from maar.model.snapshot import Cluster
from maar.model.tasks import Task
from maar.shards.shard import Standing

logger = logging.getLogger("maar.record")

MAGIC = b"maar recording 1\n"
_LENGTH = struct.Struct(">I")
PAUSE = 30.0
"""Seconds after which a recording that could not be written continues; tuned by hand."""


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """One cycle."""

    now: float
    plan: Plan
    cluster: Cluster | None = None
    """The whole cluster; `None` if only some jobs changed."""
    around: Cluster | None = msgspec.field(default=None, name="rest")
    """The cluster without jobs and tasks."""
    changed: dict[str, tuple[Job, tuple[Task, ...]] | None] = {}
    resting: tuple[str, ...] = ()
    """Jobs that the cycle skipped."""
    config: str | None = None
    """The text of the configuration; `None` if it is the same as in the frame before."""
    standing: Standing | None = None
    """What one of several shards knew besides the cluster."""


class RecordedCycle(msgspec.Struct, frozen=True):
    """One cycle with its whole cluster."""

    now: float
    cluster: Cluster
    resting: tuple[str, ...]
    plan: Plan
    config: str | None
    standing: Standing | None = None


class RecordingError(Exception):
    """The file is not a recording, or is damaged."""


class Recorder:
    """Writes a recording. If a write fails, decisions go on, and the recording continues later where it was cut off."""

    def __init__(self, path: Path) -> None:
        self.restarts = 0
        """How often the recording continued after a failure."""
        self._path = path
        self._problem = ""
        self._again = 0.0
        """When to continue after a failure."""
        self._encoder = msgspec.msgpack.Encoder()
        self._begin()

    def _begin(self) -> None:
        if self._path.exists():
            check_regular(self._path, None)  # a FIFO would wait for a reader
        self._file: IO[bytes] | None = self._path.open("wb", buffering=0)
        _write_all(self._file, MAGIC)
        self._ends = len(MAGIC)
        """The end of the last frame that was written."""
        self._config: str | None = None

    def needs_all(self, now: float) -> bool:
        """Whether the next frame must have the whole cluster: frames were lost, and the recording continues."""
        return self._file is None and now >= self._again

    def write(self, frame: Frame) -> None:
        """Add a cycle; its configuration is left out if it is the same as before. Never raises."""
        if self._file is None and (frame.cluster is None or frame.now < self._again):
            return
        try:
            self._open()
            self._write(frame)
        except Exception as error:  # noqa: BLE001 a full disk, mostly
            why = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
            if why != self._problem:
                logger.error("recording stopped, decisions continue: %s: %s", self._path, why)
            self._problem, self._again = why, frame.now + PAUSE
            self.close()
        else:
            if self._problem:
                self._problem = ""
                self.restarts += 1
                logger.info("recording continues: %s", self._path)

    def _write(self, frame: Frame) -> None:
        assert self._file is not None
        short = msgspec.structs.replace(frame, config=frame.config if frame.config != self._config else None)
        data = zlib.compress(self._encoder.encode(short), 6)
        _write_all(self._file, _LENGTH.pack(len(data)) + data)
        self._config = frame.config
        self._ends += _LENGTH.size + len(data)

    def _open(self) -> None:
        """Continue after the last whole frame, or in a new file if someone has removed it."""
        if self._file is not None:
            return
        if self._path.exists():
            check_regular(self._path, None)
            self._file = self._path.open("r+b", buffering=0)
            self._file.truncate(self._ends)
            self._file.seek(self._ends)
        else:
            self._begin()

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):
                file.close()


def _write_all(file: IO[bytes], data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def is_recording(path: Path) -> bool:
    """Whether a file starts like a recording."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def length(path: Path) -> int:
    """The number of cycles in a recording, without decoding them."""
    with path.open("rb") as file:
        ends = file.seek(0, SEEK_END)
        place, count = len(MAGIC), 0
        while place + _LENGTH.size <= ends:
            file.seek(place)
            place += _LENGTH.size + int(_LENGTH.unpack(file.read(_LENGTH.size))[0])
            count += place <= ends
    return count


def read_recording(path: Path) -> Iterator[RecordedCycle]:
    """All cycles of a recording, each with its whole cluster. A truncated last frame is left out."""
    decoder = msgspec.msgpack.Decoder(Frame)
    jobs: dict[str, tuple[Job, tuple[Task, ...]]] = {}
    config: str | None = None
    for number, (_, data) in enumerate(frames(path), 1):
        try:
            message = unpacked(data)
            frame = with_facts(decoder.decode(message), message)
            cluster = put_together(frame, jobs)
        except (RecordingError, msgspec.MsgspecError) as error:
            raise RecordingError(f"{path}: cycle {number}: damaged: {error}") from None
        config = frame.config if frame.config is not None else config
        yield RecordedCycle(frame.now, cluster, frame.resting, frame.plan, config, frame.standing)


class Older(msgspec.Struct, frozen=True):
    """What clusters and plans had in recordings of versions before facts."""

    expired: tuple[Lost, ...] = ()
    rounds: dict[str, float] = {}


class OlderFrame(msgspec.Struct, frozen=True):
    """The parts of a frame with such fields."""

    plan: Older = Older()
    cluster: Older | None = None
    rest: Older | None = None


def with_facts(frame: Frame, message: bytes) -> Frame:
    """A frame with what a version before facts remembered, if that version made the message."""
    if b"expired" not in message:
        return frame
    old = msgspec.msgpack.decode(message, type=OlderFrame)
    parts = (
        ("plan", frame.plan, old.plan),
        ("cluster", frame.cluster, old.cluster),
        ("around", frame.around, old.rest),
    )
    made: dict[str, object] = {}
    for name, now, before in parts:
        if now is not None and before is not None:
            facts = (*now.facts, *from_before(before.expired, before.rounds))
            made[name] = msgspec.structs.replace(now, facts=facts)
    return msgspec.structs.replace(frame, **made)


def frames(path: Path, place: int = 0) -> Iterator[tuple[int, bytes]]:
    """The place and the compressed bytes of each frame, from `place` on. A truncated last one is left out."""
    with path.open("rb") as file:
        ends = file.seek(0, SEEK_END)
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            raise RecordingError(f"{path}: not a recording")
        place = max(place, len(MAGIC))
        file.seek(place)
        while len(head := file.read(_LENGTH.size)) == _LENGTH.size:
            size = int(_LENGTH.unpack(head)[0])
            if place + _LENGTH.size + size > ends:  # checked first: a damaged length may ask for gigabytes
                return
            yield place, file.read(size)
            place += _LENGTH.size + size


def after(place: int, data: bytes) -> int:
    """The place of the frame that follows one."""
    return place + _LENGTH.size + len(data)


def unpacked(data: bytes, most: int = 0) -> bytes:
    """The message of a frame; raises `RecordingError` if it is damaged or has more than `most` bytes (0: no limit)."""
    try:
        reader = zlib.decompressobj()
        message = reader.decompress(data, most)
    except zlib.error as error:
        raise RecordingError(str(error)) from None
    if most and reader.unconsumed_tail:
        raise RecordingError(f"it has more than {most} bytes")
    if not reader.eof:
        raise RecordingError("incomplete")
    return message


def put_together(frame: Frame, jobs: dict[str, tuple[Job, tuple[Task, ...]]]) -> Cluster:
    """The whole cluster of a frame. `jobs` has those of the frame before, and then of this one."""
    if frame.cluster is not None:
        jobs.clear()
        tasks: dict[str, list[Task]] = {}
        for task in frame.cluster.tasks:
            tasks.setdefault(task.job, []).append(task)
        jobs.update({job.key: (job, tuple(tasks.get(job.key, ()))) for job in frame.cluster.jobs})
        return frame.cluster
    if frame.around is None:
        raise RecordingError("no cluster")
    for key, changed in frame.changed.items():
        if changed is None:
            jobs.pop(key, None)
        else:
            jobs[key] = changed
    return msgspec.structs.replace(
        frame.around, jobs=tuple(job for job, _ in jobs.values()), tasks=tuple(t for _, ts in jobs.values() for t in ts)
    )
