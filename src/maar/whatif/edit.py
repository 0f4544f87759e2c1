"""What every edit has: it checks its fields, changes a cluster or a configuration, and says so in words.

An edit is plain data, so an API can read it from JSON: the field `edit` names its kind. It never changes the scene that
it gets. A bad field is an `EditError` that names the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from maar.config.config import Config
from maar.model.jobs import Job, Phase
from maar.model.resources import LARGEST, quantity
from maar.model.snapshot import Cluster
from maar.model.tasks import Status
from maar.model.words import closest, unknown
from maar.shards.shard import Standing

T = TypeVar("T")
OVER = (Status.SUCCEEDED, Status.FAILED, Status.RELEASING)
"""Pods that have ended, or are being deleted."""
LISTED = 20
"""The longest list of names in a message. Tuned by hand."""


class EditError(ValueError):
    """An edit cannot be made."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem

    def inside(self, path: str) -> EditError:
        """The same problem of an edit that is part of something larger."""
        return EditError(f"{path}.{self.field}", self.problem)


class Scene(msgspec.Struct, frozen=True):
    """What an edit changes: a cluster, and the configuration by which it is decided."""

    cluster: Cluster
    config: Config
    standing: Standing | None = None
    """The standing of a shard, for a recorded cycle of one of several; `None`: one Maar decides."""


def _kebab(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="edit", tag=_kebab):
    """One edit."""

    def applied(self, scene: Scene) -> Scene:
        """The scene after the edit; an `EditError` if it cannot be made."""
        raise NotImplementedError

    def words(self, scene: Scene) -> str:
        """The edit in words, for the scene before it."""
        raise NotImplementedError


def found(field: str, what: str, name: str, known: Collection[str]) -> None:
    """An `EditError` if there is no such name, with a suggestion and, if they are few, all names."""
    if name in known:
        return
    if len(known) <= LISTED:
        raise EditError(field, unknown(what, name, known))
    close = closest(name, sorted(known))
    near = f"did you mean `{close}`? " if close else ""
    raise EditError(field, f"unknown {what} `{name}`; {near}there are {len(known)}")


def all_found(field: str, what: str, names: Collection[str], known: Collection[str]) -> None:
    """An `EditError` if there are no names, or one of them is unknown."""
    if not names:
        raise EditError(field, f"expected the names of {what}s, got nothing")
    for i, name in enumerate(names):
        found(f"{field}[{i}]", what, name, known)


def at_least(field: str, value: int, least: int, most: int = LARGEST) -> None:
    """An `EditError` if a number is out of bounds."""
    if not least <= value <= most:
        bound = f"at least {least}" if value < least else f"at most {most}"
        raise EditError(field, f"expected {bound}, got `{value}`")


def new(field: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    """An `EditError` if something to add exists already, is added twice, or has no name."""
    there = set(known)
    for i, name in enumerate(names):
        if not name:
            raise EditError(f"{field}[{i}]", "expected a name, got nothing")
        if name in there:
            raise EditError(f"{field}[{i}]", f"{what} `{name}` exists already")
        there.add(name)


def swapped(items: tuple[T, ...], chosen: Callable[[T], bool], change: Callable[[T], T]) -> tuple[T, ...]:
    """The items, with the chosen ones changed."""
    return tuple(change(item) if chosen(item) else item for item in items)


def job_of(scene: Scene, key: str) -> Job:
    """The job that an edit names in its field `job`."""
    job = next((job for job in scene.cluster.jobs if job.key == key), None)
    if job is None:
        found("job", "job", key, [job.key for job in scene.cluster.jobs])
    assert job is not None
    return job


def ended(cluster: Cluster) -> frozenset[str]:
    """Jobs that have ended or are being deleted: no change of others has to do with them."""
    has_pods = {task.job for task in cluster.tasks}
    lives = {task.job for task in cluster.tasks if task.status not in OVER}
    lives.update(job.key for job in cluster.jobs if job.elastic is not None and job.elastic.suspended)
    completed = {job.key for job in cluster.jobs if job.phase is Phase.COMPLETED}
    return frozenset((has_pods | completed) - lives)


def with_job(scene: Scene, job: Job) -> Scene:
    jobs = swapped(scene.cluster.jobs, lambda other: other.key == job.key, lambda _: job)
    return replace(scene, cluster=replace(scene.cluster, jobs=jobs))


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def change_of(what: str, now: Mapping[str, int], to: Mapping[str, int | None]) -> str:
    """A change of amounts in words: `raise the capability of queue `a` by 8 nvidia.com/gpu (8 to 16)`."""
    parts = []
    for name, amount in to.items():
        before = now.get(name)
        if amount is None:
            parts.append(f"remove {name} from the {what}")
        elif before is None:
            parts.append(f"set the {what} to {quantity(name, amount)} {name}")
        else:
            verb = "raise" if amount >= before else "lower"
            by = quantity(name, abs(amount - before))
            parts.append(f"{verb} the {what} by {by} {name} ({quantity(name, before)} to {quantity(name, amount)})")
    return " and ".join(parts)
