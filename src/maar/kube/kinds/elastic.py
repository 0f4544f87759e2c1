"""What the object of an elastic job states, in one form for all kinds.

The module of a kind finds the workers and their state in an object (`Stated`). Here it becomes an `ElasticSpec`:
bounds, the size that the owner asked for, and what Maar keeps on the object. From the spec and the shape of its workers
the `Elastic` of the model is made. An invalid field becomes `broken`, and the job waits with it.

A job is elastic if it states bounds. The annotations `maar.dev/min-workers` and `maar.dev/max-workers` come before the
fields of the kind; a missing bound is what the owner asked for at first. A job without bounds that is created
suspended and names Maar as its scheduler is rigid: it starts as a whole when the plan says so. So is one that its owner
stops by `maar.dev/hold: stop`. A job that names no scheduler knows nothing of Maar: its owner, or another controller,
resumes it. While its operator would give up a job whose size changes, its bounds are its size; it can still be
suspended as a whole.
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
from maar.kube.wire.pods import DEFAULT_SCHEDULER, Pod
from maar.kube.wire.values import first, on_hold, runtime, whole
from maar.model.elastic import Elastic, Past
from maar.model.jobs import OnHold
from maar.model.shapes import Shape

log = logging.getLogger(__name__)

MOST = 10_000
"""The largest number of pods of one elastic job; tuned by hand, far beyond any training. Decisions keep a number for
each possible worker, so a bound of two thousand million, which an API server accepts, would exhaust the memory."""


LARGEST = 1e15
"""The largest time or number of GPU seconds that is believed; tuned by hand. Sums of it stay exact to the second."""
NUMBERS = tuple(field.name for field in msgspec.structs.fields(Past))


NOTES = (known.WORKERS, known.PLANNED, known.WHY, known.HOLDS)
"""What Maar notes on a job beside what it keeps."""
PAUSED_BY_OWNER = "suspended by its owner: Maar leaves it alone until its owner resumes it"


class Kept(Past, frozen=True, omit_defaults=True):
    """What Maar keeps on a job in the annotation `maar.dev/elastic`: its past, and what its object does not state."""

    requested: int = 0
    """The workers that the owner asked for, before the first resize."""
    running: bool | None = None
    """Whether Maar last decided that the job runs; if it is suspended nevertheless, its owner suspended it."""
    rigid: bool = False
    """The job has no bounds and was created suspended: Maar suspends and resumes it, and never resizes it."""
    written: int = 0
    """The size that Maar last wrote; if the object has another one, somebody set it by hand."""

    @property
    def past(self) -> Past:
        return msgspec.convert(msgspec.to_builtins(self), Past)


class Bound(NamedTuple):
    """A bound as a field states it."""

    value: int | None = None
    field: str = ""
    problem: str = ""


class Role(msgspec.Struct, frozen=True):
    """The pods of one role: their template, and the labels that the operator will set."""

    template: PodTemplate
    labels: Mapping[str, str] = {}
    count: int = 1


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """What the object of a job says besides its sizes and its pods."""

    role: str
    """The role as the pods will state it."""
    suspended: bool = False
    part: str = ""
    """The part of the job that starts next, and that the pods belong to."""
    queue: str = ""
    priority_class: str = ""
    priority: int | None = None
    category: str = ""
    pool: str = ""
    epochs: int | None = None
    keeps: str = ""
    """Why the operator would give up the job if its size changed now; empty if it would not."""


class Stated(Described, frozen=True, kw_only=True):
    """What the module of one kind found in an object."""

    worker: Role
    """Its `count` is the size."""
    ran: bool | None = None
    """Whether the job ever ran, or was about to; `None` if its status does not tell."""
    beside: tuple[Role, ...] = ()
    """Its other roles, as far as its minimum counts them."""
    least: Bound = Bound()
    most: Bound = Bound()
    requested: int = 0
    scheduler: str = ""
    """The scheduler name, if the job states it for all pods."""
    resizable: bool = True
    """Whether the size can change; if not, bounds mean nothing and the job is only suspended and resumed."""
    lowest: Bound = Bound()
    highest: Bound = Bound()
    """Limits that the operator applies to any size; they tighten stated bounds, and alone make no job elastic."""
    problem: str = ""


class ElasticSpec(Described, frozen=True, kw_only=True):
    """An elastic job as its object states it."""

    min: int
    max: int
    size: int
    requested: int
    worker: Pod
    """A worker as the operator will create it."""
    beside: tuple[Pod, ...] = ()
    """Its other pods, as far as its minimum counts them."""
    rigid: bool = False
    kept: Kept = Kept()
    reserved: tuple[tuple[str, int], ...] = ()
    restart: float | None = None
    broken: str = ""

    def elastic(self, shape: Shape, beside: tuple[Shape, ...]) -> Elastic:
        """The elastic job of the model, with the shapes of its pods."""
        same = {name: getattr(self, name) for name in SAME}
        return Elastic(**same, shape=shape, beside=beside, past=self.kept.past)


SAME = tuple(name for name in Elastic.__struct_fields__ if name in ElasticSpec.__struct_fields__ and name != "beside")
"""What an object states as the model has it."""


def elastic_spec(item: Object, stated: Stated, names: frozenset[str] | None) -> ElasticSpec | None:
    """The spec of one job; `None` if its size is not ours to change. `names` are our scheduler names (`None`: all)."""
    template, size = stated.worker.template, stated.worker.count
    scheduler = stated.scheduler or template.spec.scheduler_name
    if names is not None and scheduler not in names:
        return None
    kept = read_kept(item)
    if is_paused_by_owner(item, stated, kept):
        return None
    notes = Notes(item.metadata.annotations)
    least = most = Bound()
    if stated.resizable:
        least, most = _stated(notes, known.MIN_WORKERS, stated.least), _stated(notes, known.MAX_WORKERS, stated.most)
    bounded = any(b.value is not None or b.problem for b in (least, most))
    stops = Notes(item.metadata.annotations).read(known.HOLD, on_hold) is OnHold.STOP
    starts = stated.suspended and (names is None or scheduler != DEFAULT_SCHEDULER)
    if not bounded and (size < 1 or not (starts or kept.rigid or stops)):
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
        reserved=read_reserved(item),
        queue=stated.queue or _queue(item, template),
        priority_class=stated.priority_class or template.spec.priority_class_name,
        priority=stated.priority,
        category=category or stated.category,
        pool=pool or stated.pool,
        epochs=stated.epochs if epochs is None else epochs,
        restart=restart,
        broken=broken or notes.problem,
    )


def is_paused_by_owner(item: Object, stated: Stated, kept: Kept) -> bool:
    """Whether its owner suspended a job, and will resume it: Maar must not.

    Where Maar has never written a size, the owner may have created the job suspended, or have suspended it later. The
    notes tell: Maar notes the workers of each job that it may start, 0 while it is suspended, but not of a job of fixed
    size that was created running. Without notes and status, a job whose spec has changed since it was created counts as
    suspended later.
    """
    if not stated.suspended:
        return False
    if kept.running is not None:
        return kept.running
    if stated.ran:
        return True
    notes = item.metadata.annotations
    if known.WORKERS in notes:
        ours = notes[known.WORKERS] == "0" and notes.get(known.WHY) != PAUSED_BY_OWNER
    else:
        ours = stated.ran is False and known.WHY not in notes
    return item.metadata.generation > 1 and not ours


def notes_while_not_ours(item: Object, stated: Stated, names: frozenset[str] | None) -> dict[str, str | None]:
    """What has to change in Maar's notes on a job whose size its owner has taken over; `None` removes a note."""
    if names is not None and (stated.scheduler or stated.worker.template.spec.scheduler_name) not in names:
        return {}  # another Maar may have noted it
    wanted: dict[str, str | None] = dict.fromkeys(NOTES)
    if stated.suspended:
        wanted |= {known.WORKERS: "0", known.PLANNED: "0", known.WHY: PAUSED_BY_OWNER}
    there = item.metadata.annotations
    was_elastic = any(key in there for key in NOTES if key != known.WHY)
    if not (stated.suspended or was_elastic or there.get(known.WHY) == PAUSED_BY_OWNER):
        return {}  # it says why a job of fixed size waits
    return {key: wanted[key] for key in NOTES if key in there and there[key] != wanted[key]}


