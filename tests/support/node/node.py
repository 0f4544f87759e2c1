"""A cluster of one real node: etcd, the control plane, kube-proxy, containerd and a kubelet, as processes.

It runs inside `walls`, and nowhere else: it takes addresses, firewall rules and cgroups as its own.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.node import commands
from tests.support.node.images import load, write_archive
from tests.support.node.walls import ADDRESS
from tests.support.patience import wait_until
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import folders

KUBELET, PROXY, SCHEDULER = f"system:node:{commands.NODE}", "system:kube-proxy", "system:kube-scheduler"
USERS: dict[str, Sequence[str]] = {KUBELET: ["system:nodes"], PROXY: [], SCHEDULER: []}
GPU = "nvidia.com/gpu"


class RealNode:
    """A cluster with one real node. A context manager."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self.cluster = RealCluster(users=USERS, crds=False, address=ADDRESS)
        # Containers and their mounts are in it until the end of all processes, so `walls` removes it.
        self.folder = Path(tempfile.mkdtemp(prefix="node-"))
        self.folder.chmod(0o755)

    def __enter__(self) -> RealNode:
        self.cluster.start()
        try:
            self._start()
        except BaseException:
            self.cluster.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.stop()

    def _start(self) -> None:
        home, folder, cluster = folders()["node"], self.folder, self.cluster
        start = cluster.processes.start
        cluster.start_controller_manager(controllers=["*"])
        cluster.start_scheduler(SCHEDULER)
        start("kube-proxy", commands.kube_proxy(home, folder, kubeconfig=cluster.kubeconfig_of(PROXY)))
        self.start_containerd()
        write_archive(folder / "pause.tar", commands.PAUSE, home / "pause")
        self.load(folder / "pause.tar")
        start("kubelet", commands.kubelet(home, folder, kubeconfig=cluster.kubeconfig_of(KUBELET)))
        cluster.processes.await_answer("kubelet", self.is_ready, "containerd", "kube-proxy")
        self._give_gpus()

    def start_containerd(self) -> None:
        self.cluster.processes.start("containerd", commands.containerd(self.folder))
        socket = commands.containerd_socket(self.folder)
        asked = ["ctr", "--address", str(socket), "version"]

        def answers() -> bool:
            return subprocess.run(asked, capture_output=True, check=False).returncode == 0

        self.cluster.processes.await_answer("containerd", answers)

    def stop_containerd(self) -> None:
        """Kill containerd. Containers go on: each has a process of its own that watches it."""
        self.cluster.processes.end("containerd")

    def load(self, archive: Path) -> list[str]:
        """Load an image archive. Returns the names of its images."""
        return load(commands.containerd_socket(self.folder), archive)

    def is_ready(self) -> bool:
        nodes = self.cluster.objects("v1", "Node")
        conditions = [c for node in nodes for c in node["status"].get("conditions", ())]
        taints = [taint for node in nodes for taint in node["spec"].get("taints", ())]
        return not taints and ("Ready", "True") in {(c["type"], c["status"]) for c in conditions}

    def _give_gpus(self) -> None:
        """Advertise GPUs that do not exist, as an extended resource of the node."""
        self.cluster.request(
            "PATCH",
            f"/api/v1/nodes/{commands.NODE}/status",
            {"status": {"capacity": {GPU: str(self._gpus)}}},
            content_type="application/merge-patch+json",
        )

        def allocatable() -> bool:
            node = self.cluster.get("v1", "Node", commands.NODE)
            return bool(node["status"]["allocatable"].get(GPU) == str(self._gpus))

        wait_until(allocatable, f"the node has {GPU}")

    def pods(self, namespace: str, selector: str = "") -> list[Any]:
        return self.cluster.objects("v1", "Pod", namespace, labelSelector=selector)

    def log(self, namespace: str, pod: str) -> str:
        """What the containers of a pod have printed, while the pod exists. The name may be a pattern."""
        files = commands.logs(self.folder).glob(f"{namespace}_{pod}_*/*/*.log")
        return "".join(path.read_text(errors="replace") for path in sorted(files))
