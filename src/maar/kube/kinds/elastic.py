"""What an elastic job's own object says, in one form for all kinds.

A module of `maar.kube.kinds` takes from its object where the workers are and how they stand; here it becomes a
`ElasticSpec`: bounds, the size its owner asked for, and what Maar itself keeps on the object. From it and the shape
of its workers the model's `Elastic` is made. Whatever makes no sense becomes `broken`, and the job waits with it.

A job is elastic where it states bounds. The annotations `maar.dev/min-workers` and `maar.dev/max-workers` come before
the fields of its kind; a bound that is left out is what the owner asked for at first. A job without bounds that enters
suspended, with Maar as its scheduler, is rigid: all of it or nothing, when the plan says so. For as long as its
operator would give a job up because its size changes, its bounds are its size. It can still be suspended as a whole,
which operators survive.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from maar.kube.wire import annotations as known
from maar.kube.wire.annotations import Notes, text
from maar.kube.wire.base import Metadata, Object
from maar.kube.wire.jobs import PodTemplate
from maar.kube.wire.pods import Pod
from maar.kube.wire.values import first, runtime, whole
from maar.model.elastic import Elastic, Past
from maar.model.shapes import Shape

log = logging.getLogger(__name__)

MOST = 10_000
"""Pods of one elastic job; by taste, far beyond any training. Decisions keep a number for each worker that a job might
have, so one of two thousand million, as an API server takes it, would leave no memory for all others."""


class Kept(Past, frozen=True, omit_defaults=True):
    """What Maar keeps on a job, in the annotation `maar.dev/elastic`: its past, and what would be lost otherwise."""

    requested: int = 0
    """Workers that its owner asked for, before the first resize."""
    running: bool | None = None
    """Whether Maar's last word was that it runs; a job that is suspended all the same was suspended by its owner."""
    rigid: bool = False
    """It has no bounds and came suspended: ours to pause, and never another size."""

    @property
    def past(self) -> Past:
        """Only what decisions need."""
        return msgspec.convert(msgspec.to_builtins(self), Past)


class Bound(NamedTuple):
    """A bound as a field states it."""

    value: int | None = None
    field: str = ""
    problem: str = ""


