"""The users of a large cluster that shards divide: bursts of gangs in several queues with limits, and elastic jobs.

Gangs are ReplicaSets with a PodGroup, so that a controller replaces evicted pods.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from tests.support.faults.jobs import GROUP, PATHS, PRIORITIES, REPLICA_SETS, Elastic, Job, Owned
from tests.support.faults.users import GPUS, Users
from tests.support.faults.witness import Witness
from tests.support.live import GPU, Live

QUEUES: Mapping[str, float] = {"red": 0.3, "blue": 0.4, "white": 1.0, "green": 0.35}
"""The top-level queues, and their limits as shares of all GPUs. With 2 to 4 shards every shard gets some of them."""
CHILDREN: Mapping[str, float] = {"green-a": 0.2, "green-b": 0.35}
"""The queues below `green`."""
LEAVES = ("red", "blue", "white", "green-a", "green-b")
LOAD = 1.25
"""Jobs arrive while all jobs request less than this share of the cluster."""
BURST = (1, 12)
"""Gangs that arrive at once."""
CREATING = 16
"""Nodes that are created at once."""


class Gang(Owned):
    """A gang of 2 to 16 pods."""

    resource = Job.resource

    def __init__(self, name: str, dice: random.Random, nodes: int) -> None:
        super().__init__(name, dice, nodes)
        self.queue = dice.choice(LEAVES)
        self.size, self.each = dice.randint(2, 16), dice.choice((1, 2, 2, 4))

    async def create(self, users: Users) -> None:
        await users.write(lambda live: live.create(PATHS[self.resource], self.body()))
        await users.write(lambda live: live.create(PATHS[REPLICA_SETS], self.replica_set()))
        await self.repair(users)

    def replica_set(self) -> dict[str, Any]:
        labels = {"app": self.name}
        template = {"metadata": {"labels": labels, "annotations": {GROUP: self.name}}, **self.template("c")}
        spec = {"replicas": self.size, "selector": {"matchLabels": labels}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": self.metadata(), "spec": spec}

    async def delete(self, users: Users) -> None:
        """Delete the pods, and the group after the last of them: without it they would count for another queue."""
        await users.write(lambda live: live.api.delete(f"{PATHS[REPLICA_SETS]}/{self.name}"))
        assert isinstance(users, Crowd)
        users.leaving.append(self)


class Broad(Gang):
    """A gang of whole nodes, a tenth of the cluster. It borrows nodes, or preempts."""

    def __init__(self, name: str, dice: random.Random, nodes: int) -> None:
        super().__init__(name, dice, nodes)
        self.size, self.each = max(nodes // 10, 2), GPUS


class Growing(Elastic):
    """An elastic PyTorchJob of 2 to 12 workers in any queue."""

    def __init__(self, name: str, dice: random.Random, nodes: int) -> None:
        super().__init__(name, dice, nodes)
        self.queue, self.most = dice.choice(LEAVES), dice.randint(4, 12)

    async def delete(self, users: Users) -> None:
        """Delete the job after its pods: without it they would count for another queue."""
        path = f"{PATHS[self.resource]}/{self.name}"
        users.expect_removal(self.resource, self.name)
        options = {"propagationPolicy": "Foreground"}
        await users.write(lambda live: live.api.request("DELETE", path, body=options))

    def body(self) -> dict[str, Any]:
        made = super().body()
        made["spec"]["runPolicy"]["schedulingPolicy"]["queue"] = self.queue
        return made


KINDS: dict[str, type[Job]] = {"gang": Gang, "broad": Broad, "growing": Growing}
CHANCES = ("gang",) * 20 + ("growing",) * 4 + ("broad",)


class Crowd(Users):
    """All users of a large cluster."""

    most_ends = 3  # hundreds of pods that end at once would keep the API server of a small machine busy for seconds

    def __init__(self, live: Live, witness: Witness, dice: random.Random, nodes: int, elastic: bool = True) -> None:
        super().__init__(live, witness, dice, nodes, tuple(kind for kind in CHANCES if elastic or kind != "growing"))
        self.leaving: list[Job] = []
        """Gangs whose pods are being deleted."""

    async def begin(self) -> None:
        for first in range(0, self.nodes, CREATING):
            some = range(first, min(first + CREATING, self.nodes))
            await asyncio.gather(*(self._live.nodes(1, gpu=GPUS, first=i) for i in some))
        for name, value in PRIORITIES.items():
            await self._live.priority(name, value)
        for name, share in QUEUES.items():
            await self._live.queue(name, reclaimable=True, capability=self._limit(share))
        for name, share in CHILDREN.items():
            await self._live.queue(name, reclaimable=True, capability=self._limit(share), parent="green")

    def _limit(self, share: float) -> dict[str, str]:
        return {GPU: str(int(share * GPUS * self.nodes))}

    async def look(self) -> None:
        await super().look()
        for job in [job for job in self.leaving if not self.pods(job.name)]:
            self.leaving.remove(job)
            await self.remove(job.resource, job.name)

    async def _arrive(self) -> None:
        """A burst of jobs now and then, all at once."""
        asked = sum(job.gpus for job in self.jobs.values())
        if asked < LOAD * GPUS * self.nodes:
            await asyncio.gather(
                *(self.submit(self._dice.choice(self._kinds)) for _ in range(self._dice.randint(*BURST)))
            )

    def _make(self, kind: str, name: str) -> Job:
        return KINDS[kind](name, self._dice, self.nodes)

    async def return_nodes(self) -> None:
        """No node is ever away."""
