"""What the running pods of each queue use, and which queues are above their limits. Not Maar's reader.

As in Volcano, pods that are terminating do not count: the beneficiary of an eviction may be bound before they are gone.
Workers of an elastic job beyond its size, which its operator will delete, do not count either. What is only announced
counts in full: Maar may die before it evicts or writes a smaller size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal

import msgspec
from tests.support.faults.quantities import Amounts, amount
from tests.support.faults.writes import Json

QUEUES = "scheduling.volcano.sh/queues"
ROOT = "root"


class User(msgspec.Struct, frozen=True):
    """A pod with a node, as far as its queue is concerned."""

    gang: str
    queue: str
    requests: Amounts
    leaving: bool


Size = Callable[[str], int | None]
"""How many workers of an elastic job count; none for other gangs."""


class Above(msgspec.Struct, frozen=True):
    """A queue above its limit."""

    queue: str
    resource: str
    limit: int
    gangs: dict[str, int]
    """What each gang uses."""

    @property
    def used(self) -> int:
        return sum(self.gangs.values())


class Limits:
    """All queues with the pods that use them."""

    def __init__(self) -> None:
        self._queues: dict[str, Json] = {}
        self._users: dict[str, User] = {}
        """By uid."""
        self._used: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))

    def queue(self, name: str, after: Json | None) -> None:
        self._queues.pop(name, None)
        if after is not None:
            self._queues[name] = after

    def queue_of(self, uid: str) -> str | None:
        """The queue that a pod uses; it does not change while the pod has a node."""
        return self._users[uid].queue if uid in self._users else None

    def put(self, uid: str, user: User) -> None:
        """A pod uses its queue from now on."""
        self.drop(uid)
        self._users[uid] = user
        for name, value in user.requests.items():
            self._used[user.queue][name] += value

    def drop(self, uid: str) -> None:
        """A pod uses nothing any more."""
        if (user := self._users.pop(uid, None)) is not None:
            for name, value in user.requests.items():
                self._used[user.queue][name] -= value

    def line(self, queue: str) -> list[str]:
        """A queue and its parents, without the root, which has no limit."""
        found: list[str] = []
        while queue and queue != ROOT and queue not in found:
            found.append(queue)
            queue = self._spec(queue).get("parent") or ""
        return found

    def below(self, queue: str) -> list[str]:
        """A queue and all queues below it."""
        return [other for other in self._queues if queue in self.line(other)]

    def above(self, queue: str, size: Size) -> Above | None:
        """What a queue uses beyond its limit; none if it is within."""
        below = set(self.below(queue))
        for resource, most in self._limit(queue).items():
            if sum((self._used[other][resource] for other in below), Decimal(0)) <= most:
                continue
            pods: dict[str, list[int]] = defaultdict(list)
            for user in self._users.values():
                if user.queue in below and not user.leaving:
                    pods[user.gang].append(int(user.requests.get(resource, 0)))
            gangs = {gang: sum(amounts[: size(gang)]) for gang, amounts in pods.items()}
            found = Above(queue, resource, int(most), gangs)
            if found.used > most:
                return found
        return None

    def _spec(self, queue: str) -> Json:
        return self._queues[queue].get("spec") or {} if queue in self._queues else {}

    def _limit(self, queue: str) -> dict[str, Decimal]:
        return {name: amount(value) for name, value in (self._spec(queue).get("capability") or {}).items()}
