"""Maar on a real node as a platform team installs it: Helm, the charts in deploy/, and the image that was built."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from tests.support.charts import CHART, CRDS_CHART, NAME, NAMESPACE, environment, program
from tests.support.node.node import RealNode
from tests.support.real.parts import CHECKOUT

SCHEDULER = f"app.kubernetes.io/name=maar,app.kubernetes.io/instance={NAME}"
WEB_PODS = f"app.kubernetes.io/name=maar-web,app.kubernetes.io/instance={NAME}"
SHORT = {"rate-limit": "2s", "minimum-time": "5s"}
"""How long elastic jobs keep their sizes: short, so that a test sees several."""


def configuration() -> str:
    """Maar's default configuration, in which sizes change often."""
    config = yaml.safe_load((CHECKOUT / "src" / "maar" / "default.yaml").read_text())
    config["pools"] = [{**pool, **SHORT} for pool in config["pools"]]
    return yaml.safe_dump(config, sort_keys=False)


class Installed:
    """A release of the chart on a node. `values` replace those of the tests."""

    def __init__(self, node: RealNode, image: str, history: str, **values: Any) -> None:
        self._node = node
        repository, _, self.tag = image.rpartition(":")
        small = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
        self._values: dict[str, Any] = {
            "image": {"repository": repository, "tag": self.tag, "pullPolicy": "Never"},
            "config": configuration(),
            "history": {"url": history},
            "resources": small,
            "web": {"resources": small, "forecastSeconds": 5},
            **values,
        }

    def install(self) -> None:
        """What docs/install.md says: a namespace with Pod Security, the CRDs, Maar."""
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
        self._node.cluster.apply([namespace])
        self.helm("install", f"{NAME}-crds", str(CRDS_CHART), "--wait")
        self.helm("install", NAME, str(CHART), *self._with(), "--wait", "--timeout=3m")

    def upgrade(self, tag: str) -> None:
        """Begin an upgrade to another image."""
        self.helm("upgrade", NAME, str(CHART), *self._with(image={**self._values["image"], "tag": tag}))

    def rollback(self) -> None:
        """Begin to go back to the release before."""
        self.helm("rollback", NAME)

    def test(self) -> str:
        return self.helm("test", NAME)

    def helm(self, *arguments: str) -> str:
        home = {"HOME": str(self._node.folder)}  # for caches
        options = [f"--kubeconfig={self._node.cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
        done = subprocess.run(
            [program("helm"), *arguments, *options],
            env=environment() | home,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"helm {arguments[0]}: {done.stderr.strip()}\n{done.stdout}\n{self.story()}")
        return done.stdout

    def pods(self) -> list[Any]:
        """The pods of the scheduler that are not being deleted."""
        found = self._node.pods(NAMESPACE, SCHEDULER)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def leader(self) -> str:
        """The pod that leads, by the lease; empty if none does."""
        lease = self._node.cluster.get("coordination.k8s.io/v1", "Lease", "maar", "kube-system")
        holder: str = lease["spec"].get("holderIdentity") or ""
        return next((p["metadata"]["name"] for p in self.pods() if holder.startswith(p["metadata"]["name"])), "")

    def log(self, pod: Any) -> str:
        return self._node.log(NAMESPACE, pod["metadata"]["name"])

    def story(self) -> str:
        """What the pods in Maar's namespace do, for the message of a failure."""
        lines = []
        for pod in self._node.pods(NAMESPACE):
            name = pod["metadata"]["name"]
            lines += [f"--- {name}: {json.dumps(pod['status'].get('containerStatuses', []))}"]
            lines += self._node.log(NAMESPACE, name).splitlines()[-15:]
        return "\n".join(lines)

    def _with(self, **changes: Any) -> Sequence[str]:
        values: Mapping[str, Any] = {**self._values, **changes}
        path: Path = self._node.folder / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        return ["--values", str(path)]


def is_ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def tag_of(pod: Any) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image.rpartition(":")[2]
