"""Notes on objects whose jobs have all gone: removed after a while, unless a job comes back.

An owner can outlive all pods of her object: it is scaled to 0, or it failed. Then no job is left that could remove the
note. Pods that are only replaced come back within the delay, and their job finds its note as it was. Namespaces take
turns.
"""

from __future__ import annotations

from maar.controller.reporting.write_rates import Pace
from maar.kube.picture.job_objects import NotedObject
from maar.kube.picture.picture import Picture
from maar.kube.wire import annotations as known
from maar.kube.write.turns import TenantTurns, tenant_of
from maar.kube.write.work import Patch

AFTER = 5.0
"""Seconds after the last job has gone; tuned by hand."""
AT_ONCE = 20
"""Notes that are removed in one second; tuned by hand."""


class Removals:
    """The objects that have a note, and those of them whose jobs have all gone."""

    def __init__(self) -> None:
        self._shown: dict[str, NotedObject] = {}
        """By the path of the object."""
        self._due: dict[str, float] = {}
        self._pace = Pace(1.0)

    def shows(self, path: str, place: NotedObject | None) -> None:
        """An object has a note, or none any more. A job writes to it, so its note is not removed here."""
        self._due.pop(path, None)
        if place is None:
            self._shown.pop(path, None)
        else:
            self._shown[path] = place

    def left(self, path: str | None, now: float) -> None:
        """The last job of an object has gone."""
        if path in self._shown:
            self._due[path] = now + AFTER

    def failed(self, path: str, place: NotedObject, again_at: float) -> None:
        """A note could not be removed; it is tried again, unless a job has come back."""
        if path not in self._shown:
            self._shown[path], self._due[path] = place, again_at

    def take(self, picture: Picture, now: float) -> list[tuple[Patch, NotedObject]]:
        """The notes that are removed now."""
        due: TenantTurns[str] = TenantTurns()
        for path in (path for path, at in self._due.items() if now >= at):
            due.put(tenant_of(path), path)
        if not due or not self._pace.take(now):
            return []
        found = []
        for _ in range(min(AT_ONCE, len(due))):
            path = due.take()
            del self._due[path]
            place = self._shown.pop(path)
            if _is_stranded(picture, place):
                found.append((Patch(path, {"metadata": {"annotations": {known.WHY: None}}}, "merge"), place))
        return found

    def due(self) -> float | None:
        """When the next note is removed."""
        return max(min(self._due.values()), self._pace.due()) if self._due else None


def _is_stranded(picture: Picture, place: NotedObject) -> bool:
    """Whether an object is still there and no other part of Maar writes its note."""
    item = picture.objects.of(place.kind).get(place.key)
    if item is None or item.metadata.uid != place.uid or item.metadata.deletion_timestamp is not None:
        return False
    # The notes on elastic and on suspended jobs belong to the resizes.
    return known.WORKERS not in item.metadata.annotations and not place.kind.is_suspended(item)
