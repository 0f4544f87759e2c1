"""Trainings with hidden speed-ups on a real node: elastic Jobs whose pods run `sleeper`."""

from __future__ import annotations

import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.node import sleeper
from tests.support.node.node import GPU, RealNode
from tests.support.patience import wait_until
from tests.support.trainings import Kind, Training

MOUNT = "/shared"
PROGRAM = Path(sleeper.__file__).read_text()
PAUSE_S = 1.0
"""How long a training pauses when its workers change."""
TOLD = 16
"""Epochs of each size that a history is told: as many as it believes one job."""


class Sleepers:
    """The trainings of one namespace on a node, with `most` workers each. Maar listens at `url`."""

    def __init__(self, node: RealNode, namespace: str, image: str, url: str, most: int) -> None:
        self._node = node
        self._namespace = namespace
        self._image = image
        self._url = url
        self._most = most
        self._folder = node.folder / "sleepers" / namespace
        self._folder.mkdir(parents=True)
        node.cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])

    def tell(self, kind: Kind, epoch_seconds: float) -> None:
        """Report the true epochs of a kind on each number of workers, as if a job had trained before.

        An epoch on one worker takes about as long as those of the other trainings: the history compares them.
        """
        sizes = [(n, speed) for n, speed in kind.truth(self._most, self._most).items() for _ in range(TOLD)]
        reports = [
            {
                "epoch": epoch,
                "seconds": epoch_seconds / speed,
                "started": time.time() - 1e6,
                "workers": workers,
                "nodes": 1,
                "local_batch_size": sleeper.BATCH,
                "global_batch_size": sleeper.BATCH * workers,
                "step_seconds": sleeper.STEP_S * workers / speed,
                "category": kind.category,
                "accelerator": GPU,
            }
            for epoch, (workers, speed) in enumerate(sizes)
        ]
        path = f"/v1/jobs/{self._namespace}/told-{kind.category}/measurements"
        head = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, json.dumps(reports).encode(), head)
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert 202 == answer.status

    def submit(self, training: Training) -> None:
        folder = self._folder / training.name
        folder.mkdir()
        folder.chmod(0o777)
        self._node.cluster.apply([self._job(training)])
        training.submitted = time.time()

    def look(self, training: Training) -> bool:
        """Whether a training has ended; if so, note when."""
        finished = self._folder / training.name / "finished"
        if finished.exists():
            training.ended = float(finished.read_text())
        return bool(training.ended)

    def clear(self) -> None:
        """Delete all Jobs, and wait until their pods are gone."""
        for job in self._node.cluster.objects("batch/v1", "Job", self._namespace):
            self._node.cluster.delete({"apiVersion": "batch/v1", "kind": "Job", **job}, propagationPolicy="Background")
        wait_until(lambda: not self._node.pods(self._namespace), f"no pods in {self._namespace}")

    def _token(self) -> str:
        """A token of the namespace's account, which may report on all its jobs."""
        account = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/default"
        made: list[str] = []

        def is_made() -> bool:
            names = [a["metadata"]["name"] for a in self._node.cluster.objects("v1", "ServiceAccount", self._namespace)]
            if "default" in names:
                asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
                made.append(self._node.cluster.request("POST", f"{account}/token", asked)["status"]["token"])
            return bool(made)

        wait_until(is_made, f"an account in {self._namespace}")
        return made[0]

    def _job(self, training: Training) -> dict[str, Any]:
        speeds = [training.kind.speed(workers, 1) for workers in range(1, self._most + 1)]
        told = [f"--folder={MOUNT}", f"--epochs={training.epochs}", f"--seconds={training.epoch_seconds}"]
        told += [f"--pause={PAUSE_S}", "--speeds", *map(str, speeds)]
        container = {
            "name": "train",
            "image": self._image,
            "imagePullPolicy": "Never",
            "command": ["python3", "-c", PROGRAM, *told],
            "env": [{"name": "MAAR_URL", "value": self._url}, {"name": "MAAR_JOB", "value": training.name}],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {GPU: "1"}},
            "volumeMounts": [{"name": "shared", "mountPath": MOUNT}],
        }
        pod = {
            "schedulerName": "maar",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532},
            "containers": [container],
            "volumes": [{"name": "shared", "hostPath": {"path": str(self._folder / training.name)}}],
        }
        says = {
            "maar.dev/min-workers": "1",
            "maar.dev/max-workers": str(self._most),
            "maar.dev/category": training.kind.category,
            "maar.dev/epochs": str(training.epochs),
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": training.name, "namespace": self._namespace, "annotations": says},
            "spec": {
                "suspend": True,
                "completionMode": "Indexed",
                "parallelism": 1,
                "completions": 1,
                "backoffLimit": 1000,
                "template": {"spec": pod},
            },
        }
