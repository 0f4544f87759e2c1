"""Maar as a process with what the chart gives its pods, where no kubelet runs them: arguments, files and account."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.charts import NAME, NAMESPACE
from tests.support.real.cluster import RealCluster
from tests.support.real.processes import free_port

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{NAME}"
USERS = {ACCOUNT: ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"]}


def command(cluster: RealCluster, folder: Path) -> list[str]:
    """The command of the scheduler's pods, with the files of their volume, and a token of their account."""
    for name, text in cluster.get("v1", "ConfigMap", NAME, NAMESPACE)["data"].items():
        (folder / name).write_text(text)
    kubeconfig = cluster.kubeconfig_of(ACCOUNT).rename(folder / "kubeconfig")  # a colon would split the path
    deployment = cluster.get("apps/v1", "Deployment", NAME, NAMESPACE)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [word.replace("/etc/maar/", f"{folder}/") for word in container["args"]]
    port = f"--http-port={free_port()}"
    return [sys.executable, "-m", "maar.cli.main", *arguments, port, "--kubeconfig", str(kubeconfig)]
