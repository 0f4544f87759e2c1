"""Changes of a job that exists, as merge patches of its object. What a kind does not allow is a `CannotChange`."""

from __future__ import annotations

import msgspec

from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import PODS
from maar.kube.kinds.elastic import MOST
from maar.kube.kinds.kind import JobKind
from maar.kube.submit.errors import CannotChange, SubmitError
from maar.kube.submit.paths import Json, nested
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Object

QUEUE = known.QUEUE_NAME[0]
HOLD = known.HOLD[0]


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What changes; a missing field stays as it is."""

    hold: bool | None = None
    """True: hold, false: release."""
    stop: bool = False
    """With `hold`: stop it if it runs."""
    priority_class: str | None = None
    queue: str | None = None
    min_workers: int | None = None
    max_workers: int | None = None


def patch_of(kind: AnyKind, item: Object, change: Change) -> Json:
    """The merge patch that makes a change; empty if nothing changes."""
    notes: dict[str, str | None] = {}
    made: Json = {}
    if change.stop and not change.hold:
        raise SubmitError("stop", "expected with `hold` only")
    if change.hold is not None:
        notes[HOLD] = ("stop" if change.stop else "true") if change.hold else None
    if change.queue is not None:
        _merge(made, _queue(kind, item, change.queue))
    if change.priority_class is not None:
        _merge(made, _priority(kind, change.priority_class))
    notes |= _bounds(kind, item, change)
    if notes:
        _merge(made, {"metadata": {"annotations": notes}})
    return made


def why_not_stopped(kind: AnyKind, item: Object) -> str:
    """Why `hold` with `stop` would not stop a job that runs; empty if it would."""
    if isinstance(kind, JobKind) and kind.write is not None and (kind.delegates or kind.look(item, None) is not None):
        return ""
    how = f": it needs {kind.suspends}" if isinstance(kind, JobKind) and kind.suspends else ""
    return f"a {kind} cannot be suspended{how}; if it runs, it goes on until it is cancelled"


def _queue(kind: AnyKind, item: Object, queue: str) -> Json:
    if not queue:
        raise SubmitError("queue", "expected a name, got nothing")
    form = kind.form
    if form.fixed_queue:
        raise CannotChange("queue", form.fixed_queue)
    if isinstance(kind, JobKind) and not all(gang.gang for gang in kind.gangs(item)):
        raise CannotChange(
            "queue", "its pods are gangs of one, whose queue is in the pod template, which cannot change"
        )
    return nested(form.queue, queue) if form.queue else {"metadata": {"annotations": {QUEUE: queue}}}


def _priority(kind: AnyKind, name: str) -> Json:
    if not name:
        raise SubmitError("priorityClass", "expected a name, got nothing")
    form = kind.form
    if not form.priority_class:
        why = "the priority of a pod cannot change" if kind is PODS else form.fixed_priority
        raise CannotChange("priorityClass", f"{why}: cancel the job and submit it again")
    return nested(form.priority_class, name)


def _bounds(kind: AnyKind, item: Object, change: Change) -> dict[str, str]:
    """The annotations with new bounds; with them, the job must be valid, and one whose size can change."""
    stated = (
        ("minWorkers", known.MIN_WORKERS, change.min_workers),
        ("maxWorkers", known.MAX_WORKERS, change.max_workers),
    )
    asked = [(field, keys[0], value) for field, keys, value in stated if value is not None]
    for field, _, value in asked:
        if not isinstance(kind, JobKind) or not kind.bounds:
            raise CannotChange(field, f"the size of a {kind} does not change")
        if not 1 <= value <= MOST:
            raise SubmitError(field, f"expected a number from 1 to {MOST}, got `{value}`")
    made = {note: str(value) for _, note, value in asked}
    if not made or not isinstance(kind, JobKind):
        return {}
    metadata = msgspec.structs.replace(item.metadata, annotations={**item.metadata.annotations, **made})
    after = kind.elastic(msgspec.structs.replace(item, metadata=metadata), None, None)
    if after is None or after.rigid:
        needs = f" needs {kind.bounds}" if "," in kind.bounds else " has ended, or its owner has suspended it"
        raise CannotChange(asked[0][0], f"this {kind}{needs}")
    if after.broken:
        raise SubmitError(asked[0][0], after.broken)
    return made


def _merge(into: Json, other: Json) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
