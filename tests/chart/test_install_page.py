"""docs/install.md from top to bottom: every command runs on a real API server, and after the last one no trace is left.

No kubelet runs Maar's pods there, so Maar decides as a process, with the arguments and the account of the chart.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chart.test_install import OPERATORS, gone, operators
from tests.chart.test_values import VOLCANOS
from tests.support.charts import Object, environment
from tests.support.installed import USERS, command
from tests.support.memory import elects_at_once
from tests.support.patience import wait_until
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import CHECKOUT, available, folders

from maar import __version__
from maar.kube.wire.annotations import LOCKED_FOR

pytestmark = pytest.mark.real

NEED_PODS = (
    "helm test maar -n maar-system",
    "kubectl -n maar-system logs deployment/maar -f | grep shadow",
    "kubectl -n maar-system port-forward service/maar-web 8443:443",
)
"""Commands that talk to pods of Maar. `make test-node` runs the first."""
PARTS = ("etcd", "kubernetes", "kubectl", "helm", *OPERATORS)


def sections(page: str) -> dict[str, list[str]]:
    """The commands of a page, by heading."""
    found: dict[str, list[str]] = {"": []}
    heading = ""
    for line in (CHECKOUT / "docs" / page).read_text().replace("\\\n", "").splitlines():
        if line.startswith("#"):
            heading = line.strip("# ")
            found[heading] = []
        elif line.startswith("    "):
            text = re.sub(r"\s{2,}#.*", "", line.strip())
            found[heading].append(text.replace("REGISTRY", "registry.example").replace("VERSION", __version__))
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    if not (found := available(*PARTS)):
        (pytest.fail if os.environ.get("MAAR_REAL") else pytest.skip)(found.why_not)
    with RealCluster(crds=False, users=USERS) as running:
        running.start_controller_manager(controllers=["namespace-controller"])
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the reader of the page is: a checkout with her own files."""
    shutil.copytree(CHECKOUT / "deploy", tmp_path / "deploy")
    (tmp_path / "volcano-scheduler.conf").write_text(VOLCANOS)
    default = (CHECKOUT / "src" / "maar" / "default.yaml").read_text()
    (tmp_path / "beside-kueue.yaml").write_text(re.sub("resize, preempt, reclaim, ", "", default))
    (tmp_path / "maar").mkdir()
    return tmp_path


def test_every_command_works_and_no_trace_is_left(cluster: RealCluster, folder: Path) -> None:
    cluster.apply([*operators(), *volcanos_scheduler(), node()])
    assert {} == traces(cluster)
    skipped = []
    for heading, commands in sections("install.md").items():
        if heading == "Roll back":
            decide(cluster, folder / "maar")
            run(cluster, folder, sections("operations.md")["What to watch"])
        skipped += [one for one in commands if one in NEED_PODS]
        run(cluster, folder, [one for one in commands if one not in NEED_PODS])
        if heading == "Uninstall":
            for name in ("runs", "waits"):
                cluster.delete(pod(name), gracePeriodSeconds=0)
            gone(cluster)
            assert {} == traces(cluster)
    assert NEED_PODS == tuple(skipped)
    assert "maar" == cluster.get("apps/v1", "Deployment", "maar", "maar-system")["metadata"]["name"], "without Helm"


def run(cluster: RealCluster, folder: Path, commands: list[str]) -> None:
    homes = folders()
    programs = [str(homes["helm"]), str(homes["kubectl"]), str(Path(sys.executable).parent), os.environ["PATH"]]
    variables = {"PATH": os.pathsep.join(programs), "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(folder)}
    for each in commands:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", each],
            cwd=folder,
            env={**environment(), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, f"{each}\n{done.stdout}{done.stderr}"


def decide(cluster: RealCluster, folder: Path) -> None:
    """Let Maar write all that stays: a Lease, its state, and a lock on a node."""
    words, config = command(cluster, folder), folder / "maar.yaml"
    config.write_text(elects_at_once(config.read_text()))
    with (folder / "log").open("w") as log, subprocess.Popen(words, stderr=log) as maar:
        try:
            cluster.apply([pod("runs")])
            wait_until(lambda: bound(cluster, "runs"), "a pod gets the node", 60)
            cluster.apply([pod("waits")])
            wait_until(lambda: LOCKED_FOR in notes(cluster), "the node is locked for the next", 60)
        finally:
            maar.terminate()
    written = {"ConfigMap maar-state", "ConfigMap maar-configuration", "Lease maar", "Node n0", "Pod waits"}
    assert written <= traces(cluster).keys()


def node() -> Object:
    room = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    status = {"capacity": room, "allocatable": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": status}


def pod(name: str) -> Object:
    main = {"name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = {"schedulerName": "maar", "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def volcanos_scheduler() -> list[Object]:
    labels = {"app": "volcano-scheduler"}
    metadata = {"name": "volcano-scheduler", "namespace": "volcano-system"}
    containers = [{"name": "scheduler", "image": "any"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
    ]


def bound(cluster: RealCluster, name: str) -> bool:
    return bool(cluster.get("v1", "Pod", name)["spec"].get("nodeName"))


def notes(cluster: RealCluster) -> dict[str, str]:
    found: dict[str, str] = cluster.get("v1", "Node", "n0")["metadata"].get("annotations", {})
    return found


def traces(cluster: RealCluster) -> dict[str, Any]:
    """Every object with Maar's name anywhere, by kind and name. Events end by themselves."""
    found = {}
    for path, kind in listable(cluster):
        for item in cluster.request("GET", path)["items"]:
            item["metadata"].pop("managedFields", None)
            if kind != "Event" and "maar" in json.dumps(item):
                found[f"{kind} {item['metadata']['name']}"] = item
    return found


def listable(cluster: RealCluster) -> Iterator[tuple[str, str]]:
    """The path and the kind of everything that the server can list."""
    groups = cluster.request("GET", "/apis")["groups"]
    for root in ("/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)):
        for resource in cluster.request("GET", root)["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                yield f"{root}/{resource['name']}", resource["kind"]