def read_kept(item: Object) -> Kept:
    """What Maar keeps on an object; empty if the annotation is invalid."""
    said = item.metadata.annotations.get(known.ELASTIC)
    if not said:
        return Kept()
    try:
        kept = msgspec.json.decode(said, type=Kept)
        if not 0 <= kept.requested <= MOST:
            raise ValueError(f"`requested`: expected a number from 0 to {MOST}, got `{kept.requested}`")
        for name in NUMBERS:
            if not 0 <= (getattr(kept, name) or 0.0) <= LARGEST:
                raise ValueError(f"`{name}`: expected a number from 0 to {LARGEST:g}, got `{getattr(kept, name)}`")
        return kept
    except ValueError as error:  # msgspec raises subclasses of it
        log.warning("%s: the annotation `%s` is ignored: %s", item.key, known.ELASTIC, error)
        return Kept()


def read_reserved(item: Object) -> tuple[tuple[str, int], ...]:
    """Room that is kept for future workers; none if the annotation is invalid."""
    said = item.metadata.annotations.get(known.HOLDS)
    if not said:
        return ()
    try:
        reserved = msgspec.json.decode(said, type=dict[str, int])
    except msgspec.DecodeError as error:
        log.warning("%s: the annotation `%s` is ignored: %s", item.key, known.HOLDS, error)
        return ()
    return tuple(sorted((node, count) for node, count in reserved.items() if count > 0))


def write_kept(kept: Kept) -> str:
    return msgspec.json.encode(kept).decode()


def write_reserved(reserved: tuple[tuple[str, int], ...]) -> str | None:
    """The annotation's text; `None` removes it."""
    return msgspec.json.encode(dict(reserved)).decode() if reserved else None


def _stated(notes: Notes, keys: tuple[str, ...], field: Bound) -> Bound:
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
