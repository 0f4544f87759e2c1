"""Elastic jobs among the gangs: what was decided about a job and not yet seen, and the gang that it makes.

Where a PodGroup belongs to an elastic job, the PodGroup's gang is the job. Operators delete the PodGroup while the job
is suspended; then the job itself is the gang, with or without pods. Either way the minimum is that of the job's bounds,
whatever its PodGroup says today: operators let that follow the size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from maar.kube.kinds import role
from maar.kube.kinds.elastic import ElasticSpec, Kept
from maar.kube.kinds.gang import GangSpec
from maar.kube.read.neighbours import Matcher
from maar.kube.read.shapes import Shapes, names_of, selectors_of
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import Pod
from maar.model.jobs import Job
from maar.model.selectors import PodSelector
from maar.model.shapes import Shape

MOST_SHAPES = 30
"""Different templates of the pods beside the workers; tuned by hand. While such a job waits, every cycle looks for room
for each of them, several times: with 10,000 of them that took 14 seconds."""


class AssumedJob(msgspec.Struct, frozen=True):
    """The state of an elastic job once all decisions are carried out."""

    uid: str
    size: int
    suspended: bool
    kept: Kept
    reserved: tuple[tuple[str, int], ...] = ()
    written: str = ""
    """The version of the object that has this state; empty until the API server has answered."""


def laid_over(spec: ElasticSpec, assumed: AssumedJob | None) -> ElasticSpec:
    if assumed is None:
        return spec
    of = assumed
    return replace(spec, size=of.size, suspended=of.suspended, kept=of.kept, reserved=of.reserved)


def is_seen(spec: ElasticSpec | None, uid: str, version: str, assumed: AssumedJob) -> bool:
    """Whether an object has the assumed state, or can no longer get it."""
    if spec is None or uid != assumed.uid:
        return True
    kept = replace(assumed.kept, running=spec.kept.running)
    if laid_over(spec, replace(assumed, kept=kept)) == spec:
        return True
    return bool(assumed.written) and not _is_older(version, assumed.written)


def _is_older(version: str, than: str) -> bool:
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def joined(gang: GangSpec, owner: GangSpec) -> GangSpec:
    """The gang of a PodGroup that belongs to an elastic job: as old as the job, and with its spec."""
    assert owner.elastic is not None
    return with_elastic_spec(replace(gang, created=owner.created), owner.elastic)


def without_elastic(gang: GangSpec) -> GangSpec:
    """The gang of an elastic job for which a PodGroup stands."""
    return replace(gang, elastic=None, stands=False)


def with_elastic_spec(gang: GangSpec, spec: ElasticSpec) -> GangSpec:
    """A gang with its queue and priority as its elastic job states them; it is a job even without pods.

    So is its minimum, unless its size never changes.
    """
    made = replace(
        gang,
        gang=True,
        stands=True,
        elastic=spec,
        queue=gang.queue or spec.queue,
        priority_class=gang.priority_class or spec.priority_class,
        priority=spec.priority if gang.priority is None else gang.priority,
    )
    if spec.broken:
        made.broken = gang.broken or spec.broken
        return made
    if spec.rigid:
        return made  # as if it had never been suspended
    made.minimum, made.whole = spec.min + len(spec.beside), False
    made.role_min = {
        name: min(least, spec.min) if name == spec.role else least for name, least in gang.role_min.items()
    }
    if spec.beside:
        # Workers do not stand in for a master or a launcher.
        named = {number: role(pod) for number, pod in _different(spec.beside).items()}
        made.role_min = {spec.role: spec.min, **Counter(named[id(pod)] for pod in spec.beside)}
    made.min_resources = None
    return made


def selectors_of_workers(spec: ElasticSpec, shapes: Shapes) -> frozenset[PodSelector]:
    """The selectors of other pods that future pods will use."""
    pods = _different((spec.worker, *spec.beside)).values()
    if all(p.spec.affinity is None and not p.spec.topology_spread_constraints for p in pods):
        return frozenset()
    try:
        return frozenset(found for pod in pods for found in selectors_of(shapes.draft(pod)))
    except Exception:  # noqa: BLE001 whatever it is, the job itself meets it again when it is made, and gets the reason
        return frozenset()


def with_elastic(job: Job, spec: ElasticSpec | None, shapes: Shapes, matcher: Matcher, images: Collection[str]) -> Job:
    """A job with what its workers ask for; a template that cannot be read breaks it. Some node has each of `images`."""
    if spec is None or spec.broken:
        return job

    def shape(pod: Pod) -> Shape:
        here = tuple(sorted(names_of(pod.spec).intersection(images))) if images else ()
        return shapes.finish(shapes.draft(pod, images=here), pod, matcher)

    try:
        made = {number: shape(pod) for number, pod in _different((spec.worker, *spec.beside)).items()}
    except FieldError as error:
        return replace(job, broken=job.broken or f"template of its workers: {error}")
    beside = tuple(made[id(pod)] for pod in spec.beside)
    if (count := len(set(beside))) > MOST_SHAPES:
        problem = f"pods beside its workers: expected at most {MOST_SHAPES} different templates, got {count}"
        return replace(job, broken=job.broken or problem)
    return replace(job, elastic=spec.elastic(made[id(spec.worker)], beside))


def _different(pods: Iterable[Pod]) -> dict[int, Pod]:
    """Each pod once, by its id: those of one role, of which there may be thousands, are one object."""
    return {id(pod): pod for pod in pods}
