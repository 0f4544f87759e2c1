"""The oldest Kubernetes that the chart allows: it is installed there, and Maar schedules with the rights of the chart.

There are no kubelets of that version here, so Maar runs as a process, with what the chart gives its pods: arguments,
configuration and account. The newest version is that of all other tests of this folder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.charts import CHART, CRDS_CHART, NAME, NAMESPACE, ran
from tests.support.installed import USERS, command
from tests.support.node.node import GPU
from tests.support.patience import wait_until
from tests.support.real.cluster import RealCluster

OLDEST = "kubernetes-oldest"
GPUS = 8


@pytest.fixture(scope="module")
def oldest() -> Iterator[RealCluster]:
    with RealCluster(crds=False, users=USERS, kubernetes=OLDEST) as cluster:
        yield cluster


def test_the_chart_states_the_oldest_version(oldest: RealCluster) -> None:
    version = oldest.request("GET", "/version")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f">={version['major']}.{version['minor']}.0-0" == chart["kubeVersion"]


def test_maar_schedules_on_the_oldest_version(oldest: RealCluster, tmp_path: Path) -> None:
    oldest.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    options = [f"--kubeconfig={oldest.kubeconfig}", f"--namespace={NAMESPACE}"]
    ran("helm", "install", f"{NAME}-crds", CRDS_CHART, *options)
    ran("helm", "install", NAME, CHART, *options)
    oldest.start_kwok()
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", GPU: str(GPUS)}
    oldest.apply(
        [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "gpu-1"},
                "status": {"capacity": room, "allocatable": room},
            }
        ]
    )
    log = tmp_path / "log"
    with log.open("w") as written, subprocess.Popen(command(oldest, tmp_path), stderr=written) as maar:
        try:
            oldest.apply([pod("large", number, GPUS + 1) for number in range(GPUS + 1)])
            oldest.apply([pod("fits", number, 4) for number in range(4)])
            wait_until(lambda: len(bound(oldest, "fits")) == 4, f"the gang is bound\n{log}")
            assert [] == bound(oldest, "large")
        finally:
            maar.terminate()
    assert 0 == maar.returncode
    assert "orbidden" not in log.read_text()


def pod(gang: str, number: int, size: int) -> dict[str, Any]:
    """A pod of a gang, which needs no controller."""
    notes = {"pod_group": gang, "pod_group_size": str(size)}
    main = {"name": "main", "image": "any", "resources": {"limits": {GPU: "1"}}}
    metadata = {"name": f"{gang}-{number}", "annotations": notes, "labels": {"gang": gang}}
    spec = {"schedulerName": NAME, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def bound(cluster: RealCluster, gang: str) -> list[str]:
    pods = cluster.objects("v1", "Pod", "default", labelSelector=f"gang={gang}")
    return [item["metadata"]["name"] for item in pods if item["spec"].get("nodeName")]
