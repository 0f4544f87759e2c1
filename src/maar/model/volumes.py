"""Volumes as decisions see them: how many of a kind a pod takes with it, and how many nodes can take.

What a volume is and where its claim stands is read at the door (`maar.kube`); here it has become numbers. A `Room` is
what there is: a driver's limit on each node, or free local volumes. A `VolumeNeed` is what a pod takes of it. Volumes
are no resources: no queue pays for them, and a pod that asks for nothing else is still best-effort.
"""

from __future__ import annotations

import msgspec


class VolumeNeed(msgspec.Struct, frozen=True, order=True):
    """What a pod takes of one room."""

    room: str
    """The name of the `Room` that says how many there are."""
    pool: str
    """Whose volumes are counted together: a driver's, or those of a storage class, whatever their size."""
    count: int
    """How many of the pool's volumes the pod takes."""


class Slot(msgspec.Struct, frozen=True, order=True):
    """The first, second, third... volume of a pool that a pod on a node takes: a feature, so that it is counted."""

    pool: str
    number: int


class Room(msgspec.Struct, frozen=True):
    """How many volumes of a pool each node can take, those of pods that are there already included."""

    name: str
    code: str
    words: str
    """Both for a refusal; the words complete `12 ...`."""
    nodes: dict[str, int] = {}
    others: int | None = None
    """What each node takes that `nodes` does not name; `None`: any number."""
    total: int | None = None
    """What all nodes take together; `None`: the sum of what each takes."""
