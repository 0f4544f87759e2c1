"""The jobs of users in fault tests: gangs, wide gangs, single pods, batch Jobs, elastic PyTorchJobs."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.support.faults.gangs import JOBS, PODGROUPS, PYTORCHJOBS
from tests.support.live import GPU, NAMESPACE

from maar.kube.wire.api_resources import PODS

if TYPE_CHECKING:
    from tests.support.faults.users import Users

QUEUES = ("red", "blue")
REPLICA_SETS = "replicasets"
PRIORITIES = {"low": 0, "high": 50}
PATHS = {
    "pods": PODS.path(NAMESPACE),
    PODGROUPS: f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups",
    PYTORCHJOBS: f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/pytorchjobs",
    JOBS: f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    REPLICA_SETS: f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets",
}
GROUP = "scheduling.k8s.io/group-name"


class Job:
    """A job of one user. `uid` is that of the object that makes its gang."""

    resource = PODGROUPS

    def __init__(self, name: str, dice: random.Random, nodes: int) -> None:
        self.name = name
        self.uid = ""
        self.size = dice.randint(2, 5)
        self.each = 2
        """GPUs of a pod."""
        self.priority = dice.choice(("low", "low", "high"))
        self.queue = dice.choice(("default", *QUEUES))
        self._lives: dict[int, int] = {}
        """How often each pod was replaced."""
        self._seen: set[str] = set()

    @property
    def gpus(self) -> int:
        return self.size * self.each

    async def create(self, users: Users) -> None:
        """Create the object of the gang, and then its pods."""
        await users.write(lambda live: live.create(PATHS[self.resource], self.body()))
        await self.repair(users)

    def body(self) -> dict[str, Any]:
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
        spec = {"minMember": self.size, "queue": self.queue, "priorityClassName": self.priority}
        return {**head, "metadata": self.metadata(), "spec": spec}

    def metadata(self) -> dict[str, Any]:
        return {"name": self.name, "namespace": NAMESPACE}

    async def repair(self, users: Users) -> None:
        """Create the pods that are missing, as a controller does."""
        made = users.object(self.resource, self.name)
        self.uid = self.uid or ("" if made is None else made["metadata"]["uid"])
        for i in range(self.size):
            if users.pod(self.pod_name(i)) is not None:
                self._seen.add(self.pod_name(i))
                continue
            if self.pod_name(i) in self._seen:
                self._lives[i] = self._lives.get(i, 0) + 1
            await users.write(lambda live, i=i: live.pod(  # type: ignore[misc]
                self.pod_name(i), gpu=self.each, metadata=self.of_pod(), priorityClassName=self.priority
            ))  # fmt: skip

    def pod_name(self, i: int) -> str:
        """The name of a pod. A replacement has a name of its own, because kwok deletes pods by name, maybe late."""
        return f"{self.name}-{i}" + (f"-{self._lives[i]}" if i in self._lives else "")

    def of_pod(self) -> dict[str, Any]:
        return {"annotations": {GROUP: self.name}}

    def ran(self, users: Users) -> bool:
        """Whether a job without an object of its own has run."""
        return False

    async def delete(self, users: Users) -> None:
        for i in range(self.size):
            await users.remove("pods", self.pod_name(i))
        await users.remove(self.resource, self.name)


class Wide(Job):
    """A gang of whole nodes. It waits long, so nodes are locked for it."""

    def __init__(self, name: str, dice: random.Random, nodes: int) -> None:
        super().__init__(name, dice, nodes)
        self.size, self.each, self.priority = max(nodes // 2, 1), 8, "low"


class Hopeless(Job):
    """A gang that is larger than the cluster. Nothing may be kept for it."""

    def __init__(self, name: str, dice: random.Random, nodes: int) -> None:
        super().__init__(name, dice, nodes)
        self.size, self.each, self.priority = nodes + 1, 8, "high"


class Single(Job):
    """One pod alone."""

    def __init__(self, name: str, dice: random.Random, nodes: int) -> None:
        super().__init__(name, dice, nodes)
        self.size, self.each = 1, dice.choice((1, 2, 4))

    async def create(self, users: Users) -> None:
        await self.repair(users)

    def of_pod(self) -> dict[str, Any]:
        return {}

    async def repair(self, users: Users) -> None:
        await super().repair(users)
        self.uid = ""

    def ran(self, users: Users) -> bool:
        pod = users.pod(self.pod_name(0))
        return pod is not None and bool(pod["spec"].get("nodeName"))

    async def delete(self, users: Users) -> None:
        await users.remove("pods", self.pod_name(0))


class Owned(Job):
    """A job whose controller creates and deletes its pods."""

    async def repair(self, users: Users) -> None:
        made = users.object(self.resource, self.name)
        self.uid = self.uid or ("" if made is None else made["metadata"]["uid"])

    async def delete(self, users: Users) -> None:
        await users.remove(self.resource, self.name)

    def template(self, container: str) -> dict[str, Any]:
        resources = {"requests": {"cpu": "100m"}, "limits": {GPU: str(self.each)}}
        return {
            "spec": {
                "schedulerName": "maar",
                "priorityClassName": self.priority,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": container, "image": "train", "command": ["train"], "resources": resources}],
            }
        }


class Batch(Owned):
    """A Job of `batch` whose pods are a gang. kwok completes its pods."""

    resource = JOBS

    def body(self) -> dict[str, Any]:
        template = self.template("c")
        template["metadata"] = {"annotations": {"maar.dev/gang": "true"}}
        template["spec"]["restartPolicy"] = "Never"
        spec = {"parallelism": self.size, "completions": self.size, "backoffLimit": 1000, "template": template}
        notes = {"annotations": {"maar.dev/gang": "true"}}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**self.metadata(), **notes}, "spec": spec}


class Elastic(Owned):
    """An elastic PyTorchJob of 2 to 6 workers."""

    resource = PYTORCHJOBS

    def __init__(self, name: str, dice: random.Random, nodes: int) -> None:
        super().__init__(name, dice, nodes)
        self.size, self.each, self.most = 2, 1, dice.randint(3, 6)

    def body(self) -> dict[str, Any]:
        worker = {"replicas": self.size, "restartPolicy": "OnFailure", "template": self.template("pytorch")}
        spec = {
            "runPolicy": {"suspend": True, "schedulingPolicy": {"minAvailable": self.size}},
            "elasticPolicy": {"minReplicas": self.size, "maxReplicas": self.most, "rdzvBackend": "c10d"},
            "pytorchReplicaSpecs": {"Worker": worker},
        }
        return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": self.metadata(), "spec": spec}


KINDS: dict[str, type[Job]] = {"gang": Job, "wide": Wide, "single": Single, "batch": Batch, "elastic": Elastic}


def make(kind: str, name: str, dice: random.Random, nodes: int) -> Job:
    return KINDS[kind](name, dice, nodes)
