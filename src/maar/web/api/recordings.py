"""Recordings of `maar run` that `maar web` opens: listed, read a part at a time, and single cycles put together again.

A recording may be large, damaged, or still being written. Each request reads on for a limited time and keeps only the
cycles that moved something, the newest ones. Nothing here is filtered: `maar.views` does that.
"""

from __future__ import annotations

import contextlib
import stat
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from maar.config.config import Config
from maar.config.file import ConfigError, default_config, read_config
from maar.controller.record import (
    MAGIC,
    Frame,
    RecordingError,
    after,
    frames,
    is_recording,
    put_together,
    unpacked,
    with_facts,
)
from maar.model.jobs import Job
from maar.model.plan import Plan
from maar.model.tasks import Task
from maar.registry import catalog
from maar.views.decisions import ShownCycle, moves_of, short
from maar.views.records import RecordingView
from maar.whatif.edit import Scene

CYCLES = 2000
"""The newest cycles of a recording that are kept."""
MOVES = 100_000
"""Pods and jobs that they move, together."""
OPENED = 3
"""Recordings that are kept open, the last ones that were asked for."""
FILES = 1000
"""Files of the folder that are listed, the newest ones."""
FRAME = 128 * 1024 * 1024
"""Bytes of one cycle, far more than 50,000 pods take. A damaged or hostile file may claim more."""
# All tuned by hand.

More = Callable[[], bool]
"""Whether there is time to read on."""


class _Job(msgspec.Struct):
    key: str


class _Pod(msgspec.Struct, gc=False):
    key: str
    job: str


class _Members(msgspec.Struct):
    jobs: tuple[_Job, ...] = ()
    tasks: tuple[_Pod, ...] = ()


class _Glance(msgspec.Struct):
    """The parts of a frame that a list of cycles needs: the rest is skipped."""

    now: float
    plan: Plan
    cluster: _Members | None = None
    changed: dict[str, tuple[_Job, tuple[_Pod, ...]] | None] = {}
    config: str | None = None


class _Changes(msgspec.Struct):
    """The changed jobs of a frame between a whole one and the wanted one."""

    changed: dict[str, tuple[Job, tuple[Task, ...]] | None] = {}


