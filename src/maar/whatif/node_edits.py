"""Edits of nodes: add, remove, cordon, uncordon; and the end of a reservation, which locks nodes."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from maar.model.nodes import HOSTNAME, Node
from maar.model.tasks import Status, Task
from maar.model.words import count as counted
from maar.whatif.edit import Edit, Scene, all_found, at_least, found, new, quoted, swapped

CORDONED = "node.kubernetes.io/unschedulable"
"""The taint that Kubernetes gives a cordoned node."""
MOST_NODES = 4096
"""Nodes that are added at once. Tuned by hand: more than any cluster buys."""


class AddNodes(Edit, frozen=True):
    """Add empty nodes."""

    nodes: tuple[Node, ...]

    def applied(self, scene: Scene) -> Scene:
        cluster = scene.cluster
        new("nodes", "node", [node.name for node in self.nodes], [node.name for node in cluster.nodes])
        return replace(scene, cluster=replace(cluster, nodes=(*cluster.nodes, *self.nodes)))

    def words(self, scene: Scene) -> str:
        return f"add node{'' if len(self.nodes) == 1 else 's'} {quoted(node.name for node in self.nodes)}"


class AddNodesLike(Edit, frozen=True):
    """Add empty nodes like one of the cluster: with its labels, so in the same rack, and not cordoned."""

    like: str
    count: int = 1

    def applied(self, scene: Scene) -> Scene:
        cluster = scene.cluster
        found("like", "node", self.like, [node.name for node in cluster.nodes])
        at_least("count", self.count, 1, MOST_NODES)
        template = next(node for node in cluster.nodes if node.name == self.like)
        stem = f"{self.like}-copy"
        while any(node.name.startswith(f"{stem}-") for node in cluster.nodes):
            stem += "-copy"
        copies = tuple(copy_of(template, f"{stem}-{i}") for i in range(1, self.count + 1))
        return replace(scene, cluster=replace(cluster, nodes=(*cluster.nodes, *copies)))

    def words(self, scene: Scene) -> str:
        return f"add {counted(self.count, 'node')} like `{self.like}`"


def copy_of(node: Node, name: str) -> Node:
    """A node of the same kind with another name."""
    labels = {key: value for key, value in node.labels.items() if key != HOSTNAME}
    return replace(_uncordoned(node), name=name, labels=labels)


class _Nodes(Edit, frozen=True):
    """An edit of nodes by name."""

    nodes: tuple[str, ...]

    def check(self, scene: Scene) -> None:
        all_found("nodes", "node", self.nodes, {node.name for node in scene.cluster.nodes})

    def changed(self, scene: Scene, change: Callable[[Node], Node]) -> Scene:
        """The scene with these nodes changed."""
        self.check(scene)
        nodes = swapped(scene.cluster.nodes, lambda n: n.name in self.nodes, change)
        return replace(scene, cluster=replace(scene.cluster, nodes=nodes))

    def _named(self) -> str:
        return f"node{'' if len(self.nodes) == 1 else 's'} {quoted(self.nodes)}"


class Cordon(_Nodes, frozen=True):
    """Nodes get no new pods; their pods stay."""

    def applied(self, scene: Scene) -> Scene:
        return self.changed(scene, lambda node: replace(node, unschedulable=True))

    def words(self, scene: Scene) -> str:
        return f"cordon {self._named()}"


class Uncordon(_Nodes, frozen=True):
    """Nodes that are cordoned take pods again."""

    def applied(self, scene: Scene) -> Scene:
        return self.changed(scene, _uncordoned)

    def words(self, scene: Scene) -> str:
        return f"uncordon {self._named()}"


def _uncordoned(node: Node) -> Node:
    return replace(node, unschedulable=False, taints=tuple(t for t in node.taints if t.key != CORDONED))


class RemoveNodes(_Nodes, frozen=True):
    """Nodes are gone. Their pods wait again if a controller creates them again, else they are gone too."""

    def applied(self, scene: Scene) -> Scene:
        self.check(scene)
        cluster, names = scene.cluster, set(self.nodes)
        tasks = tuple(after for task in cluster.tasks if (after := _without(task, names)) is not None)
        alive = {task.job for task in tasks}
        jobs = []
        for job in cluster.jobs:
            if job.elastic is not None and any(_node(place) in names for place, _ in job.elastic.reserved):
                left = tuple(room for room in job.elastic.reserved if _node(room[0]) not in names)
                job = replace(job, elastic=replace(job.elastic, reserved=left))
            if job.declared or job.key in alive:
                jobs.append(job)
        nodes = tuple(node for node in cluster.nodes if node.name not in names)
        locks = tuple(lock for lock in cluster.locks if lock.node not in names)
        return replace(scene, cluster=replace(cluster, nodes=nodes, tasks=tasks, jobs=tuple(jobs), locks=locks))

    def words(self, scene: Scene) -> str:
        return f"remove {self._named()}"


def _node(place: str) -> str:
    return place.partition("/")[0]


def _without(task: Task, nodes: set[str]) -> Task | None:
    """A task after its node is gone; `None` if it is gone too."""
    if task.node not in nodes or task.status in (Status.SUCCEEDED, Status.FAILED):
        return task
    if task.status is Status.NOMINATED or (task.status is Status.BOUND and task.controlled and not task.resident):
        return replace(task, status=Status.PENDING, node="", started=None)
    return None


class EndReservation(Edit, frozen=True):
    """The job for which nodes are locked loses its election, and the nodes are free for others."""

    job: str

    def applied(self, scene: Scene) -> Scene:
        elect = scene.cluster.elect
        found("job", "elected job", self.job, [] if elect is None else [elect.job])
        return replace(scene, cluster=replace(scene.cluster, elect=None, locks=()))

    def words(self, scene: Scene) -> str:
        nodes = quoted(sorted(lock.node for lock in scene.cluster.locks))
        return f"release the nodes that are reserved for `{self.job}`" + (f": {nodes}" if nodes else "")
