"""The roster: which pods each gang has, and which gangs still lack pods.

A part of the picture. A new pod is held back while its gang cannot start without others, so that a gang is read once
and not pod by pod. `pods` reads the pods that are due and enters them here; `gangs` makes gangs of them. It knows pods
by their keys only.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from maar.kube.kinds import Identity
from maar.kube.picture.groups import Groups, Restated
from maar.kube.wire.pods import Pod


class Roster:
    """Gangs and their pods, in both directions. Marks gangs whose pods have been read in `dirty`."""

    def __init__(self, groups: Groups, dirty: set[Identity]) -> None:
        self._groups = groups
        self._dirty = dirty
        self._gang_of: dict[str, Identity] = {}
        self._pods_of: dict[Identity, set[str]] = {}
        self._grew: dict[Identity, float] = {}
        """When a gang last got a pod."""
        self._short: dict[Identity, list[str]] = {}
        """New pods that are not read yet, because their gangs still lack pods."""
        self._foreign_of: dict[str, Identity] = {}
        self._foreign: dict[Identity, set[str]] = {}
        """Pods of other schedulers that name a gang."""

    # -- gangs and pods

    def gangs(self) -> Set[Identity]:
        return self._pods_of.keys()

    def has_pods(self, gang: Identity) -> bool:
        return gang in self._pods_of

    def pods(self, gang: Identity) -> list[str]:
        return sorted(self._pods_of.get(gang, ()))

    def grew(self, gang: Identity) -> float:
        """When a gang that has pods last got one."""
        return self._grew[gang]

    def enter(self, pod: str, gang: Identity | None, now: float) -> None:
        """A pod was read: it belongs to a gang, or to none because it does not count."""
        was = self._gang_of.get(pod)
        if was is not None:
            self._dirty.add(was)
            if was != gang:
                self._leave(pod, was)
        if gang is not None and was != gang:
            self._dirty.add(gang)
            self._gang_of[pod] = gang
            self._pods_of.setdefault(gang, set()).add(pod)
            self._grew[gang] = now

    def enter_foreign(self, pod: str, gang: Identity | None) -> None:
        """A pod of another scheduler names a gang, or none."""
        was = self._foreign_of.pop(pod, None)
        if was is not None:
            self._foreign[was].discard(pod)
            if not self._foreign[was]:
                del self._foreign[was]
                self._dirty.add(was)
        if gang is not None:
            self._foreign_of[pod] = gang
            self._foreign.setdefault(gang, set()).add(pod)
            self._dirty.add(gang)

    def is_foreign(self, gang: Identity) -> bool:
        """Whether pods of other schedulers belong to a gang: without pods of ours it is not ours."""
        return gang in self._foreign

    def mark(self, pods: Iterable[str]) -> None:
        """Mark the gangs of these pods to be made again."""
        self._dirty.update(self._gang_of[pod] for pod in pods if pod in self._gang_of)

    def mark_gangs(self, gangs: Iterable[Identity]) -> None:
        """Mark these gangs to be made again."""
        self._dirty.update(gangs)

    def _leave(self, pod: str, gang: Identity) -> None:
        del self._gang_of[pod]
        self._pods_of[gang].discard(pod)
        if not self._pods_of[gang]:
            del self._pods_of[gang], self._grew[gang]

    # -- pods to read

    def came(self, key: str, pod: Pod) -> Iterable[str]:
        """The pods to read now that this new pod without a node exists: none while its gang lacks pods."""
        identity = self._groups.identity_of(pod)
        group = self._groups.stated(identity)
        if group is None or group.minimum is None or group.owners or group.elastic is not None:
            return (key,)
        waiting = self._short.setdefault(identity, [])
        waiting.append(key)
        if len(self._pods_of.get(identity, ())) + len(waiting) < group.minimum:
            return ()
        return self._short.pop(identity)

    def short(self) -> list[str]:
        """Release all pods that were held back."""
        waiting = [pod for pods in self._short.values() for pod in pods]
        self._short.clear()
        return waiting

    def all_pods(self, groups: Iterable[Identity], jobs: Iterable[Identity]) -> set[str]:
        """The pods of PodGroups, and of all parts of jobs, whether they are ours or not."""
        jobs = tuple(jobs)
        gangs = (*groups, *(part for job in jobs for part in (job, *self._groups.parts(job))))
        found = {pod for gang in gangs for of in (self._pods_of, self._foreign) for pod in of.get(gang, ())}
        return found.union(*map(self._groups.pods_of_unkept, jobs))

    def restated(self, change: Restated, jobs: Iterable[Identity]) -> set[str]:
        """A PodGroup, which stood or stands for these jobs, has changed: the pods to read again."""
        identity, was, made = change
        again = set(self._short.pop(identity, ()))
        if was is None or made is None or was.owners != made.owners:
            # While there is no PodGroup its pods belong to the job itself, or to a part of it.
            again |= self.all_pods((identity,), jobs) | self._groups.pods_passed_over(identity)
        if (was is None or was.gang) != (made is None or made.gang):
            again.update(pod for pod, gang in self._gang_of.items() if gang.namespace == identity.namespace)
        return again
