"""Thin structs that many job kinds share: pod templates and job conditions."""

from __future__ import annotations

from maar.kube.wire.base import Metadata, Time, Wire
from maar.kube.wire.pods import Container, PodSpec


class EnvVar(Wire, frozen=True):
    name: str = ""
    value: str = ""


class TemplateContainer(Container, frozen=True):
    """A container of a pod template; users of Voda set the bounds of a job in its environment."""

    env: tuple[EnvVar, ...] = ()


class TemplateSpec(PodSpec, frozen=True):
    containers: tuple[TemplateContainer, ...] = ()


class PodTemplate(Wire, frozen=True):
    metadata: Metadata = Metadata()
    spec: TemplateSpec = TemplateSpec()


class JobCondition(Wire, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class JobStatus(Wire, frozen=True):
    """The status of a job, as its controller reports it."""

    conditions: tuple[JobCondition, ...] = ()
    completion_time: Time | None = None

    def holds(self, *types: str) -> bool:
        """Whether one of these conditions is true."""
        return any(c.type in types and c.status == "True" for c in self.conditions)

    @property
    def ended_at(self) -> float | None:
        """The Unix time at which the job completed; `None` if the status does not say."""
        return None if self.completion_time is None else self.completion_time.timestamp()
