"""What is known about elastic jobs beyond their objects: speed by number of workers, remaining time, restart cost.

The picture asks a source of knowledge (`maar.controller.history.knowledge`) when it makes an elastic job, and adds the
answer to what the job states. So the answer is in the snapshot and in every recording. What a job states comes first.
Without knowledge, speed is linear, times are unknown and restarts cost what the configuration says.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from maar.kube.kinds import Identity
from maar.kube.kinds.elastic import ElasticSpec
from maar.lengths.runtimes import Traits
from maar.lengths.traits import traits_of
from maar.model.elastic import Elastic
from maar.model.jobs import Job
from maar.model.lengths import Estimate
from maar.model.resources import is_accelerator
from maar.model.shapes import Shape

ACCELERATORS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "accelerator",
)
"""Node labels that name a kind of accelerator: those of device plugins and of clouds."""


class Who(msgspec.Struct, frozen=True):
    """What identifies a job for the history."""

    namespace: str
    name: str
    """The name of the job's own object."""
    category: str = ""
    """As the job states it."""
    accelerator: str = ""
    epochs: int | None = None
    traits: Traits = Traits()
    """What it is compared by with jobs that have ended, without a category and a declared limit."""
    requested: int = 0
    most: int = 0
    """The workers that its owner requested, and the most that it may have."""


class Learnt(msgspec.Struct, frozen=True):
    """What is known about a job; the fields are those of `Elastic`."""

    speedup: tuple[tuple[int, float], ...] = ()
    remaining: float = math.inf
    restart: float | None = None
    measured: int = 0
    length: Estimate | None = None
    kind: str = ""


Knowledge = Callable[[Who], Learnt]
"""What is known about a job now."""


class Learning:
    """What was learnt about each elastic job, by the gang that stands for it."""

    def __init__(self, knowledge: Knowledge | None) -> None:
        self._knowledge = knowledge
        self._used: dict[Identity, tuple[Who, Learnt]] = {}

    def laid_over(self, identity: Identity, job: Job, spec: ElasticSpec | None) -> Job:
        """A job with what is known about it."""
        if self._knowledge is None or job.elastic is None or spec is None:
            return job
        elastic = job.elastic
        who = replace(
            who_is(spec, elastic),
            traits=replace(traits_of(job, ()), limit=None),
            requested=elastic.requested or elastic.min,
            most=elastic.max,
        )
        learnt = self._knowledge(who)
        self._used[identity] = who, learnt
        restart = learnt.restart if spec.restart is None else spec.restart
        known = replace(
            elastic,
            speedup=learnt.speedup,
            measured=learnt.measured,
            remaining=learnt.remaining,
            restart=restart,
            length=learnt.length,
            kind=learnt.kind,
        )
        return replace(job, elastic=known)

    def forget(self, identity: Identity) -> None:
        """The gang is gone, or is made again."""
        self._used.pop(identity, None)

    def outdated(self) -> list[Identity]:
        """Gangs about which something new is known."""
        if self._knowledge is None:
            return []
        return [identity for identity, (who, learnt) in self._used.items() if self._knowledge(who) != learnt]


def who_is(spec: ElasticSpec, elastic: Elastic) -> Who:
    made = spec.worker.metadata
    return Who(made.namespace, made.name, spec.category, accelerator_of(elastic), spec.epochs)


def accelerator_of(elastic: Elastic) -> str:
    """The accelerator of a job: its pool, the accelerator that its workers select, or the resource that they use.

    Empty where it uses none.
    """
    if elastic.pool:
        return elastic.pool
    selected = _selected(elastic.shape)
    for label in ACCELERATORS:
        if label in selected:
            return selected[label]
    return next((name for name, amount in elastic.shape.requests if amount and is_accelerator(name)), "")


def _selected(shape: Shape) -> dict[str, str]:
    """Labels for which a worker requires exactly one value."""
    wanted = list(shape.node_selector)
    if shape.node_terms is not None and len(shape.node_terms) == 1:
        wanted.extend(shape.node_terms[0].expressions)
    return {r.key: r.values[0] for r in wanted if r.operator == "In" and len(r.values) == 1}
