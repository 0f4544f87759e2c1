"""Volumes as decisions see them: how many a pod takes, and how many a node can take.

`maar.kube` reads volumes and claims; here they are numbers. A `VolumeRoom` is a supply: a driver's limit on each node,
or free local volumes. A `VolumeNeed` is what a pod takes of it. Volumes are not resources: no queue is charged for
them, and a pod that requests nothing else is still best-effort.
"""

from __future__ import annotations

import msgspec

LIMIT, NO_VOLUME, NO_STORAGE, IN_USE = "NodeVolumeLimits", "NoFreeVolume", "NotEnoughStorage", "ReadWriteOncePod"
"""The codes of rooms: a driver attaches no more, no free volume fits, a driver has too little storage left, another pod
has the claim that only one pod may use.
"""


class VolumeNeed(msgspec.Struct, frozen=True, order=True):
    """How many volumes of one room a pod takes."""

    room: str
    """The name of the `VolumeRoom` that limits the count."""
    pool: str
    """Which volumes are counted together: those of a driver, or those of a storage class, whatever their size."""
    count: int
    """How many volumes of the pool the pod takes alone."""
    shared: tuple[str, ...] = ()
    """Names of more volumes of the pool, which other pods use too: on a node each counts once, sorted."""


class SharedVolume(msgspec.Struct, frozen=True, order=True):
    """A volume of a pool that several pods use; a feature, so that it is known where it is."""

    pool: str
    name: str


class Slot(msgspec.Struct, frozen=True, order=True):
    """The first, second, ... volume of a pool that a pod on a node takes; a feature, so that it is counted."""

    pool: str
    number: int


class VolumeRoom(msgspec.Struct, frozen=True):
    """How many volumes of a pool each node can take, including those of pods already there."""

    name: str
    code: str
    words: str
    """For a refusal, like `code`; the text completes `12 ...`."""
    nodes: dict[str, int] = {}
    others: int | None = None
    """The limit of each node that `nodes` does not name; `None`: no limit."""
    total: int | None = None
    """The limit over all nodes; `None`: the sum of the node limits."""