class Recording:
    """One file, read as far as time has allowed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._glance = msgspec.msgpack.Decoder(_Glance)
        self._begin()

    def _begin(self) -> None:
        self.cycles: deque[ShownCycle] = deque()
        """Cycles that moved something else than the cycle before, the newest last."""
        self.namespaces: frozenset[str] = frozenset()
        self.count = 0
        self.dropped = 0
        self.problem = ""
        self.complete = False
        self._place = 0
        self._moves = 0
        self._head = b""
        self._job_of: dict[str, str] = {}
        self._pods_of: dict[str, tuple[str, ...]] = {}
        self._wholes: list[tuple[int, int]] = []
        """The number and place of each frame with the whole cluster."""
        self._configs: list[tuple[int, str]] = []
        """Each configuration, and the first cycle that used it."""

    def view(self) -> RecordingView:
        """What is known of it."""
        size, modified = 0, 0.0
        with contextlib.suppress(OSError):
            found = self.path.stat()
            size, modified = found.st_size, found.st_mtime
        return RecordingView(
            name=self.path.name,
            bytes=size,
            modified=round(modified, 3),
            cycles=self.count,
            dropped=self.dropped,
            complete=self.complete,
            problem=self.problem,
        )

    def advance(self, more: More) -> None:
        """Read on while there is time. A file that was written again from its beginning is read again."""
        try:
            with self.path.open("rb") as file:
                head = file.read(4096)
        except OSError as error:
            raise RecordingError(error.strerror or "it cannot be read") from None
        if not head.startswith(MAGIC):
            raise RecordingError("not a recording")
        if not head.startswith(self._head):
            self._begin()
        self._head = max(head, self._head, key=len)
        if self.problem:
            return
        try:
            for place, data in frames(self.path, self._place):
                if not more():
                    self.complete = False
                    return
                self._take(place, unpacked(_not_huge(data), FRAME))
                self._place = after(place, data)
        except (RecordingError, msgspec.MsgspecError) as error:
            self.problem = f"cycle {self.count + 1} cannot be read, and nothing after it: {error}"
        except OSError as error:
            raise RecordingError(error.strerror or "it cannot be read") from None
        self.complete = True

    def _take(self, place: int, message: bytes) -> None:
        frame = self._glance.decode(message)
        if frame.cluster is None and not self._wholes:
            raise RecordingError("no cluster")
        number = self.count + 1
        if frame.cluster is not None:
            self._wholes.append((number, place))
            self._job_of.clear()
            self._pods_of.clear()
            members: dict[str, list[str]] = {job.key: [] for job in frame.cluster.jobs}
            for pod in frame.cluster.tasks:
                members.setdefault(pod.job, []).append(pod.key)
            for key, pods in members.items():
                self._put(key, tuple(pods))
        for key, changed in frame.changed.items():
            self._put(key, () if changed is None else tuple(pod.key for pod in changed[1]), gone=changed is None)
        if frame.config is not None:
            self._configs.append((number, frame.config))
        self.count = number
        self._keep(number, frame.now, frame.plan)

    def _put(self, key: str, pods: tuple[str, ...], *, gone: bool = False) -> None:
        """Note the pods of a job."""
        for pod in self._pods_of.pop(key, ()):
            self._job_of.pop(pod, None)
        namespace = key.partition("/")[0]
        if namespace not in self.namespaces:
            self.namespaces |= {namespace}
        if not gone:
            self._pods_of[key] = pods
            self._job_of.update(dict.fromkeys(pods, key))

    def _keep(self, number: int, now: float, plan: Plan) -> None:
        if not (plan.moves or plan.nominate) or (self.cycles and moves_of(plan) == moves_of(self.cycles[-1].plan)):
            return
        plan = short(plan)
        pods = {move.task for moves in (plan.bind, plan.nominate, plan.evict) for move in moves}
        jobs = {pod: self._job_of[pod] for pod in pods if pod in self._job_of}
        self.cycles.append(ShownCycle(number, now, 0.0, plan, jobs, self.namespaces, self.path.name))
        self._moves += _size(plan)
        while len(self.cycles) > CYCLES or (self._moves > MOVES and len(self.cycles) > 1):
            self._moves -= _size(self.cycles.popleft().plan)
            self.dropped += 1

    def whole(self, number: int, more: More) -> tuple[Scene, float]:
        """What a cycle that was read decided on, and when; raises `RecordingError`."""
        if not 1 <= number <= self.count:
            raise RecordingError("no such cycle")
        begin, place = max(whole for whole in self._wholes if whole[0] <= number)
        jobs: dict[str, tuple[Job, tuple[Task, ...]]] = {}
        first_or_last, between = msgspec.msgpack.Decoder(Frame), msgspec.msgpack.Decoder(_Changes)
        try:
            for at, (_, data) in enumerate(frames(self.path, place), begin):
                if not more():
                    raise RecordingError("there is not enough time to put it together: use `maar plan`")
                message = unpacked(_not_huge(data), FRAME)
                if begin < at < number:
                    _change(jobs, between.decode(message).changed)
                    continue
                frame = with_facts(first_or_last.decode(message), message)
                cluster = put_together(frame, jobs)
                if at == number:
                    return Scene(cluster, self._config(number), frame.standing), frame.now
        except msgspec.MsgspecError as error:
            raise RecordingError(str(error)) from None
        except OSError as error:
            raise RecordingError(error.strerror or "it cannot be read") from None
        raise RecordingError("no such cycle")

    def _config(self, number: int) -> Config:
        texts = [text for first, text in self._configs if first <= number]
        if not texts:
            return default_config(catalog())
        try:  # It was in use, perhaps by `maar run --lenient`.
            return read_config(texts[-1], "configuration", catalog(), lenient=True).config
        except ConfigError as error:
            raise RecordingError(f"its configuration cannot be read: {error}") from None


class Recordings:
    """The recordings in a folder. Names come from the folder itself, so no request can lead outside."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._opened: OrderedDict[str, Recording] = OrderedDict()
        self._one = threading.Lock()

    def listed(self) -> list[RecordingView]:
        """All files, the newest first; what is not a recording says so."""
        found = sorted(self._files().items(), key=lambda item: (-item[1].modified, item[0]))
        return [view for _, view in found[:FILES]]

    def _files(self) -> Mapping[str, RecordingView]:
        views: dict[str, RecordingView] = {}
        try:
            paths = [] if self._folder is None else list(self._folder.iterdir())
        except OSError:
            return {}
        for path in paths:
            try:
                about = path.stat()
            except OSError:
                continue
            if not stat.S_ISREG(about.st_mode) or path.name.startswith("."):
                continue
            problem = "" if is_recording(path) else "not a recording"
            known = self._opened.get(path.name)
            view = RecordingView(
                name=path.name, bytes=about.st_size, modified=round(about.st_mtime, 3), problem=problem
            )
            views[path.name] = view if known is None or problem else known.view()
        return views

    def read(self, name: str, seconds: float, wanted: More = lambda: True) -> Recording:
        """A recording, read on for a limited time while it is wanted; raises `RecordingError`, or `KeyError`."""
        with self._one:
            recording = self._opened.get(name)
            if recording is None:
                if self._folder is None or name not in self._files():
                    raise KeyError(name)
                recording = Recording(self._folder / name)
            recording.advance(_until(seconds, wanted))
            self._opened[name] = recording
            self._opened.move_to_end(name)
            while len(self._opened) > OPENED:
                self._opened.popitem(last=False)
            return recording

    def whole(self, name: str, number: int, seconds: float, wanted: More = lambda: True) -> tuple[Scene, float]:
        """A cycle of a recording with its whole cluster; raises as `read` does."""
        recording = self.read(name, seconds, wanted)
        with self._one:
            return recording.whole(number, _until(seconds, wanted))


def _until(seconds: float, wanted: More) -> More:
    ends = time.monotonic() + seconds
    return lambda: wanted() and time.monotonic() < ends


def _not_huge(data: bytes) -> bytes:
    if len(data) > FRAME:
        raise RecordingError(f"it has more than {FRAME} bytes")
    return data


def _size(plan: Plan) -> int:
    moves = (plan.bind, plan.nominate, plan.evict, plan.admit, plan.ungate, plan.resize, plan.suspend, plan.resume)
    return sum(len(each) for each in moves) + len(plan.waiting)


def _change(
    jobs: dict[str, tuple[Job, tuple[Task, ...]]], changed: Mapping[str, tuple[Job, tuple[Task, ...]] | None]
) -> None:
    for key, found in changed.items():
        if found is None:
            jobs.pop(key, None)
        else:
            jobs[key] = found
