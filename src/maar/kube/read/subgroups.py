"""The subgroups of a gang's pods: a policy selects pods by labels, and divides them by the values of some labels.

As in Volcano, a pod belongs to the first policy that it matches. A pod without a value for one of the keys does not
match; a pod that matches no policy is in no subgroup and starts by itself. Unlike in Volcano, the pods of a policy
without keys are one subgroup.
"""

from __future__ import annotations

import msgspec

from maar.kube.kinds.gang import GangSpec, SubgroupSpec
from maar.kube.read.selectors import Test, selector
from maar.kube.read.tasks import Member
from maar.model.selectors import Labels
from maar.model.tasks import Subgroup

MOST_SUBGROUPS = 1000
"""Subgroups of one gang, which are placed one after the other. Tuned by hand."""


class Divided(msgspec.Struct):
    """The subgroup of each pod that is in one, by its key."""

    of: dict[str, Subgroup]
    broken: str = ""
    doubt: str = ""
    """What its owner probably did not mean."""


def divide(stated: GangSpec, members: list[Member]) -> Divided:
    """The pods of a gang in subgroups. A gang that is invalid for this reason keeps its pods undivided."""
    if stated.elastic is not None:
        return Divided({}, "spec.subGroupPolicy: not possible for an elastic job, whose workers come and go one by one")
    policies = [Policy(i, spec) for i, spec in enumerate(stated.subgroups)]
    made = Divided({})
    for member in members:
        key, labels = member.pod.key, member.pod.metadata.labels
        selecting = [policy for policy in policies if policy.selects(labels)]
        found = [subgroup for policy in selecting if (subgroup := policy.subgroup(labels)) is not None]
        if found:
            made.of[key] = found[0]
        if len(found) > 1 and not made.doubt:
            names = [f"`{stated.subgroups[subgroup.policy].policy.name}`" for subgroup in found]
            made.doubt = f"pod `{key}` matches the policies {' and '.join(names[:3])}: only {names[0]} counts"
        elif selecting and not found and not made.doubt:
            what = (
                f"policy `{selecting[0].name}` selects pod `{key}`, which has no label `{selecting[0].lacks(labels)}`"
            )
            made.doubt = f"{what}: it is in no subgroup and starts by itself"
    if (count := len(set(made.of.values()))) > MOST_SUBGROUPS:
        return Divided({}, f"spec.subGroupPolicy: expected at most {MOST_SUBGROUPS} subgroups, its pods make {count}")
    return made


class Policy:
    """A policy that is compared with many pods."""

    def __init__(self, number: int, spec: SubgroupSpec) -> None:
        self.name = spec.policy.name
        self._number = number
        self._keys = spec.keys
        self._test = None if spec.selector is None else Test(selector(spec.selector))

    def selects(self, labels: Labels) -> bool:
        return self._test is None or self._test.matches(labels)

    def subgroup(self, labels: Labels) -> Subgroup | None:
        """The subgroup of a selected pod, or `None` without a value for one of the keys."""
        values = tuple(labels.get(key, "") for key in self._keys)
        return Subgroup(self._number, values) if all(values) else None

    def lacks(self, labels: Labels) -> str:
        """The first key for which a pod has no value."""
        return next((key for key in self._keys if not labels.get(key)), "")
