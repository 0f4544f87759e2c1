"""Carries out decisions in the background; no cycle waits for it.

Many writes are in flight at once, up to a bound. There are two lanes. Binds, evictions, resizes and all that decisions
or later leaders depend on have one. What people read (statuses, notes) has the other, with slots of its own, fewer, in
which the namespaces take turns: however many statuses wait, and however slow they are, no bind waits for them.

Writes to the same object are sent one after the other, in the order of submission, except that a write of the first
lane overtakes statuses of its object that are not in flight. It supersedes those that it makes pointless: a bind, the
condition that says why its pod waits. An attempt that can be repeated is repeated, with growing delays during which
other writes are sent. A dangerous write (`guarded`) is announced first, when all earlier writes to its object have
ended. An eviction that is refused because its pod has another version is announced again as decided, with all evictions
of its gang, and then sent by uid alone, until the pod is gone or going. Every other outcome goes to the submitter,
which corrects the cache. The executor decides nothing, and sends nothing once the lease is lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from maar.kube.client.api import Api
from maar.kube.client.backoff import cancel, happens, jittered
from maar.kube.client.errors import ApiError, Conflict, NotLeading
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.pods import Pod
from maar.kube.write.guarded import (
    Bind,
    Delete,
    Evict,
    Guarded,
    Moved,
    PodWrite,
    Unanswered,
    Verdict,
    evict_by_uid,
    send,
    settle,
)
from maar.kube.write.intents import Gate, Unfenced
from maar.kube.write.lines import SUPERSEDED, Callback, Entry, Lane, Lines, parts_of, supersedes, victims_of
from maar.kube.write.outcomes import Again, Done, Failed, Outcome
from maar.kube.write.patience import OFTEN, Patience
from maar.kube.write.turns import tenant_of
from maar.kube.write.versions import Versions
from maar.kube.write.work import Create, Patch, Work, attempt

__all__ = [
    "OFTEN",
    "Bind",
    "Create",
    "Delete",
    "Done",
    "Evict",
    "Executor",
    "Failed",
    "Lane",
    "Outcome",
    "Patch",
    "Patience",
    "Work",
]

log = logging.getLogger(__name__)

FEW = 2
"""Statuses in flight while a write of the first lane has not been sent: they go on, but leave the server to it."""


@dataclass(slots=True)
class WriteCounts:
    """What an executor has done so far."""

    done: int = 0
    failed: int = 0
    retries: int = 0
    superseded: int = 0


class Executor:
    """Writes to one API server. Create and use it inside the event loop; `submit` never waits."""

    def __init__(
        self,
        api: Api,
        *,
        in_flight: int = 64,
        statuses: int | None = None,
        gate: Gate | None = None,
        watched: Callable[[str], Pod | None] = lambda key: None,
        patience: Patience = Patience(),  # noqa: B008
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`in_flight`: slots of the first lane. `statuses`: those of the other one; if missing, a quarter as many."""
        self.counts = WriteCounts()
        self.pending = 0
        """Writes that are submitted and not finished."""
        self._urgent = 0
        """The unfinished writes of the first lane."""
        self._unsent = 0
        """The writes of the first lane that have not been sent once."""
        self._gate: Gate = gate or Unfenced()
        self._api = api.while_not(lambda: self._gate.lost)
        self._versions = Versions(watched)
        self._slots = {Lane.FIRST: in_flight, Lane.STATUS: max(in_flight // 4, 1) if statuses is None else statuses}
        self._patience = patience
        self._dice = random.Random(seed)
        self._clock = clock
        self._lines = Lines()
        self._workers: dict[Lane, set[asyncio.Task[None]]] = {lane: set() for lane in Lane}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._gangs: dict[str, dict[int, Entry]] = {}
        """The evictions of each gang that have not ended."""
        self._room = asyncio.Event()
        self._all_sent = asyncio.Event()
        self._ended_one = asyncio.Event()
        self._draining = False
        self._stopped = False
        self._closed = False
        self.on_failed: list[Callable[[BaseException], None]] = []
        """Called if a worker ends because of an unexpected error: some writes may never be sent."""
        self.on_sent: list[Callable[[Work, float], None]] = []
        """Called for each dangerous write, with the seconds from its decision to its first request."""

    def submit(
        self,
        work: Work,
        done: Callback = lambda work, outcome: None,
        lane: Lane = Lane.FIRST,
        since: float | None = None,
    ) -> None:
        """Start a write; `done` is called in the event loop with its outcome. `since`: when it was decided."""
        if self._closed:
            raise RuntimeError("the executor is closed")
        if self._stopped:  # the lease is lost, and the loop has not noticed yet
            return
        self.pending += 1
        self._urgent += lane is Lane.FIRST
        self._unsent += lane is Lane.FIRST
        entry = Entry(work, done, lane, self._clock() if since is None else since)
        if isinstance(work, Evict) and work.gang:
            self._gangs.setdefault(work.gang, {})[id(entry)] = entry
        overtaken = self._lines.take_statuses(work.key) if lane is Lane.FIRST else []
        if self._lines.join(entry):
            self._cancel_timer(work.key)
            self._begin(work.key)
        self._after(entry, overtaken)

    def _after(self, entry: Entry, overtaken: list[Entry]) -> None:
        """Put statuses behind the write that has overtaken them, without those that it supersedes."""
        for status in overtaken:
            if supersedes(entry.work, status.work):
                self._drop(status)
            elif self._lines.join(status):
                self._begin(status.work.key)

    def _drop(self, entry: Entry) -> None:
        self.pending -= 1
        self.counts.superseded += 1
        why = Conflict("not sent: a later write makes it pointless", path=entry.work.key, reason=SUPERSEDED)
        self._tell(entry, Failed(why))

    @property
    def ended(self) -> bool:
        """Whether nothing is sent any more."""
        return self._stopped

    def withdraw_bind(self, pod: str, why: ApiError) -> None:
        """Fail the bind of a pod before its next request: unless it has been sent, and is accepted or not settled."""
        for entry in self._lines.entries.get(pod, ()):
            if isinstance(entry.work, Bind):
                entry.withdrawn = why

    def may_have_written(self, pod: Pod) -> bool:
        """Whether a version of a pod that a watch shows may be the result of a write of this executor."""
        path = PODS.path(pod.namespace, pod.name)
        return path in self._lines.entries or self._versions.covers(path, pod)

    def binding_to(self) -> set[str]:
        """The nodes of binds that are not settled."""
        lines = self._lines.entries.values()
        return {entry.work.node for line in lines for entry in line if isinstance(entry.work, Bind)}

    def unsettled(self) -> frozenset[str]:
        """The paths of all objects with a dangerous write that is not settled."""
        lines = self._lines.entries.items()
        return frozenset(key for key, line in lines if any(isinstance(entry.work, Guarded) for entry in line))

    def stop(self) -> None:
        """Send nothing from now on, and drop what is submitted; requests in flight are left alone."""
        self._stopped = True

    async def drain(self, timeout: float | None = None) -> bool:
        """Start no more statuses, and wait until nothing else is pending or in flight; false after the timeout."""
        self._draining = True
        return await self._have_ended(lambda: not self._urgent and not self._lines.sending, timeout)

    async def all_answered(self, patience: float) -> None:
        """Wait until nothing of the first lane is pending, at most this many seconds."""
        await self._have_ended(lambda: not self._urgent, patience)

    async def _have_ended(self, all_of_them: Callable[[], bool], timeout: float | None) -> bool:
        try:
            async with asyncio.timeout(timeout):
                while not all_of_them():
                    self._ended_one.clear()
                    await self._ended_one.wait()
            return True
        except TimeoutError:
            return False

    async def has_room(self, patience: float) -> None:
        """Wait until all that is pending in the first lane can be in flight at once, at most this many seconds."""
        if self._urgent > self._slots[Lane.FIRST]:
            self._room.clear()
            await happens(self._room, patience)

    async def all_sent(self, patience: float) -> None:
        """Wait until all of the first lane have been sent once, at most this many seconds."""
        if self._unsent:
            self._all_sent.clear()
            await happens(self._all_sent, patience)

    async def close(self) -> None:
        """Stop at once: pending writes are dropped without a callback. Call `drain` first to finish them."""
        self.stop()
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        await cancel(worker for lane in Lane for worker in self._workers[lane])

    def _begin(self, key: str) -> None:
        """The next step of the first entry of a key: a dangerous write is announced first."""
        entry = self._lines.entries[key][0]
        if isinstance(entry.work, Guarded) and not entry.unanswered and not entry.decided:
            self._gate.announce(key, partial(self._fix, entry), partial(self._ready, key))
        else:
            self._ready(key)

    def _fix(self, entry: Entry) -> None:
        """Determine the version that a write is for: the newest one that is as the decision saw it."""
        if entry.base is None:
            assert isinstance(entry.work, Guarded)
            entry.base = entry.work.base
        if isinstance(entry.work, PodWrite):
            entry.base = self._versions.newest(entry.work.key, entry.base)

    def _ready(self, key: str) -> None:
        lane = self._lines.entries[key][0].lane
        if lane is Lane.FIRST:
            self._lines.ready.append(key)
        else:
            self._lines.statuses.put(tenant_of(key), key)
        self._start(lane)

    def _start(self, lane: Lane) -> None:
        workers = self._workers[lane]
        free = self._slots_now(lane) - len(workers)
        for _ in range(min(free, self._lines.ready_in(lane))):
            worker = asyncio.get_running_loop().create_task(self._work(lane))
            workers.add(worker)
            worker.add_done_callback(self._ended)

    def _slots_now(self, lane: Lane) -> int:
        """How many writes of a lane may be in flight now. Few statuses, while a bind is not sent: it goes first."""
        if self._stopped or (self._draining and lane is Lane.STATUS):
            return 0
        return min(self._slots[lane], FEW) if self._unsent and lane is Lane.STATUS else self._slots[lane]

    def _ended(self, worker: asyncio.Task[None]) -> None:
        if not worker.cancelled() and (error := worker.exception()) is not None:
            for listener in self.on_failed:
                listener(error)

    async def _work(self, lane: Lane) -> None:
        try:
            while self._lines.ready_in(lane) and len(self._workers[lane]) <= self._slots_now(lane):
                key = self._lines.next_in(lane)
                entry = self._lines.entries[key][0]
                self._lines.sending.add(key)
                try:
                    await self._step(key)
                finally:
                    self._lines.sending.discard(key)
                    self._ended_one.set()
                self._sending(entry)
                if isinstance(entry.work, Guarded) and entry.attempts == 1 and entry.sent is not None:
                    for listener in self.on_sent:
                        listener(entry.work, entry.sent - entry.since)
                self._let_pass(key)
        except NotLeading as error:
            if not self._stopped:
                log.warning("%d writes are dropped: %s", self.pending, error)
            self.stop()
        finally:
            # Here, not when the task is done: a submit in between must see that a worker may start.
            current = asyncio.current_task()
            assert current is not None
            self._workers[lane].discard(current)

    def _let_pass(self, key: str) -> None:
        """A status that was in flight and is to be repeated does so after writes of the first lane."""
        line = self._lines.entries.get(key, deque())
        urgent = next((entry for entry in line if entry.lane is Lane.FIRST), None)
        if key in self._timers and urgent is not None and line[0].lane is Lane.STATUS:
            overtaken = self._lines.take_statuses(key)
            self._cancel_timer(key)
            self._begin(key)
            self._after(urgent, overtaken)

    def _cancel_timer(self, key: str) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    async def _step(self, key: str) -> None:
        entry = self._lines.entries[key][0]
        if entry.withdrawn is not None and not entry.unanswered:
            self._finish(key, entry, Failed(entry.withdrawn))
            return
        if not entry.attempts:
            entry.begun = self._clock()
        by_uid, settling = entry.decided, entry.unanswered
        outcome = await self._once(entry)
        entry.attempts += 1
        entry.unanswered = isinstance(outcome, Unanswered) and not by_uid
        if isinstance(outcome, Moved) and isinstance(entry.work, Evict) and not settling:
            self._decide(key, entry)
            return
        if by_uid and isinstance(outcome, Again | Unanswered):
            outcome = self._patience.insist(entry, outcome, self._clock())
        elif isinstance(outcome, Moved):
            outcome = self._patience.moved(entry, outcome, settling, self._clock())
        elif isinstance(outcome, Again):
            outcome = self._patience.again(entry, outcome, self._clock())
        elif isinstance(outcome, Unanswered) and settling:
            outcome = self._patience.unsettled(entry, outcome, self._clock())
        match outcome:
            case Done() | Failed():
                self._finish(key, entry, outcome)
            case Moved(base):
                entry.base = base
                self._begin(key)
            case _:
                self._timers[key] = asyncio.get_running_loop().call_later(
                    self._wait(entry, outcome.error), self._wake, key
                )

    async def _once(self, entry: Entry) -> Verdict | Unanswered:
        work = entry.work
        try:
            if not isinstance(work, Guarded):
                return await attempt(self._api.noting(partial(self._sending, entry)), work, entry.attempts)
            if entry.decided:
                assert isinstance(work, Evict)
                return await evict_by_uid(self._api, work.victim)
            if entry.unanswered:
                return await settle(self._api, work, entry.base, self._gate.epoch)
            return await send(self._api.noting(partial(self._sending, entry)), work, entry.base)
        except NotLeading:
            raise
        except Exception as error:
            # A bug of ours: it must not affect the next write, and this one is repeated with a delay.
            log.exception("%s failed", work)
            unknown = ApiError(f"{type(error).__name__}: {error}")
            return Unanswered(unknown) if isinstance(work, Guarded) else Again(unknown)

    def _sending(self, entry: Entry) -> None:
        """The first request of a write is about to be written, or it ends without one."""
        if entry.sent is None:
            entry.sent = self._clock()
            self._unsent -= entry.lane is Lane.FIRST
            if not self._unsent:
                self._all_sent.set()
                self._start(Lane.STATUS)

    def _decide(self, key: str, entry: Entry) -> None:
        """The pod of an eviction has another version: go on by uid alone, once its whole gang is announced so."""
        assert isinstance(entry.work, Evict)
        if entry.decided:  # meanwhile, with another pod of its gang
            self._ready(key)
            return
        entry.parked = True
        if entry.deciding:
            return
        gang = self._gangs.get(entry.work.gang, {id(entry): entry}).values()
        for part in parts_of([other for other in gang if not other.deciding and not other.decided]):
            for other in part:
                other.deciding = True
            self._gate.decide(partial(victims_of, part), partial(self._decided, part))

    def _decided(self, entries: list[Entry]) -> None:
        """These evictions are announced as decided."""
        for entry in entries:
            entry.deciding, entry.decided = False, True
            if entry.parked and not entry.ended:
                entry.parked = False
                self._ready(entry.work.key)

    def _wait(self, entry: Entry, error: ApiError) -> float:
        self.counts.retries += 1
        log.debug("%s is tried again: %s", entry.work, error)
        wait = jittered(self._patience.first, self._patience.most, entry.attempts - 1, self._dice)
        return max(wait, error.retry_after)

    def _wake(self, key: str) -> None:
        del self._timers[key]
        self._ready(key)

    def _finish(self, key: str, entry: Entry, outcome: Outcome) -> None:
        if isinstance(entry.work, Guarded):
            if not isinstance(outcome, Failed) or outcome.final:  # otherwise a successor must fence it
                self._gate.settled(key)
        elif isinstance(outcome, Done):
            self._versions.answered(key, outcome.body)
        entry.ended = True
        if isinstance(entry.work, Evict) and entry.work.gang:
            gang = self._gangs[entry.work.gang]
            del gang[id(entry)]
            if not gang:
                del self._gangs[entry.work.gang]
        self.pending -= 1
        self._urgent -= entry.lane is Lane.FIRST
        if isinstance(outcome, Failed):
            self.counts.failed += 1
            log.warning("%s failed: %s", entry.work, outcome.error)
        else:
            self.counts.done += 1
        self._tell(entry, outcome)
        if self._lines.leave(key):
            self._begin(key)
        if self._urgent <= self._slots[Lane.FIRST]:
            self._room.set()

    def _tell(self, entry: Entry, outcome: Outcome) -> None:
        try:
            entry.done(entry.work, outcome)
        except Exception:
            log.exception("the callback of %s failed", entry.work)
