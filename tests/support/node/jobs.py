"""Jobs for tests on a real node, whose processes write down what happens to them."""

from __future__ import annotations

from typing import Any

from tests.support.node.node import GPU, RealNode
from tests.support.patience import wait_until

MOUNT = "/shared"
SAVING_S = 2.0
"""How long a process takes to save its work after SIGTERM. Far less than its grace period."""
GRACE_S = 30

PROGRAM = f"""
import os, pathlib, signal, sys, time

folder = pathlib.Path("{MOUNT}", os.environ["JOB"], os.environ["POD"])
folder.mkdir(parents=True)

def note(name):
    (folder / name).write_text(str(time.time()))

def stop(*_):
    note("asked")
    time.sleep({SAVING_S})
    note("saved")
    sys.exit(143)

signal.signal(signal.SIGTERM, stop)
note("started")
while not (folder.parent / "end").exists():
    time.sleep(0.1)
note("ended")
"""
"""It waits until its job is told to end. Each note is a file with the time."""


class Jobs:
    """The jobs of one namespace on a node. Each namespace has a folder of the machine for its processes' notes."""

    def __init__(self, node: RealNode, namespace: str, image: str) -> None:
        self._node = node
        self.namespace = namespace
        self._image = image
        self._folder = node.folder / "shared" / namespace
        self._folder.mkdir(parents=True)
        self._folder.chmod(0o777)
        node.cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])

    def submit(self, name: str, pods: int, gpus: int, priority: str = "", *, in_pool: bool = False) -> Any:
        """A gang: a Job of some pods with some GPUs each. With `in_pool`, elastic jobs shrink for it."""
        (self._folder / name).mkdir()
        (self._folder / name).chmod(0o777)
        template = {
            "schedulerName": "maar",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": GRACE_S,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532},
            "containers": [
                {
                    "name": "main",
                    "image": self._image,
                    "imagePullPolicy": "Never",
                    "command": ["python3", "-c", PROGRAM],
                    "env": [
                        {"name": "JOB", "value": name},
                        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    ],
                    "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {GPU: str(gpus)}},
                    "volumeMounts": [{"name": "shared", "mountPath": MOUNT}],
                }
            ],
            "volumes": [{"name": "shared", "hostPath": {"path": str(self._folder)}}],
        }
        if priority:
            template["priorityClassName"] = priority
        notes = {"maar.dev/gang": "true"}
        if in_pool:
            notes |= {"maar.dev/min-workers": str(pods), "maar.dev/max-workers": str(pods)}
        ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": notes},
            "spec": {
                "parallelism": pods,
                "completions": pods,
                "suspend": in_pool,
                "podFailurePolicy": {"rules": [ignore]},
                "template": {"spec": template},
            },
        }
        return self._node.cluster.apply([job])[0]

    def end(self, name: str) -> None:
        """Tell the processes of a job to end."""
        if (self._folder / name).is_dir():
            (self._folder / name / "end").touch()

    def clear(self) -> None:
        """Delete all jobs, and wait until their pods are gone."""
        for job in self._node.cluster.objects("batch/v1", "Job", self.namespace):
            self.end(job["metadata"]["name"])
            self._node.cluster.delete({"apiVersion": "batch/v1", "kind": "Job", **job}, propagationPolicy="Background")
        wait_until(lambda: not self._node.pods(self.namespace), f"no pods in {self.namespace}")

    def pods(self, name: str) -> list[Any]:
        return self._node.pods(self.namespace, f"batch.kubernetes.io/job-name={name}")

    def job(self, name: str) -> Any:
        return self._node.cluster.get("batch/v1", "Job", name, self.namespace)

    def noted(self, name: str, note: str) -> list[float]:
        """When each process of a job wrote a note, in order. A file that is still empty is not written yet."""
        texts = [path.read_text() for path in (self._folder / name).glob(f"*/{note}")]
        return sorted(float(text) for text in texts if text)

    def await_noted(self, name: str, note: str, count: int) -> list[float]:
        wait_until(lambda: len(self.noted(name, note)) >= count, f"{count} pods of {name}: {note}")
        return self.noted(name, note)

    def await_complete(self, name: str) -> None:
        def complete() -> bool:
            conditions = self.job(name).get("status", {}).get("conditions", ())
            return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)

        wait_until(complete, f"{name} is complete")


def containers(pods: list[Any]) -> dict[str, str]:
    """The container of each pod, by its id: another id means that it was started again."""
    return {pod["metadata"]["name"]: status["containerID"] for pod in pods for status in _statuses(pod)}


def reason(pods: list[Any]) -> str:
    """Why the pods are not scheduled, by the condition of the first."""
    conditions = pods[0]["status"].get("conditions", ()) if pods else ()
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


def _statuses(pod: Any) -> list[Any]:
    return [status for status in pod["status"].get("containerStatuses", []) if status.get("containerID")]
