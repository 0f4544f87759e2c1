"""What the server refused for good: un-assumed, so that the next cycle decides anew, but not again and again at once.

After the outbox, before the cache: the first refusal for a pod is forgotten at once, since something may have changed
meanwhile that the next decision knows. What is refused after that (a right is missing, a webhook says no) is forgotten
only after growing waits, in which the pod keeps the place that it was given: the server is not flooded.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from maar.controller.cache import Cache
from maar.kube.client.backoff import Backoff
from maar.kube.kinds.cluster import PODS

FIRST, MOST = 1.0, 60.0
"""Seconds; tuned by hand."""
MANY = 1000
"""From so many on, those are dropped whose pods have gone."""


class Refusals:
    """Forgets what was refused."""

    def __init__(self, cache: Cache, trigger: Callable[[], None]) -> None:
        self._cache = cache
        self._trigger = trigger
        self._dice = random.Random(0)
        self._waits: dict[tuple[str, str], Backoff] = {}

    def refused(self, pod: str, uid: str) -> None:
        """A write for a pod was refused for good."""
        backoff = self._waits.get((pod, uid))
        if backoff is None:
            self._tidy()
            self._waits[pod, uid] = Backoff(FIRST, MOST, self._dice)
            self._forget(pod, uid)
        else:
            asyncio.get_running_loop().call_later(backoff.next(), self._forget, pod, uid)

    def done(self, pod: str, uid: str) -> None:
        """A write for a pod went well."""
        self._waits.pop((pod, uid), None)

    def _forget(self, pod: str, uid: str) -> None:
        assumed = self._cache.picture.assumed.get(pod)
        if assumed is None or assumed.uid == uid:  # else it is a successor's of the same name
            self._cache.forget(pod)
            self._trigger()

    def _tidy(self) -> None:
        if len(self._waits) >= MANY:
            there = self._cache.picture.objects.of(PODS)
            self._waits = {key: wait for key, wait in self._waits.items() if key[0] in there}
