"""Edits of queues and quotas: add, open, weight, capability, deserved, guarantee."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from maar.model.queues import Queue, QueueTree
from maar.model.snapshot import Quota
from maar.whatif.edit import Edit, EditError, Scene, at_least, change_of, found, new, quoted, swapped

LARGEST_WEIGHT = 2**31 - 1
"""The field is an int32."""
Field = Literal["capability", "deserved", "guarantee"]


def queue_of(scene: Scene, name: str) -> Queue:
    """The queue that an edit names in its field `queue`; `root` and `default` always exist."""
    tree = QueueTree(scene.cluster.queues)
    found("queue", "queue", name, tree.number)
    return tree.queues[tree.number[name]]


def with_queue(scene: Scene, queue: Queue) -> Scene:
    others = tuple(other for other in scene.cluster.queues if other.name != queue.name)
    return replace(scene, cluster=replace(scene.cluster, queues=(*others, queue)))


class AddQueues(Edit, frozen=True):
    """Add queues."""

    queues: tuple[Queue, ...]

    def applied(self, scene: Scene) -> Scene:
        cluster = scene.cluster
        new("queues", "queue", [queue.name for queue in self.queues], [queue.name for queue in cluster.queues])
        return replace(scene, cluster=replace(cluster, queues=(*cluster.queues, *self.queues)))

    def words(self, scene: Scene) -> str:
        plural = "" if len(self.queues) == 1 else "s"
        return f"add queue{plural} {quoted(queue.name for queue in self.queues)}"


class SetWeight(Edit, frozen=True):
    """Another weight of a queue."""

    queue: str
    weight: int

    def applied(self, scene: Scene) -> Scene:
        queue = queue_of(scene, self.queue)
        at_least("weight", self.weight, 1, LARGEST_WEIGHT)
        return with_queue(scene, replace(queue, weight=self.weight))

    def words(self, scene: Scene) -> str:
        now = queue_of(scene, self.queue).weight
        verb = "raise" if self.weight >= now else "lower"
        return f"{verb} the weight of queue `{self.queue}` from {now} to {self.weight}"


class SetAmounts(Edit, frozen=True):
    """Other amounts of a queue: of the named resources, all others stay. `None`: no longer named."""

    queue: str
    of: Field
    amounts: dict[str, int | None]

    def applied(self, scene: Scene) -> Scene:
        queue = queue_of(scene, self.queue)
        if self.of not in ("capability", "deserved", "guarantee"):
            raise EditError("of", f"expected `capability`, `deserved` or `guarantee`, got `{self.of}`")
        after = changed("amounts", getattr(queue, self.of) or {}, self.amounts)
        return with_queue(scene, replace(queue, **{self.of: after or None}))

    def words(self, scene: Scene) -> str:
        now = getattr(queue_of(scene, self.queue), self.of) or {}
        what = "deserved amount" if self.of == "deserved" else self.of
        return change_of(f"{what} of queue `{self.queue}`", now, self.amounts)


class OpenQueue(Edit, frozen=True):
    """A closed queue takes jobs again."""

    queue: str

    def applied(self, scene: Scene) -> Scene:
        return with_queue(scene, replace(queue_of(scene, self.queue), open=True))

    def words(self, scene: Scene) -> str:
        return f"open queue `{self.queue}`"


class SetQuota(Edit, frozen=True):
    """Other limits of a ResourceQuota (`namespace/name`): of the named resources, all others stay."""

    quota: str
    hard: dict[str, int | None]

    def applied(self, scene: Scene) -> Scene:
        now = self._now(scene)
        hard = changed("hard", now.hard, self.hard)
        quotas = swapped(scene.cluster.quotas, lambda q: q.key == self.quota, lambda q: replace(q, hard=hard))
        return replace(scene, cluster=replace(scene.cluster, quotas=quotas))

    def words(self, scene: Scene) -> str:
        return change_of(f"ResourceQuota `{self.quota}`", self._now(scene).hard, self.hard)

    def _now(self, scene: Scene) -> Quota:
        found("quota", "ResourceQuota", self.quota, [quota.key for quota in scene.cluster.quotas])
        return next(quota for quota in scene.cluster.quotas if quota.key == self.quota)


def changed(field: str, now: dict[str, int], to: dict[str, int | None]) -> dict[str, int]:
    """Amounts after a change."""
    if not to:
        raise EditError(field, "expected amounts of resources, got nothing")
    for name, amount in to.items():
        if not name:
            raise EditError(field, "expected the name of a resource, got nothing")
        if amount is not None:
            at_least(f"{field}.{name}", amount, 0)
    after = {**now, **to}
    return {name: amount for name, amount in after.items() if amount is not None}
