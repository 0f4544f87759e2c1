"""What a change of a job does: the job as Maar reads it before and after, with the pods that it has. Pure.

A change that Maar would not see is refused. Of a job that runs, the caller learns what changes now and what does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import PODS, PRIORITY_CLASSES, QUEUES
from maar.kube.kinds.kind import DELETED, JobKind
from maar.kube.picture.owners import Owner
from maar.kube.picture.picture import Picture
from maar.kube.submit.changes import Change
from maar.kube.submit.errors import CannotChange, SubmitError
from maar.kube.submit.names import Names, wrong_names
from maar.kube.submit.paths import Json
from maar.kube.wire.base import Object
from maar.kube.wire.decoding import decode
from maar.kube.wire.pods import Pod
from maar.model.jobs import Job
from maar.model.tasks import Status
from maar.model.words import count

Part = tuple[AnyKind, Object]


class Standing(NamedTuple):
    """A job as Maar reads it."""

    job: Job
    running: int
    """How many of its pods have a node."""
    group: str = ""
    """The PodGroup that states it, unless that is what changes."""


class ChangeResult(NamedTuple):
    """What became of a change."""

    lines: tuple[str, ...] = ()
    """What changes."""
    effects: tuple[str, ...] = ()
    """What that means for a job that runs: what changes at once, and what does not."""
    notes: tuple[str, ...] = ()
    """What could not be checked, or cannot be done."""


class Difference(NamedTuple):
    """One thing that changes, and what that means for a job that runs."""

    line: str
    effect: str = ""


def check_end(kind: AnyKind, item: Object) -> None:
    """Refuse to change a job that has ended: nothing would happen."""
    how = ""
    if isinstance(kind, JobKind):
        end = kind.end_of(item)
        how = "" if end is None else end.how
    elif item.metadata.deletion_timestamp is not None:
        how = DELETED
    elif isinstance(item, Pod) and item.finished:
        how = "ended"
    if how:
        has = "is being deleted" if how == DELETED else "has ended" if how == "ended" else f"has {how}"
        raise CannotChange("", f"`{item.key}` {has}: no change has an effect; submit it again under another name")


def effects(
    parts: Sequence[Part], patches: Mapping[str, Json], around: Iterable[Part], names: Names, what: Change
) -> ChangeResult:
    """What patches of the objects of one job do, by the path of each; raises `SubmitError` where they do nothing.

    `around`: pods and PodGroups of the namespace, as far as the caller may list them.
    """
    beside = [*around]
    before = standings(parts, beside, names)
    after = standings([(kind, patched(item, patches.get(item.key, {}))) for kind, item in parts], beside, names)
    notes = _unchecked(names, what)
    lines: list[str] = []
    now: list[str] = []
    for key, then in after.items():
        _check_names(then.job, names, what)
        was = before.get(key)
        for made in () if was is None else _differences(was, then, names, what):
            lines.append(made.line)
            now.append(made.effect if was is not None and was.running else "")
    lines, now = ([*dict.fromkeys(filter(None, texts))] for texts in (lines, now))
    return ChangeResult(tuple(lines), tuple(now), tuple(notes))


def standings(parts: Sequence[Part], beside: Sequence[Part], names: Names) -> dict[str, Standing]:
    """The jobs that the objects make, with their pods."""
    picture = Picture(None, settling=None)
    mine = {(kind, kind.key_of(item)) for kind, item in parts}
    for kind, items in ((QUEUES, names.queues), (PRIORITY_CLASSES, names.classes)):
        for one in items or ():
            picture.put(kind, one)
    for kind, item in (*(part for part in beside if (part[0], part[0].key_of(part[1])) not in mine), *parts):
        picture.put(kind, item)
    picture.read_short()
    cluster = picture.cluster(picture.take(0.0).around)
    pods: dict[str, list[Any]] = {}
    for task in cluster.tasks:
        pods.setdefault(task.job, []).append(task)
    found = {}
    for job in cluster.jobs:
        owner, group = picture.owner_of(job.key), picture.group_of(job.key)
        whose: set[tuple[AnyKind, str]] = {(owner.kind, owner.item.key)} if isinstance(owner, Owner) else set()
        if group is not None:
            whose.add((group.kind, group.item.key))
        whose |= {(PODS, task.key) for task in pods.get(job.key, ())}
        if whose & mine:
            stated = "" if group is None or (group.kind, group.item.key) in mine else group.item.name
            running = sum(task.status is Status.BOUND for task in pods.get(job.key, ()))
            found[job.key] = Standing(job, running, stated)
    return found


def patched(item: Object, patch: Json) -> Object:
    """An object after a merge patch."""
    if not patch:
        return item
    return decode(_merged(msgspec.to_builtins(item), patch), type(item))


def _merged(document: Any, patch: Json) -> Json:
    made: Json = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merged(made.get(key), value) if isinstance(value, dict) else value
    return made


def _check_names(job: Job, names: Names, what: Change) -> None:
    """A queue or a class that the job cannot use, if the change asks for it."""
    for wrong in wrong_names(job, names):
        if what.priority_class is not None and wrong.is_class:
            raise SubmitError("priorityClass", wrong.problem)
        if what.queue is not None and (not wrong.is_class or "queue `" in wrong.problem):
            raise SubmitError("queue", wrong.problem)


def _unchecked(names: Names, what: Change) -> list[str]:
    notes = []
    if names.queues is None and what.queue is not None:
        notes.append(f"queue `{what.queue}` was not checked: you may not list queues")
    if names.classes is None and what.priority_class is not None:
        notes.append(f"priority class `{what.priority_class}` was not checked: you may not list priority classes")
    return notes


def _no_effect(field: str, of: Standing, value: str) -> CannotChange:
    by = f"its PodGroup `{of.group}` states it" if of.group else "its pods state it"
    return CannotChange(field, f"no effect, it stays `{value}`: {by}; cancel the job and submit it again")


def _differences(was: Standing, then: Standing, names: Names, what: Change) -> Iterator[Difference]:
    if what.queue is not None:
        yield _queue(was, then, what.queue)
    if what.priority_class is not None:
        yield _priority(was, then, names, what.priority_class)
    if what.min_workers is not None or what.max_workers is not None:
        yield _bounds(was, then, "minWorkers" if what.min_workers is not None else "maxWorkers")
    if what.hold and not what.stop:
        yield Difference("", "it runs, and goes on: it is held when it stops; `--stop` stops it")


def _queue(was: Standing, then: Standing, queue: str) -> Difference:
    if then.job.queue != queue:
        raise _no_effect("queue", was, then.job.queue)
    if was.job.queue == queue:
        return Difference(f"queue: `{queue}`, as before")
    effect = f"it runs: {_go_on(was)}, and {'counts' if was.running == 1 else 'count'} for queue `{queue}` from now on"
    return Difference(f"queue: `{queue}`, before `{was.job.queue}`", effect)


def _priority(was: Standing, then: Standing, names: Names, name: str) -> Difference:
    if names.classes is None:
        return Difference(f"priority class: `{name}`")
    default = any(one.global_default and one.name == name for one in names.classes)
    if name not in then.job.priority_classes and not default:
        raise _no_effect("priorityClass", was, ", ".join(was.job.priority_classes) or "the default class")
    before, after = was.job.priority, then.job.priority
    if before == after:
        return Difference(f"priority class: `{name}`, priority {after} as before")
    keep = "its pods keep the priority that they were created with"
    effect = f"it runs: Maar counts it with priority {after} from now on; {keep}"
    return Difference(f"priority class: `{name}`, priority {after}, before {before}", effect)


def _bounds(was: Standing, then: Standing, field: str) -> Difference:
    before, after = was.job.elastic, then.job.elastic
    if after is None:
        return Difference("")
    if was.running and after.keeps:
        way = "stop it with `maar hold --stop`, set it, and release it"
        raise CannotChange(field, f"no effect while it runs: {after.keeps}; {way}")
    said = "" if before is None else f", before {before.min} to {before.max}"
    fits = after.min <= was.running - len(after.beside) <= after.max
    effect = "it runs: it goes on, and Maar may resize it" if fits else "it runs: Maar resizes it"
    return Difference(f"workers: {after.min} to {after.max}{said}", effect)


def _go_on(was: Standing) -> str:
    return "its pod goes on" if was.running == 1 else f"its {count(was.running, 'pod')} go on"
