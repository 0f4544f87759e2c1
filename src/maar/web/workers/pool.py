"""The workers of one `maar web`: each answers one question at a time, and is kept for the next one.

A worker ends with its question when the wait for the answer is given up, when it needs too much memory, and when it
takes too long. An idle one ends after a while, so its memory is returned.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import Iterator
from typing import Any

from maar.model.plan import Plan
from maar.web.api.errors import Refused
from maar.web.forecasting.messages import Parts
from maar.web.limited import started
from maar.web.workers.tasks import WorkerTask
from maar.web.workers.work import LENGTH, Reply
from maar.whatif.edit import Scene

MEMORY = 512 << 20
"""Bytes of address space of a worker. The largest question takes 213 MB with 50,000 pods and 5,000 nodes, of which 150
MB are the interpreter and its libraries; 1 MB of YAML takes 170 MB."""
KEPT = 256 << 20
"""A worker that had more bytes in memory than this ends with its question. Tuned by hand."""
SECONDS = 120.0
"""The longest time for one question."""
IDLE = 60.0
"""Seconds after which an idle worker ends."""
LARGEST = 64 << 20
"""Bytes of an answer."""
TOO_MUCH = "the question needs too much memory"
TOO_LONG = "the question takes too long"
Known = tuple[float | None, Plan | None]
"""A time and the plan of that time, where they are known, so that a worker does not decide again."""
UNKNOWN: Known = (None, None)
OUT_OF_MEMORY = (-6, -9, -11)
"""Exit codes of a process that the system has ended, or whose libraries ended it, without memory."""


class Bug(Exception):
    """A worker failed in a way that nobody expected."""


class Worker:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.scene: Scene | None = None
        """What it knows."""
        self.timer: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    async def ask(self, task: WorkerTask, scene: Scene | None, known: Known) -> Reply:
        process, changes = self.process, scene is not None and scene is not self.scene
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):  # it has ended: that is seen below
            for part in _parts(task, scene if changes else None, known):
                process.stdin.write(part)
                await process.stdin.drain()
                await asyncio.sleep(0)
        if changes:
            self.scene = scene
        try:
            length = int.from_bytes(await process.stdout.readexactly(LENGTH), "big")
            if length > LARGEST:
                raise Refused(422, TOO_MUCH)
            data = await process.stdout.readexactly(length)
        except asyncio.IncompleteReadError:
            code = await process.wait()
            if code in OUT_OF_MEMORY:
                return Reply(memory=True)
            raise Bug(f"exit code {code}") from None
        reply: Reply = pickle.loads(data)  # noqa: S301 from our own process
        return reply

    async def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


class WorkerPool:
    """Workers. How many work at once, and for whom, the caller decides (`maar.web.api.limits`)."""

    def __init__(self, memory: int = MEMORY, seconds: float = SECONDS, idle: float = IDLE) -> None:
        self._memory = memory
        self.seconds = seconds
        """The longest time for one question."""
        self._idle = idle
        self._resting: list[Worker] = []
        self.working: set[Worker] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def ask(self, task: WorkerTask, scene: Scene | None = None, known: Known = UNKNOWN) -> tuple[Any, float]:
        """The answer, and the CPU seconds that it took; raises `Refused` or `Bug`. `known` is about the scene."""
        worker = self._rested(scene) or await self._started()
        self.working.add(worker)
        reply = Reply()
        try:
            async with asyncio.timeout(self.seconds):
                reply = await worker.ask(task, scene, known)
        except TimeoutError:
            raise Refused(422, TOO_LONG) from None
        except RecursionError:  # it cannot even be sent
            raise Refused(422, "lists and objects are nested too deeply") from None
        finally:
            self.working.discard(worker)
            if reply.peak and not reply.memory and reply.peak <= KEPT:
                self._rest(worker)
            else:
                self._end(worker)
        if reply.memory:
            raise Refused(422, TOO_MUCH)
        if reply.refused is not None:
            status, error, field = reply.refused
            raise Refused(status, error, field)
        if reply.bug:
            raise Bug(reply.bug)
        return reply.answer, reply.cpu

    async def close(self) -> None:
        for worker in (*self._resting, *self.working):
            self._end(worker)
        self._resting.clear()
        await asyncio.gather(*self._ending)

    def _rested(self, scene: Scene | None) -> Worker | None:
        """A worker that has nothing to do: one that knows the scene, if there is one."""
        self._resting = [worker for worker in self._resting if worker.process.returncode is None]
        found = next((w for w in self._resting if w.scene is scene), self._resting[-1] if self._resting else None)
        if found is not None:
            self._resting.remove(found)
            if found.timer is not None:
                found.timer.cancel()
        return found

    def _rest(self, worker: Worker) -> None:
        worker.timer = asyncio.get_running_loop().call_later(self._idle, self._retire, worker)
        self._resting.append(worker)

    def _retire(self, worker: Worker) -> None:
        if worker in self._resting:
            self._resting.remove(worker)
            self._end(worker)

    def _end(self, worker: Worker) -> None:
        """End a worker at once. The process is reaped in a task of its own: its question may be cancelled just now."""
        task = asyncio.create_task(worker.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _started(self) -> Worker:
        try:
            process = await started("maar.web.workers", self._memory)
        except OSError as error:
            raise Bug(f"cannot start: {error.strerror}") from None
        return Worker(process)


def _parts(task: WorkerTask, scene: Scene | None, known: Known) -> Iterator[bytes]:
    """A question as bytes, each part within milliseconds."""
    parts = Parts()
    yield parts.part((task, scene is not None))
    if scene is not None:
        yield from parts.scene(scene)
        yield from parts.plan(*known)
