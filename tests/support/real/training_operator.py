"""Kubeflow's training operator for a real cluster (`cluster`): it creates the pods of PyTorchJobs and MPIJobs.

Outside a cluster, the operator needs what its installation usually provides: a namespace, a Secret that it fills with
certificates for its webhook, and these certificates as files in the folder that its webhook server reads.
"""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available, folders
from tests.support.real.processes import StartFailed, free_port, listens

NAME = "training-operator"
HOME = "kubeflow"
SECRET = "training-operator-webhook-cert"
SERVING = Path("/tmp/k8s-webhook-server/serving-certs")
"""Where the operator reads its certificates. The path cannot be changed. No webhook is ever called, so operators of
several clusters may overwrite each other's files."""
CERTIFICATES = ("ca.crt", "ca.key", "tls.crt", "tls.key")


def start_training_operator(cluster: RealCluster, gangs: str = "") -> None:
    """Install its CRDs and start it. `gangs` is its `--gang-scheduler-name`; with `volcano` it creates PodGroups."""
    if not (found := available(NAME)):
        raise StartFailed(found.why_not)
    home = folders()[NAME]
    cluster.apply_files(sorted(home.glob("*.yaml")))
    cluster.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": HOME}},
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "validator.training-operator.kubeflow.org"},
            },
        ]
    )
    health = free_port()
    command: list[str | Path] = [
        home / NAME,
        f"--kubeconfig={cluster.kubeconfig}",
        "--enable-scheme=pytorchjob",
        "--enable-scheme=mpijob",
        f"--metrics-bind-address=127.0.0.1:{free_port()}",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--webhook-server-port={free_port()}",
        *([f"--gang-scheduler-name={gangs}"] if gangs else []),
    ]
    cluster.processes.start(NAME, command)
    cluster.processes.await_answer(NAME, lambda: _certificates(cluster))
    cluster.processes.await_answer(NAME, lambda: listens(health))


def stop_training_operator(cluster: RealCluster) -> None:
    """Stop the operator. Its objects stay."""
    cluster.processes.end(NAME)


def _certificates(cluster: RealCluster) -> bool:
    """Whether the operator has filled its Secret. If so, writes the files for its webhook server."""
    data = cluster.get("v1", "Secret", SECRET, HOME).get("data") or {}
    if not all(name in data for name in CERTIFICATES):
        return False
    SERVING.mkdir(parents=True, exist_ok=True)
    SERVING.parent.chmod(0o700)
    for name in CERTIFICATES:
        (SERVING / name).write_bytes(b64decode(data[name]))
    return True
