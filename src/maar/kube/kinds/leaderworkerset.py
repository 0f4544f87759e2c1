"""LeaderWorkerSet `leaderworkerset.x-k8s.io`: each group, a leader with its workers, is a gang.

Where workers are created only once their leader is ready (`startupPolicy: LeaderReady`), or has a node (exclusive
placement), the leader is a gang and its workers are another. It cannot be suspended, and never ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from maar.kube.kinds.creating import CreatedMember
from maar.kube.kinds.creating import pod as created
from maar.kube.kinds.gang import GangSpec, from_object, set_minimum
from maar.kube.kinds.kind import Form, JobKind, Numbering
from maar.kube.wire.api_resources import Resource
from maar.kube.wire.base import Int, Object, Percentage, Wire
from maar.kube.wire.jobs import PodTemplate
from maar.kube.wire.pods import Pod

PREFIX = "leaderworkerset.sigs.k8s.io/"
NAME_LABEL, GROUP_LABEL, INDEX_LABEL = f"{PREFIX}name", f"{PREFIX}group-index", f"{PREFIX}worker-index"
EXCLUSIVE = f"{PREFIX}exclusive-topology"
LEADER = "0"
"""The number of a leader in its group."""
LONGEST_NUMBER = 10
"""Digits of the number of a group."""
FIRST = 16
"""Groups whose gangs are stated before they have pods; tuned by hand. An object of a few bytes can ask for thousands of
millions, and each of its changes states them again."""


class Template(Wire, frozen=True):
    """How large a group is, with its leader, and its pods; without a template of their own leaders are as workers."""

    size: Int = 1
    leader_template: PodTemplate | None = None
    worker_template: PodTemplate = PodTemplate()


class RollingUpdate(Wire, frozen=True):
    """How many groups more there may be while they are replaced."""

    max_surge: Percentage = 0


class RolloutStrategy(Wire, frozen=True):
    """How groups are replaced."""

    rolling_update_configuration: RollingUpdate = RollingUpdate()


class Spec(Wire, frozen=True):
    """What a LeaderWorkerSet is made of."""

    replicas: Int = 1
    leader_worker_template: Template = Template()
    startup_policy: str = ""
    rollout_strategy: RolloutStrategy = RolloutStrategy()

    @property
    def groups(self) -> int:
        """How many groups there may be. An update adds at most as many as there are."""
        surge = self.rollout_strategy.rolling_update_configuration.max_surge
        return self.replicas * 2 if surge not in (0, "0", "0%") else self.replicas


class LeaderWorkerSet(Object, frozen=True):
    """A LeaderWorkerSet."""

    spec: Spec = Spec()


def leads(item: LeaderWorkerSet) -> bool:
    """Whether workers are created only after their leader has started."""
    return item.spec.startup_policy == "LeaderReady" or bool(item.metadata.annotations.get(EXCLUSIVE))


def part(item: LeaderWorkerSet | None, pod: Pod) -> str | None:
    """A pod's group, or the workers of it."""
    labels = pod.metadata.labels
    group = labels.get(GROUP_LABEL)
    if not group:
        return None
    return _workers(group) if item is not None and leads(item) and labels.get(INDEX_LABEL) != LEADER else group


def _workers(group: str) -> str:
    return f"{group}-workers"


def gangs(item: LeaderWorkerSet) -> Iterator[GangSpec]:
    """The gangs of the first groups; the others are stated once they have pods."""
    for group in map(str, range(min(item.spec.groups, FIRST))):
        yield from (made for name in (group, _workers(group)) if (made := gang(item, name)) is not None)


def gang(item: LeaderWorkerSet, name: str) -> GangSpec | None:
    """The gang of a group, or of its workers; `None` if there is no such group."""
    number, _, rest = name.partition("-")
    if not number.isascii() or not number.isdecimal() or len(number) > LONGEST_NUMBER or number != str(int(number)):
        return None
    size, leading = item.spec.leader_worker_template.size, leads(item)
    workers = bool(rest)
    if int(number) >= item.spec.groups or (workers and (name != _workers(number) or not leading or size <= 1)):
        return None
    made = from_object(item)
    made.part = name
    set_minimum(made, "spec.leaderWorkerTemplate.size", size - 1 if workers else 1 if leading else size)
    return made


def creates(item: LeaderWorkerSet) -> Iterator[Pod]:
    """Each leader, and its workers unless they come later."""
    spec = item.spec.leader_worker_template
    size = 1 if leads(item) else spec.size
    for group in range(item.spec.replicas if size > 0 else 0):
        for index in range(size):
            labels = {NAME_LABEL: item.name, GROUP_LABEL: str(group), INDEX_LABEL: str(index)}
            name = f"{item.name}-{group}" if index == 0 else f"{item.name}-{group}-{index}"
            template = spec.leader_template if index == 0 and spec.leader_template else spec.worker_template
            yield created(item, KIND.resource, template, CreatedMember(name, labels))


KIND = JobKind(
    family="leaderworkerset",
    resource=Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", True, LeaderWorkerSet),
    writes={"": ("patch",)},
    title="owner",
    form=Form(templates=("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate")),
    about="each leader with its workers; with `LeaderReady` or exclusive placement the leader, then its workers",
    gangs=gangs,
    beyond=gang,
    labels=(NAME_LABEL,),
    part=part,
    role_labels=(INDEX_LABEL,),
    role_of=lambda index: "leader" if index == LEADER else "worker",
    numbering=Numbering(INDEX_LABEL),
    creates=creates,
)
