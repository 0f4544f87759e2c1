"""How several edits are made one after the other, and said in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from maar.shards.public_view import grown
from maar.whatif.edit import Edit, EditError, Scene


def applied(scene: Scene, edits: Iterable[Edit]) -> Scene:
    """The scene after all edits in turn; the error of a bad one names it: `edits[2].queue: ...`."""
    before = scene.cluster
    for i, edit in enumerate(edits):
        try:
            scene = edit.applied(scene)
        except EditError as error:
            raise error.inside(f"edits[{i}]") from None
    if scene.standing is None:
        return scene
    nodes = {node.name for node in scene.cluster.nodes}.difference(node.name for node in before.nodes)
    queues = {queue.name for queue in scene.cluster.queues}.difference(queue.name for queue in before.queues)
    return replace(scene, standing=grown(scene.standing, frozenset(nodes), frozenset(queues)))


def in_words(scene: Scene, edits: Sequence[Edit]) -> list[str]:
    """Each edit in words, as a change of what the edits before it leave."""
    lines = []
    for edit in edits:
        lines.append(edit.words(scene))
        scene = edit.applied(scene)
    return lines
