"""Refused writes: forgets the assumption, so that the next cycle decides again, with a growing delay.

The outbox reports refusals here. The first refusal for a pod is forgotten at once, because the next decision may know
something new. So is each bind of a pod that its owner has changed: others get the room (`Restless`). Later refusals (a
missing permission, a webhook) are forgotten after growing delays, during which the pod keeps its assumed place: this
protects the server.

A job that changes again and again while Maar starts it rests for a growing time, and others get its room. A bind, or a
job that grows or starts, carries the version of its object, so an owner who changes the object all the time makes the
server refuse it. A decision that does not hold any more, because of one change that matters, is made again at once;
only a second one in a row makes a job rest. The memory is that of this process: a successor begins again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

from maar.controller.snapshots.cache import Cache
from maar.kube.client.backoff import Backoff
from maar.kube.kinds.cluster import PODS
from maar.kube.picture.picture import Picture

FIRST, MOST = 1.0, 60.0
"""Seconds; tuned by hand."""
MANY = 1000
"""At this size, entries of deleted pods and jobs are dropped; tuned by hand."""


class Refusals:
    """Forgets assumptions whose writes were refused."""

    def __init__(self, picture: Picture, trigger: Callable[[], None]) -> None:
        self._picture = picture
        self._trigger = trigger
        self._dice = random.Random(0)
        self._waits: dict[tuple[str, str], Backoff] = {}

    def refused(self, pod: str, uid: str, *, at_once: bool = False) -> None:
        if at_once:
            self._forget(pod, uid)
            return
        backoff = self._waits.get((pod, uid))
        if backoff is None:
            self._tidy()
            self._waits[pod, uid] = Backoff(FIRST, MOST, self._dice)
            self._forget(pod, uid)
        else:
            asyncio.get_running_loop().call_later(backoff.next(), self._forget, pod, uid)

    def done(self, pod: str, uid: str) -> None:
        self._waits.pop((pod, uid), None)

    def _forget(self, pod: str, uid: str) -> None:
        assumed = self._picture.assumed.get(pod)
        if assumed is None or assumed.uid == uid:  # Otherwise it is a later pod of the same name.
            self._picture.assumed.forget(pod)
            self._trigger()

    def _tidy(self) -> None:
        if len(self._waits) >= MANY:
            pods = self._picture.objects.of(PODS)
            self._waits = {key: wait for key, wait in self._waits.items() if key[0] in pods}


@dataclass(slots=True)
class _Strikes:
    uid: str
    changes: int = 0
    rests: int = 0


class Restless:
    """Lets jobs rest."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._strikes: dict[str, _Strikes] = {}

    def refused(self, job: str, *, often: bool) -> None:
        """The server refused to start a job, or a pod of it, because it had changed; `often`: several times in a row.

        One rest counts once, however many pods of the job were refused.
        """
        row = self._cache.latest.jobs.number.get(job)
        if row is None or self._cache.rests(job):
            return
        uid = self._cache.latest.jobs.jobs[row].uid
        strikes = self._strikes.get(job)
        if strikes is None or strikes.uid != uid:
            self._tidy()
            strikes = self._strikes[job] = _Strikes(uid)
        strikes.changes += 1
        if often or strikes.changes > 1:
            self._cache.rest(job, uid, min(FIRST * 2.0 ** min(strikes.rests, 60), MOST))
            strikes.rests += 1

    def started(self, job: str) -> None:
        """A job was bound, or written as decided."""
        self._strikes.pop(job, None)

    def _tidy(self) -> None:
        if len(self._strikes) >= MANY:
            known = self._cache.latest.jobs.number
            self._strikes = {job: strikes for job, strikes in self._strikes.items() if job in known}
