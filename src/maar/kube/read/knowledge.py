"""What is known of elastic jobs beyond their objects: how fast they are on how many workers, how long they still take.

The picture asks whoever knows (`maar.controller.knowledge`, from the history) when it makes an elastic job, and lays
the answer over what the job itself says; so it is in the snapshot and in every recording. What a job says comes first.
Nobody need know anything: then curves are linear, times are unknown and restarts cost what the configuration says.
"""

from __future__ import annotations

import math
from typing import Protocol

import msgspec
from msgspec.structs import replace

from maar.kube.kinds import Identity
from maar.kube.kinds.elastic import ElasticSpec
from maar.model.elastic import Elastic
from maar.model.jobs import Job
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
    """A job, as far as it matters to what is known of it."""

    namespace: str
    name: str
    """Of the job's own object."""
    category: str = ""
    """As it says itself."""
    accelerator: str = ""
    epochs: int | None = None


class Learnt(msgspec.Struct, frozen=True):
    """What is known of a job; the fields are those of `Elastic`."""

    speedup: tuple[tuple[int, float], ...] = ()
    remaining: float = math.inf
    restart: float | None = None


class Knowledge(Protocol):
    """Somebody who knows."""

    def of(self, who: Who) -> Learnt:
        """What is known of a job now."""


class Learning:
    """What was learnt of each elastic job in the picture, by the gang that stands for it."""

    def __init__(self, knowledge: Knowledge | None) -> None:
        self._knowledge = knowledge
        self._used: dict[Identity, tuple[Who, Learnt]] = {}

    def laid_over(self, identity: Identity, job: Job, spec: ElasticSpec | None) -> Job:
        """A job with what is known of it."""
        if self._knowledge is None or job.elastic is None or spec is None:
            return job
        who = who_is(spec, job.elastic)
        learnt = self._knowledge.of(who)
        self._used[identity] = who, learnt
        restart = learnt.restart if spec.restart is None else spec.restart
        known = replace(job.elastic, speedup=learnt.speedup, remaining=learnt.remaining, restart=restart)
        return replace(job, elastic=known)

    def forget(self, identity: Identity) -> None:
        """The gang is gone, or is made anew."""
        self._used.pop(identity, None)

    def outdated(self) -> list[Identity]:
        """Gangs of which something else is known by now."""
        if self._knowledge is None:
            return []
        return [identity for identity, (who, learnt) in self._used.items() if self._knowledge.of(who) != learnt]


def who_is(spec: ElasticSpec, elastic: Elastic) -> Who:
    """Who an elastic job is."""
    made = spec.worker.metadata
    return Who(made.namespace, made.name, spec.category, accelerator_of(elastic), spec.epochs)


def accelerator_of(elastic: Elastic) -> str:
    """On what a job runs: the pool that it names, the accelerator that its workers select, or the resource they use.

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
    """Labels of which a worker wants exactly one value."""
    wanted = list(shape.node_selector)
    if shape.node_terms is not None and len(shape.node_terms) == 1:
        wanted.extend(shape.node_terms[0].expressions)
    return {r.key: r.values[0] for r in wanted if r.operator == "In" and len(r.values) == 1}
