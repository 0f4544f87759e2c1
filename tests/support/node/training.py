"""The example in examples/training on a real node: its manifest as this cluster needs it, and what it has saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from tests.support.node.node import GPU, RealNode
from tests.support.patience import wait_until
from tests.support.real.parts import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "training"
EACH_EPOCH = "    while progress.epoch < options.epochs:\n"
WAITS = """\
        while progress.epoch == options.epochs - 1 and (folder / "wait").exists():
            time.sleep(0.1)
"""
"""Added to the example: the last epoch does not begin before a test allows it."""


class Training:
    """The Job `digits` of the example, in a namespace. `gpus` are those of each worker."""

    def __init__(self, node: RealNode, namespace: str, image: str, url: str, epochs: int, gpus: int) -> None:
        self._node = node
        self._namespace = namespace
        self._folder = node.folder / "checkpoints"
        self._folder.mkdir()
        self._folder.chmod(0o777)
        self._job = yaml.safe_load((EXAMPLE / "job.yaml").read_text())
        self._job["metadata"]["namespace"] = namespace
        spec = self._job["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        container |= {"image": image, "imagePullPolicy": "Never"}
        container["command"] = [f"--epochs={epochs}" if "--epochs" in word else word for word in container["command"]]
        container["resources"]["limits"][GPU] = str(gpus)
        (address,) = [variable for variable in container["env"] if variable["name"] == "MAAR_URL"]
        address["value"] = url  # there is no DNS here
        (volume,) = [volume for volume in spec["volumes"] if "hostPath" in volume]
        volume["hostPath"]["path"] = str(self._folder)
        self._waits = self._folder / self.name / "wait"

    @property
    def name(self) -> str:
        name: str = self._job["metadata"]["name"]
        return name

    def submit(self) -> None:
        code = (EXAMPLE / "train.py").read_text()
        assert EACH_EPOCH in code
        script = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "training", "namespace": self._namespace},
            "data": {"train.py": code.replace(EACH_EPOCH, EACH_EPOCH + WAITS)},
        }
        self._waits.parent.mkdir()
        self._waits.parent.chmod(0o777)
        self._waits.touch()
        self._node.cluster.apply([script, self._job])

    def may_end(self) -> None:
        """Let the last epoch begin."""
        self._waits.unlink()

    def saved(self) -> dict[str, Any]:
        """The last checkpoint, without the weights."""
        path: Path = self._folder / self.name / "checkpoint.npz"
        if not path.exists():
            return {"epoch": 0, "step": 0, "epochs": [], "finished": False}
        with np.load(path) as saved:
            rest: dict[str, Any] = json.loads(str(saved["rest"]))
            return rest

    def epochs(self) -> list[dict[str, Any]]:
        epochs: list[dict[str, Any]] = self.saved()["epochs"]
        return epochs

    def said(self) -> str:
        """What all its workers have printed so far."""
        return self._node.log(self._namespace, f"{self.name}-*")

    def await_workers(self, count: int, epochs: int) -> None:
        """Wait until this many more epochs have ended with a number of workers."""
        begin = len(self.epochs())

        def trained() -> bool:
            return len([entry for entry in self.epochs()[begin:] if entry["workers"] == count]) >= epochs

        try:
            wait_until(trained, f"{epochs} epochs with {count} workers")
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.story()}") from late

    def story(self) -> str:
        """What its pods do, for the message of a failure."""
        pods = self._node.pods(self._namespace, f"batch.kubernetes.io/job-name={self.name}")
        names = [pod["metadata"]["name"] for pod in pods]
        job = self._node.cluster.get("batch/v1", "Job", self.name, self._namespace)
        lines = [json.dumps({"spec": job["spec"]["parallelism"], "notes": job["metadata"].get("annotations")})]
        for name in names:
            lines += [f"--- {name}", *self._node.log(self._namespace, name).splitlines()[-10:]]
        return "\n".join(lines)
