"""Leader election: one replica of Maar leads, by a Lease that it renews and a standby takes over.

The rules are those of client-go. A Lease is held for its stated duration after *this process* saw it change, so clocks
need not agree. Every write states the version it is based on, so only one of two writers succeeds. A leader that cannot
renew for `renew_seconds` gives up before a standby may take over after `lease_seconds`.

Two annotations make a change of leaders safe, whatever the clocks say (`intents`): an epoch, which every new leader
raises in the same write that wins the Lease, and the intents of the leader, which its successor reads in that same
version. A third one states its decided evictions (`decided`). A leader holds the Lease only as long as holder and epoch
are its own. If another process led in between, it has lost, even if the Lease is free again. If somebody deletes the
Lease, the epoch goes on from the highest one known, and the intents count as unreadable.

A standby watches the Lease. So it counts from the last renewal, and tries at the moment when the Lease expires or is
released. The watch is only a signal: the Lease itself is always read. Without the right to watch, a standby looks every
`retry_seconds` and takes over that much later.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import InitVar, dataclass, field
from typing import Any

import msgspec

from maar.kube.client.api import Api
from maar.kube.client.backoff import happens
from maar.kube.client.errors import ApiError, Conflict, NotFound, ServerFault
from maar.kube.kinds.status import micro_time_text
from maar.kube.wire.annotations import EPOCH, EVICTIONS, INTENTS, SPARE
from maar.kube.wire.api_resources import LEASES
from maar.kube.write.decided import DecidedVictim, read_victims, write_victims
from maar.kube.write.intents import Draft, Intents, read_paths

log = logging.getLogger(__name__)

RELEASE_SECONDS = 2.0
"""Time limit for releasing the lease at a stop; tuned by hand."""

RETRY_FIRST = 0.02
"""Seconds after which a failed write of the lease is repeated, doubled each time; tuned by hand."""

LONGEST_EPOCH = 18
"""Digits of an epoch that is believed; Python refuses to convert thousands of digits."""

LOST_INTENTS = "unknown: the lease was deleted"
"""The intents on a lease that is created in place of a deleted one: nobody can read what its holder had announced."""

Started = Callable[[], Awaitable[None] | None]
Lease = dict[str, Any]


class LeaseHeld(Exception):
    """Another process holds the lease, and this one does not stand by."""


def now_with_sleep() -> float:
    """Seconds on a clock that no one sets and that also counts while the machine is suspended, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LeaseClaims:
    """Which of several leases one process takes. One at a time; a second one only if nobody else has taken it."""

    def __init__(self, patience: float = 0.0) -> None:
        self._patience = patience
        """Seconds that a process which has a lease leaves others to those who have none."""
        self._held: set[LeaderElection] = set()
        self._claimant: LeaderElection | None = None

    def permit(self, candidate: LeaderElection, free_for: float) -> bool:
        """Whether a candidate may take its lease now. `free_for`: seconds since the lease became free."""
        if self._claimant not in (None, candidate):
            return False
        return not self._held or free_for >= self._patience

    def begin(self, candidate: LeaderElection) -> None:
        self._claimant = candidate

    def ended(self) -> None:
        """The lease could not be taken, or the take-over is complete: another lease may be taken."""
        self._claimant = None

    def taken(self, candidate: LeaderElection) -> None:
        self._held.add(candidate)

    def released(self, candidate: LeaderElection) -> None:
        self._held.discard(candidate)
        if self._claimant is candidate:
            self.ended()


