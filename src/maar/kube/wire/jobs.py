"""Thin structs that objects of many job kinds share: templates of pods, and conditions that say how a job is doing."""

from __future__ import annotations

from maar.kube.wire.base import Metadata, Time, Wire
from maar.kube.wire.pods import Container, PodSpec


class EnvVar(Wire, frozen=True):
    """A variable of a container's environment."""

    name: str = ""
    value: str = ""


class TemplateContainer(Container, frozen=True):
    """A container of a template, with its environment, in which Voda's users state bounds."""

    env: tuple[EnvVar, ...] = ()


class TemplateSpec(PodSpec, frozen=True):
    """What the pods of a template will ask for."""

    containers: tuple[TemplateContainer, ...] = ()


class PodTemplate(Wire, frozen=True):
    """What a controller creates pods from."""

    metadata: Metadata = Metadata()
    spec: TemplateSpec = TemplateSpec()


class JobCondition(Wire, frozen=True):
    """One condition of a job's status."""

    type: str = ""
    status: str = ""
    reason: str = ""


class JobStatus(Wire, frozen=True):
    """How a job is doing, as its controller says."""

    conditions: tuple[JobCondition, ...] = ()
    completion_time: Time | None = None

    def holds(self, *types: str) -> bool:
        """Whether one of these conditions is true."""
        return any(c.type in types and c.status == "True" for c in self.conditions)

    @property
    def ended_at(self) -> float | None:
        """When the job completed, where the status says so."""
        return None if self.completion_time is None else self.completion_time.timestamp()
