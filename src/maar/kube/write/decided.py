"""Decided evictions, as the Lease states them: pods that are evicted whatever their owners change, by uid alone.

The executor decides an eviction when the server has refused it because the pod has another version (`guarded`). No
fence stops a request without a version, so the successor of a leader carries out what is written here before it decides
anything: a late copy then meets a pod that is gone or going.

The text names the epoch of its writer. A Maar that does not know this annotation leaves it on the Lease: the text is
then of an older epoch, and nobody carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from maar.kube.write.fence import is_pod

MARGIN = 16
"""Characters of a victim in the text besides its path and its uid, at most."""


class DecidedVictim(msgspec.Struct, frozen=True):
    """A pod that is to be evicted, whatever its version."""

    path: str
    uid: str
    grace: int | None = None
    deletes: bool = False
    """Whether it is deleted, regardless of budgets."""

    @property
    def namespace(self) -> str:
        return self.path.split("/")[4]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def length(self) -> int:
        """About as many characters as it takes in the text; never fewer."""
        return len(self.path) + len(self.uid) + MARGIN


Pods = dict[str, dict[str, tuple[str, int | None]]]
"""Path of a collection, name of a pod, its uid and grace period."""


class _Text(msgspec.Struct, omit_defaults=True):
    epoch: int
    evict: Pods = {}
    delete: Pods = {}


def write_victims(victims: Iterable[DecidedVictim], epoch: int) -> str:
    """Victims as the text of one epoch. Empty without victims."""
    text = _Text(epoch)
    for victim in sorted(victims, key=lambda victim: victim.path):
        pods = text.delete if victim.deletes else text.evict
        collection, _, name = victim.path.rpartition("/")
        pods.setdefault(collection, {})[name] = (victim.uid, victim.grace)
    return msgspec.json.encode(text).decode() if text.evict or text.delete else ""


def read_victims(text: str, epoch: int) -> list[DecidedVictim]:
    """The victims in a text of this epoch; none if it is of another one. `ValueError` if it cannot be read."""
    if not text:
        return []
    try:
        found = msgspec.json.decode(text, type=_Text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    victims = [
        DecidedVictim(f"{collection}/{name}", uid, grace, deletes)
        for pods, deletes in ((found.evict, False), (found.delete, True))
        for collection, names in pods.items()
        for name, (uid, grace) in names.items()
    ]
    for victim in victims:
        if not is_pod(victim.path) or not victim.uid:
            raise ValueError(f"not a pod with a uid: `{victim.path}`")
    return victims if found.epoch == epoch else []
