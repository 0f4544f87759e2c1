"""The command lines of the programs of a real cluster, and the files that they read.

Every function takes the folder of its binary (`home`) and the folder of the cluster (`folder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import trustme
import yaml

Command = list[str | Path]

TOKENS = "tokens.csv"
SIGNING_KEY = "service-account.key"
CERTIFICATE = Path("certs") / "apiserver.crt"
"""The API server creates it at its first start, and keeps it."""
VOLCANO_CONF = "volcano-scheduler.conf"
SERVICE_ADDRESS = "10.96.0.1"
"""The first address for Services is that of the API server itself."""


def write_files(folder: Path, tokens: Mapping[str, str], users: Mapping[str, Sequence[str]]) -> None:
    """Write the files of the API server: tokens with users and groups, and the key for service account tokens."""
    rows = [f'{tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in users.items()]
    (folder / TOKENS).write_text("".join(rows))
    (folder / SIGNING_KEY).write_bytes(trustme.CA().private_key_pem.bytes())


def etcd(home: Path, folder: Path, *, port: int, peer_port: int) -> Command:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        home / "etcd",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",  # 50,000 pods and their history exceed the default of 2 GiB
        "--log-level=warn",
    ]


def write_certificate(folder: Path, address: str) -> None:
    """Write the API server's certificate, where pods must accept it too: for this address and the server's Service."""
    authority = trustme.CA()
    names = ("127.0.0.1", address, SERVICE_ADDRESS, "kubernetes.default.svc")
    leaf = authority.issue_cert(*names)
    chain = [*leaf.cert_chain_pems, authority.cert_pem]
    (folder / CERTIFICATE).parent.mkdir()
    (folder / CERTIFICATE).write_bytes(b"".join(part.bytes() for part in chain))
    (folder / CERTIFICATE).with_suffix(".key").write_bytes(leaf.private_key_pem.bytes())


def api_server(
    home: Path,
    folder: Path,
    *,
    port: int,
    etcd_port: int,
    gates: Mapping[str, bool],
    versions: Sequence[str],
    address: str = "",
) -> Command:
    """`versions` are the API versions to enable. With an `address`, the server is one for real pods, there."""
    for_pods = [
        "--bind-address=0.0.0.0",
        f"--advertise-address={address}",
        "--authorization-mode=Node",
    ]
    for_tests = [
        "--bind-address=127.0.0.1",
        # The first plugin taints every node that a test creates. The second requires a token for every pod.
        "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
        "--endpoint-reconciler-type=none",  # it would advertise a loopback address, which the server refuses
    ]
    return [
        home / "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        f"--cert-dir={(folder / CERTIFICATE).parent}",
        f"--token-auth-file={folder / TOKENS}",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / SIGNING_KEY}",
        f"--service-account-signing-key-file={folder / SIGNING_KEY}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--delete-collection-workers=16",  # the default is one, and `clear` deletes thousands of objects
        *(for_pods if address else for_tests),
        *([f"--runtime-config={','.join(versions)}"] if versions else []),
        *_gate_flags(gates),
    ]


def controller_manager(
    home: Path, folder: Path, *, port: int, kubeconfig: Path, controllers: Sequence[str], gates: Mapping[str, bool]
) -> Command:
    return [
        home / "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(controllers)}",
        "--leader-elect=false",
        "--kube-api-qps=100",  # the default of 20 would limit how fast pods are created
        "--kube-api-burst=150",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'controller-manager-certs'}",
        f"--service-account-private-key-file={folder / SIGNING_KEY}",
        f"--root-ca-file={folder / CERTIFICATE}",
        *_gate_flags(gates),
    ]


def kube_scheduler(home: Path, folder: Path, *, port: int, kubeconfig: Path) -> Command:
    return [
        home / "kube-scheduler",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'scheduler-certs'}",
    ]


def volcano_scheduler(home: Path, *, port: int, kubeconfig: Path) -> Command:
    """Volcano's scheduler, with the configuration of its Helm chart. It says at `port` that it is alive."""
    return [
        home / "volcano-scheduler",
        f"--kubeconfig={kubeconfig}",
        f"--scheduler-conf={home / VOLCANO_CONF}",
        "--leader-elect=false",
        "--enable-healthz",
        f"--healthz-address=127.0.0.1:{port}",
    ]


def kwok(home: Path, folder: Path, *, port: int, kubeconfig: Path, own_stages: Path | None = None) -> Command:
    return [
        home / "kwok",
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=0",  # with leases, every node costs a request every ten seconds
        f"--server-address=127.0.0.1:{port}",
        f"--config={_write_stages(home, folder, own_stages)}",
    ]


def _write_stages(home: Path, folder: Path, own: Path | None) -> Path:
    """Write kwok's fast stages, with a change for nodes: the original stage makes every NotReady node Ready again.

    Stages of `own` take the place of those with the same names.
    """
    stages = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(home.glob("*.yaml"))}
    for stage in stages.values():
        if stage["spec"]["resourceRef"]["kind"] == "Node":
            (unready,) = stage["spec"]["selector"]["matchExpressions"]
            stage["spec"]["selector"]["matchExpressions"] = [{"key": unready["key"], "operator": "DoesNotExist"}]
    if own is not None:
        stages |= {stage["metadata"]["name"]: stage for stage in yaml.safe_load_all(own.read_text())}
    path = folder / "kwok-stages.yaml"
    path.write_text(yaml.safe_dump_all(stages.values()))
    return path


def _gate_flags(gates: Mapping[str, bool]) -> list[str]:
    given = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
    return [f"--feature-gates={given}"] if given else []
