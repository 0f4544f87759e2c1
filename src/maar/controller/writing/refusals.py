"""Refused writes: forgets the assumption, so that the next cycle decides again, with a growing delay.

The outbox reports refusals here. The first refusal for a pod is forgotten at once, because the next decision may know
something new. So is each bind of a pod that its owner has changed: others get the room (`restless`). Later refusals (a
missing permission, a webhook) are forgotten after growing delays, during which the pod keeps its assumed place: this
protects the server.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from maar.controller.snapshots.cache import Cache
from maar.kube.client.backoff import Backoff
from maar.kube.kinds.cluster import PODS

FIRST, MOST = 1.0, 60.0
"""Seconds; tuned by hand."""
MANY = 1000
"""At this size, entries of deleted pods are dropped; tuned by hand."""


class Refusals:
    """Forgets assumptions whose writes were refused."""

    def __init__(self, cache: Cache, trigger: Callable[[], None]) -> None:
        self._cache = cache
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
        assumed = self._cache.picture.assumed.get(pod)
        if assumed is None or assumed.uid == uid:  # Otherwise it is a later pod of the same name.
            self._cache.forget(pod)
            self._trigger()

    def _tidy(self) -> None:
        if len(self._waits) >= MANY:
            pods = self._cache.picture.objects.of(PODS)
            self._waits = {key: wait for key, wait in self._waits.items() if key[0] in pods}