class Role(msgspec.Struct, frozen=True):
    """Pods of one role: of what they are made, and the labels that the operator will put on them."""

    template: PodTemplate
    labels: Mapping[str, str] = {}
    count: int = 1


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What a module of one kind has found."""

    worker: Role
    """Its `count` is the size."""
    role: str
    """As its pods will say it."""
    suspended: bool = False
    ran: bool = False
    """Whether it ever ran, where its status tells."""
    beside: tuple[Role, ...] = ()
    """Its other roles, as far as its minimum counts them."""
    least: Bound = Bound()
    most: Bound = Bound()
    requested: int = 0
    scheduler: str = ""
    """Where the job says it for all of its pods."""
    queue: str = ""
    priority_class: str = ""
    priority: int | None = None
    category: str = ""
    pool: str = ""
    epochs: int | None = None
    keeps: str = ""
    """Why its operator would give it up if its size changed now, where it would."""
    resizable: bool = True
    """Whether its size can change at all; where not, bounds mean nothing and it is suspended and resumed only."""
    lowest: Bound = Bound()
    highest: Bound = Bound()
    """Limits within which its operator keeps any size; they tighten bounds and are none themselves."""
    part: str = ""
    """The part of the job that starts next."""
    problem: str = ""


class ElasticSpec(msgspec.Struct, frozen=True, kw_only=True):
    """An elastic job as its object says it."""

    min: int
    max: int
    size: int
    requested: int
    suspended: bool
    role: str
    part: str = ""
    """The part of the job that these are the pods of."""
    worker: Pod
    """A worker as it will be made."""
    beside: tuple[Pod, ...] = ()
    """Its other pods, as far as its minimum counts them."""
    pausable: bool = True
    keeps: str = ""
    rigid: bool = False
    kept: Kept = Kept()
    holds: tuple[tuple[str, int], ...] = ()
    queue: str = ""
    priority_class: str = ""
    priority: int | None = None
    category: str = ""
    pool: str = ""
    epochs: int | None = None
    restart: float | None = None
    broken: str = ""

    def elastic(self, shape: Shape, beside: tuple[Shape, ...]) -> Elastic:
        """As decisions see it, with the shapes of its pods."""
        return Elastic(
            min=self.min,
            max=self.max,
            shape=shape,
            size=self.size,
            requested=self.requested,
            suspended=self.suspended,
            role=self.role,
            beside=beside,
            pausable=self.pausable,
            keeps=self.keeps,
            pool=self.pool,
            past=self.kept.past,
            holds=self.holds,
            restart=self.restart,
        )


def elastic_spec(item: Object, stated: Stated, names: frozenset[str] | None) -> ElasticSpec | None:
    """The spec of one job; `None`: its size is not ours to change. `names` are ours as schedulers (`None`: all)."""
    template, size = stated.worker.template, stated.worker.count
    scheduler = stated.scheduler or template.spec.scheduler_name
    if names is not None and scheduler not in names:
        return None
    kept = read_kept(item)
    if stated.suspended and (stated.ran if kept.running is None else kept.running):
        return None  # by its owner, who will resume it
    notes = Notes(item.metadata.annotations)
    least = most = Bound()
    if stated.resizable:
        least, most = _stated(notes, known.MIN_WORKERS, stated.least), _stated(notes, known.MAX_WORKERS, stated.most)
    bounded = any(b.value is not None or b.problem for b in (least, most))
    if not bounded and (size < 1 or not (stated.suspended or kept.rigid)):
        return None
    requested = stated.requested or kept.requested or size
    low = high = size
    broken = stated.problem
    if bounded:
        low = requested if least.value is None else least.value
        high = min(max(low, requested) if most.value is None else most.value, MOST)
        if stated.lowest.value is not None and stated.lowest.value > low:
            low, least = stated.lowest.value, stated.lowest
        if stated.highest.value is not None and stated.highest.value < high:
            high, most = stated.highest.value, stated.highest
    beside = sum(role.count for role in stated.beside)
    broken = broken or _problem(least, most, low, high, beside)
    keeps = stated.keeps if bounded and not broken and not stated.suspended and low <= size <= MOST else ""
    if keeps:
        low = high = size
    pool = notes.read(known.POOL, text)
    category = Notes(item.metadata.annotations, item.metadata.labels).read(known.CATEGORY, text)
    epochs, restart = notes.read(known.EPOCHS, _positive), notes.read(known.RESTART, runtime)
    return ElasticSpec(
        min=low,
        max=high,
        size=max(size, 0),
        requested=requested,
        suspended=stated.suspended,
        role=stated.role,
        part=stated.part,
        worker=_pod(item, stated.worker),
        beside=tuple(pod for role in stated.beside for pod in [_pod(item, role)] * role.count)
        if beside <= MOST
        else (),
        keeps=keeps,
        rigid=not bounded,
        kept=kept,
        holds=read_holds(item),
        queue=stated.queue or _queue(item, template),
        priority_class=stated.priority_class or template.spec.priority_class_name,
        priority=stated.priority,
        category=category or stated.category,
        pool=pool or stated.pool,
        epochs=stated.epochs if epochs is None else epochs,
        restart=restart,
        broken=broken or notes.problem,
    )


def read_kept(item: Object) -> Kept:
    """What Maar has kept on an object; nothing where somebody broke it."""
    said = item.metadata.annotations.get(known.ELASTIC)
    if not said:
        return Kept()
    try:
        kept = msgspec.json.decode(said, type=Kept)
        if not 0 <= kept.requested <= MOST:
            raise ValueError(f"`requested`: expected a number from 0 to {MOST}, got `{kept.requested}`")
        return kept
    except ValueError as error:  # msgspec's are such
        log.warning("%s: the annotation `%s` is ignored: %s", item.key, known.ELASTIC, error)
        return Kept()


def read_holds(item: Object) -> tuple[tuple[str, int], ...]:
    """Room that is kept for workers to come; none where somebody broke it."""
    said = item.metadata.annotations.get(known.HOLDS)
    if not said:
        return ()
    try:
        holds = msgspec.json.decode(said, type=dict[str, int])
    except msgspec.DecodeError as error:
        log.warning("%s: the annotation `%s` is ignored: %s", item.key, known.HOLDS, error)
        return ()
    return tuple(sorted((node, count) for node, count in holds.items() if count > 0))


def write_kept(kept: Kept) -> str:
    """For the annotation."""
    return msgspec.json.encode(kept).decode()


def write_holds(holds: tuple[tuple[str, int], ...]) -> str | None:
    """For the annotation; `None`: it goes."""
    return msgspec.json.encode(dict(holds)).decode() if holds else None


def _stated(notes: Notes, keys: tuple[str, ...], field: Bound) -> Bound:
    """A bound by annotation, else by field."""
    problem = notes.problem
    value = notes.read(keys, _positive)
    if notes.problem != problem:
        return Bound(None, keys[0], notes.problem)
    return field if value is None else Bound(value, f"`{keys[0]}`")


def _problem(least: Bound, most: Bound, low: int, high: int, beside: int) -> str:
    if least.problem or most.problem:
        return least.problem or most.problem
    if low < 1:
        return f"{least.field or 'replicas'}: expected a number of at least 1, got `{low}`"
    if low > MOST:
        return f"{least.field or 'replicas'}: expected at most {MOST}, got `{low}`"
    if beside > MOST:
        return f"replicas beside its workers: expected at most {MOST}, got `{beside}`"
    if high < low:
        return f"{most.field}: expected at least the minimum of {low}, got `{high}`"
    return ""


def _pod(item: Object, role: Role) -> Pod:
    """A pod as its operator will make it."""
    meta = role.template.metadata
    labels = {**meta.labels, **role.labels}
    made = Metadata(name=item.name, namespace=item.namespace, labels=labels, annotations=meta.annotations)
    return Pod(metadata=made, spec=role.template.spec)


def _queue(item: Object, template: PodTemplate) -> str:
    of, inner = item.metadata, template.metadata
    found = first(known.QUEUE_NAME, of.annotations, of.labels, inner.annotations, inner.labels)
    return found[1] if found else ""


def _positive(said: str) -> int:
    return whole(said, 1)
