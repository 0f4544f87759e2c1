"""The simulated nodes of a run: as the tests expect those of a small cluster in two zones. kwok makes them Ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ZONES = ("a", "b")
NODES_PER_ZONE = 2
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
SYSTEM = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")


def nodes() -> list[dict[str, Any]]:
    """Nodes with addresses, which the tests of host ports and of services look for."""
    places = [(zone, number) for number in range(NODES_PER_ZONE) for zone in ZONES]
    return [node(f"node-{zone}{number}", zone, f"10.1.0.{at}") for at, (zone, number) in enumerate(places, 1)]


def node(name: str, zone: str, address: str) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "here",
        "topology.kubernetes.io/zone": zone,
    }
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"addresses": addresses, "capacity": ROOM, "allocatable": ROOM},
    }


def system_pods() -> Iterator[tuple[dict[str, Any], str]]:
    """The pods that tests look for on each node, and the node. Without them, each test of preemption waits a minute."""
    for node in nodes():
        for name in SYSTEM:
            on = node["metadata"]["name"]
            spec = {"containers": [{"name": name, "image": name}], "tolerations": [{"operator": "Exists"}]}
            meta = {"name": f"{name}-{on}", "namespace": "kube-system"}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, on