@dataclass(eq=False, slots=True)
class LeaderElection:
    """A candidate.

    Without `stand_by`, a lease that another process renews is an error. `is_dead` knows holders that have ended:
    their leases are taken at once. `known_epoch` is the last epoch of the lease as another object states it.
    """

    _api: Api
    name: str
    namespace: str
    identity: str
    lease_seconds: float = 15.0
    renew_seconds: float = 10.0
    retry_seconds: float = 2.0
    intents: Intents = field(default_factory=Intents)
    stand_by: bool = True
    is_dead: Callable[[str], bool] = lambda holder: False
    claims: LeaseClaims = field(default_factory=LeaseClaims)
    known_epoch: Callable[[], int] = lambda: 0
    seed: InitVar[int] = 0
    clock: Callable[[], float] = now_with_sleep
    holder: str = ""
    """The current leader, as last seen."""
    leading: bool = False
    epoch: int = 0
    succeeds: bool = False
    """Whether another process has held the lease before."""
    _lost: bool = False
    _failures: int = 0
    """Attempts in a row that the server did not answer or refused."""
    _bell: asyncio.Event = field(default_factory=asyncio.Event)
    _highest: int = 0
    """The highest epoch that this process has seen on the lease."""
    _free_since: float | None = None
    """When this process first saw that the lease may be taken."""
    _seen: Lease | None = None
    _seen_at: float = 0.0
    _renewed: float = 0.0
    _page: int = field(init=False)
    _path: str = field(init=False)
    _dice: random.Random = field(init=False)

    def __post_init__(self, seed: int) -> None:
        if not self.retry_seconds < self.renew_seconds < self.lease_seconds:
            raise ValueError("a lease must outlast the time for renewing it, and that the time between two tries")
        self._page = self.intents.page(self, self._bell.set)
        self._path = LEASES.path(self.namespace, self.name)
        self._dice = random.Random(f"{self.identity}{seed}")

    @property
    def spare(self) -> str:
        """A process that asks for this lease, because it has none; empty without one."""
        asker = _annotations(self._seen or {}).get(SPARE, "")
        return asker if asker != self.identity else ""

    @property
    def valid(self) -> bool:
        """Whether no other process can be leading: false also after this process was frozen for too long."""
        return self.leading and self.clock() < self._renewed + self.lease_seconds

    @property
    def lost(self) -> bool:
        """Whether this process has led, and another may lead now; false also after the lease was given back."""
        return self._lost or (self.leading and not self.valid)

    async def lead(self, on_started: Started, on_lost: Callable[[], None]) -> None:
        """Wait for the lease, lead, and return when it is lost (after `on_lost`) or when the work is done.

        If `on_started` returns an awaitable, that is the work: it is cancelled when the lease is lost. When this call
        is cancelled or the work is done, the lease is released as soon as the work has ended.
        """
        await self._acquire()
        self.leading = True
        self.claims.taken(self)
        log.info("leading as %s", self.identity)
        renewing = asyncio.create_task(self._renew())
        working: asyncio.Task[None] | None = None
        lost = False
        try:
            started = on_started()
            if started is not None and inspect.isawaitable(started):
                working = asyncio.ensure_future(_awaited(started))
            tasks = [renewing] if working is None else [renewing, working]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            lost = renewing.done()
        finally:
            if lost:
                self._lost, self.leading = True, False
                on_lost()
            await _ended(working)  # it may still write, so the lease is renewed until it has ended
            lost = lost or renewing.done()
            await _ended(renewing)
            self.leading = False
            self.claims.released(self)
            self.intents.flush()
            if not lost:
                await asyncio.shield(self._release())
        if working is not None and not working.cancelled():
            working.result()

    async def _acquire(self) -> None:
        """Try when the lease changes, when it expires, and after each retry time."""
        bell = asyncio.Event()
        listening = asyncio.create_task(self._listen(bell))
        leads, first = "", None
        try:
            while True:
                bell.clear()
                if await self._try():
                    return
                if self.holder and self.holder != leads:
                    leads = self.holder
                    log.info("standing by: %s leads", leads)
                    first = self._seen
                if not self.stand_by and leads and first is not None and self._renewed_since(first):
                    raise LeaseHeld(f"lease `{self.namespace}/{self.name}` is held by `{leads}`, which renews it")
                pause = self.retry_seconds * self._dice.uniform(1.0, 1.2)
                await happens(bell, min(pause, self._pause() if self._failures else self._expires_in()))
        finally:
            await _ended(listening)

    def _renewed_since(self, before: Lease) -> bool:
        """Whether the same process has written the lease again."""
        return self._seen is not None and self._seen.get("spec") != before.get("spec")

    async def _listen(self, bell: asyncio.Event) -> None:
        """Signal every change of the lease, as long as it can be watched."""
        while True:
            watch = self._api.watch(LEASES, "", self.namespace, field_selector=f"metadata.name={self.name}")
            try:
                async with aclosing(watch) as events:
                    async for _ in events:
                        bell.set()
            except ApiError as error:
                log.info("lease %s is not watched: %s", self.name, error)
            await asyncio.sleep(self.retry_seconds)

    def _expires_in(self) -> float:
        """Seconds until the lease of another process may be taken; the retry time if it has expired."""
        if self._seen is None or self.holder in ("", self.identity):
            return self.retry_seconds
        left = self._seen_at + self._holds(self._seen) - self.clock()
        return left if left > 0 else self.retry_seconds

    async def _renew(self) -> None:
        while True:
            # Not longer than the lease is certain: one retry time later would be too late for the last writes.
            await happens(self._bell, min(self.retry_seconds, self._sure_for()))
            self._bell.clear()
            try:
                async with asyncio.timeout(self._sure_for()):
                    held = await self._try()
            except TimeoutError:
                held = False
            if held:
                continue
            if self._lost:
                log.error("lost the lease to %s", self.holder or "no one")
                return
            if self.clock() - self._renewed >= self.renew_seconds:
                log.error("lost the lease: not renewed for %.1f s", self.clock() - self._renewed)
                return
            await asyncio.sleep(min(self._pause(), self._sure_for()))
            self._bell.set()

    def _pause(self) -> float:
        """Seconds after which a failed write is repeated."""
        return float(min(RETRY_FIRST * 2 ** min(self._failures, 20), self.retry_seconds))

    def _sure_for(self) -> float:
        return max(self._renewed + self.renew_seconds - self.clock(), 0.0)

    async def _try(self) -> bool:
        """Take or renew the lease once; whether it is ours now."""
        begun = self.clock()
        draft = self.intents.draft() if self.leading else None
        try:
            written = await self._write(draft)
        except (Conflict, NotFound):
            self._seen = None
            self._failures += 1
            return False
        except ApiError as error:
            log.warning("lease %s: %s", self.name, error)
            self._failures += 1
            return False
        self._failures = 0
        if written:
            # The time before the request: other processes count from when they see it, which is later.
            self._renewed = begun
            if draft is not None:
                self.intents.written(self._page, draft.number)
        return written

    async def _write(self, draft: Draft | None) -> bool:
        """Whether the lease was written; not while another process holds it."""
        if self._seen is None or not self._is_ours(self._seen):
            try:
                self._observe(await self._api.get(self._path))
            except NotFound:
                if draft is None and not self._permitted():
                    return False
                creating = self._api.create(LEASES.path(self.namespace), self._claim({}, draft))
                self._observe(await (self._claimed(creating) if draft is None else creating))
                assert self._seen is not None
                self.epoch = _epoch(self._seen)
                if draft is None and self.epoch > 1:
                    self._take_over(self._seen)
                return True
        assert self._seen is not None
        if draft is not None:
            if not self._is_ours(self._seen):
                self._lost = True
                return False
            self._observe(await self._api.replace(self._path, self._claim(self._seen, draft)))
            return True
        held = self.holder not in ("", self.identity) and not self.is_dead(self.holder)
        if held and self.clock() < self._seen_at + self._holds(self._seen):
            self._free_since = None
            return False
        if not self._permitted():
            return False
        before = self._seen
        self._observe(await self._claimed(self._api.replace(self._path, self._claim(before, None))))
        self._take_over(before)
        return True

    def _permitted(self) -> bool:
        """Whether this process takes the lease, which is free."""
        self._free_since = self.clock() if self._free_since is None else self._free_since
        return self.claims.permit(self, self.clock() - self._free_since)

    async def _claimed(self, request: Awaitable[bytes]) -> bytes:
        self.claims.begin(self)
        try:
            body = await request
        except BaseException:
            self.claims.ended()
            raise
        self._free_since = None
        return body

    def _is_ours(self, lease: Lease) -> bool:
        """Whether no other process has held the lease since this one got it."""
        return self.epoch > 0 and _holder(lease) == self.identity and _epoch(lease) == self.epoch

    def _take_over(self, before: Lease) -> None:
        """This process holds the lease now; `before` is the version that it replaced."""
        self.epoch, self.succeeds = _epoch(self._seen), True
        text = _annotations(before).get(INTENTS, "")
        try:
            self.intents.inherit(read_paths(text))
        except ValueError as error:
            log.error("lease %s: annotation %s cannot be read: %s: `%s`", self.name, INTENTS, error, text[:40])
            self.intents.inherit_unreadable(text)
        self.intents.inherit_decided(_victims(before))

    def _observe(self, body: bytes) -> None:
        try:
            lease = msgspec.json.decode(body, type=dict[str, Any])
            holder = _holder(lease)
        except (msgspec.DecodeError, AttributeError) as error:
            raise ServerFault(f"not a lease: {error}") from error
        if self._seen is None or lease.get("spec") != self._seen.get("spec"):
            self._seen_at = self.clock()
        self._seen, self.holder = lease, holder
        self._highest = max(self._highest, _epoch(lease))

    def _holds(self, lease: Lease) -> float:
        """Seconds that the holder has the lease after its last renewal."""
        seconds = (lease.get("spec") or {}).get("leaseDurationSeconds")
        return float(seconds) if isinstance(seconds, int) else self.lease_seconds

    def _claim(self, lease: Lease, draft: Draft | None) -> Lease:
        """The lease with this process as holder; other fields stay.

        A leader writes its intents. A candidate raises the epoch, and leaves the intents of its predecessor.
        """
        now = micro_time_text(time.time())
        before = lease.get("spec") or {}
        spec = before | {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(round(self.lease_seconds), 1),
            "renewTime": now,
        }
        if before.get("holderIdentity") != self.identity or "acquireTime" not in before:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = before.get("leaseTransitions", -1) + 1
        if draft is None:
            known = max(self._highest, self.known_epoch())
            kept = write_victims(_victims(lease), known + 1)
            notes = _with_intents(lease, _annotations(lease).get(INTENTS, ""), kept) | {EPOCH: str(known + 1)}
            notes.pop(SPARE, None)
            if not lease and known:
                notes[INTENTS] = LOST_INTENTS  # a successor of this process must fence everything too
        else:
            decided = write_victims(draft.decided, self.epoch)
            notes = _with_intents(lease, draft.text, decided) | {EPOCH: str(self.epoch)}
        metadata = (lease.get("metadata") or {"name": self.name}) | {"annotations": notes}
        return lease | LEASES.document(metadata, spec=spec)

    async def _release(self) -> None:
        """Release the lease, so that a standby need not wait; an interrupted renewal may have changed it meanwhile."""
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                while self._seen is not None and self._is_ours(self._seen):
                    spec = self._seen["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1}
                    decided = write_victims(self.intents.decided(), self.epoch)
                    notes = {"annotations": _with_intents(self._seen, self.intents.text(), decided)}
                    freed = self._seen | {"metadata": self._seen["metadata"] | notes, "spec": spec}
                    try:
                        self._observe(await self._api.replace(self._path, freed))
                    except Conflict:
                        self._observe(await self._api.get(self._path))
        except (ApiError, TimeoutError) as error:
            log.warning("lease %s could not be given back: %s", self.name, error)


def _holder(lease: Lease) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _annotations(lease: Lease) -> dict[str, str]:
    return dict((lease.get("metadata") or {}).get("annotations") or {})


def _with_intents(lease: Lease, text: str, decided: str) -> dict[str, str]:
    notes = {key: value for key, value in _annotations(lease).items() if key not in (INTENTS, EVICTIONS)}
    return notes | ({INTENTS: text} if text else {}) | ({EVICTIONS: decided} if decided else {})


def _victims(lease: Lease) -> list[DecidedVictim]:
    """The decided evictions that the holder of a lease has announced; none if they cannot be read."""
    text = _annotations(lease).get(EVICTIONS, "")
    try:
        return read_victims(text, _epoch(lease))
    except ValueError as error:
        log.error("annotation %s cannot be read, so no eviction in it is carried out: %s", EVICTIONS, error)
        return []


def _epoch(lease: Lease | None) -> int:
    text = _annotations(lease or {}).get(EPOCH, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= LONGEST_EPOCH else 0


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])
