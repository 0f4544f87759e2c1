"""A real cluster without containers: etcd and kube-apiserver as processes, kwok as its kubelets.

    with RealCluster() as cluster:
        cluster.apply([node, pod])
        cluster.start_kwok()
        subprocess.run(["maar", "run", "--kubeconfig", cluster.kubeconfig])

The binaries come from tools/controlplane/build.py (`make real`); `available()` says whether they are there. A cluster
has a folder of its own and free ports, so several run side by side. Everything it starts ends with it: on `stop()`,
when the program ends, and, by a guard that outlives us, when the program is killed.
"""

from __future__ import annotations

import atexit
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml
from tests.support.real_api import Api, Object, Refused
from tests.support.real_processes import Processes, StartFailed, free_port, listens, wait_until

__all__ = ["UPSTREAM_GANGS", "Available", "RealCluster", "Refused", "StartFailed", "available", "folders", "wait_until"]

CHECKOUT = Path(__file__).parents[2]
BUILD = CHECKOUT / "tools" / "controlplane" / "build.py"
CRDS = CHECKOUT / "deploy" / "crds"

ADMIN = "admin"
# What upstream's own PodGroup (scheduling.k8s.io/v1alpha2) needs on 1.36.
UPSTREAM_GANGS: Mapping[str, bool] = {"GenericWorkload": True, "GangScheduling": True}

# What `clear` deletes, owners first, lest a controller make their pods anew.
CLEARED = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("scheduling.k8s.io/v1alpha2", "PodGroup"),
    ("policy/v1", "PodDisruptionBudget"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("storage.k8s.io/v1", "CSINode"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("coordination.k8s.io/v1", "Lease"),
    ("v1", "Node"),
    ("v1", "Event"),
)
BUILT_IN = ("system-cluster-critical", "system-node-critical")  # priority classes

START_S = 60.0  # 3 s on an idle machine; a full one may take many times that


class Available(NamedTuple):
    """Whether a real cluster can be started, and if not, why and what to do about it."""

    ok: bool
    why_not: str = ""

    def __bool__(self) -> bool:
        return self.ok


def folders() -> dict[str, Path]:
    """Where each part belongs, by name: `etcd`, `kubernetes`, `kubectl`, `kwok`, `training-operator`; built or not."""
    said = subprocess.run([sys.executable, BUILD, "--where"], capture_output=True, text=True, check=True)
    return {name: Path(part["folder"]) for name, part in json.loads(said.stdout).items()}


def available(*parts: str) -> Available:
    """Whether these parts are built; without arguments, those that a cluster with kubelets needs."""
    if not BUILD.is_file():
        return Available(False, f"not in a checkout of Maar: no `{BUILD}`")
    homes = folders()
    missing = [name for name in parts or ("etcd", "kubernetes", "kwok") if not homes[name].is_dir()]
    if missing:
        return Available(False, f"not built: {', '.join(missing)}; `make real` builds them (minutes, once)")
    return Available(True)


class RealCluster:
    """etcd and kube-apiserver, and what is started beside them; a context manager, startable again after `stop()`.

    `gates` are feature gates and `runtime_config` API versions to switch on (see `UPSTREAM_GANGS`); `flags` go to
    kube-apiserver as they are. `users` get tokens and no rights (name to groups); the admin may do anything.
    """

    server: str  # https://127.0.0.1:port
    folder: Path  # logs and data, removed on stop
    kubeconfig: Path  # the admin's
    token: str  # the admin's
    ca: Path  # what vouches for the server

    def __init__(
        self,
        *,
        gates: Mapping[str, bool] | None = None,
        runtime_config: Sequence[str] = (),
        flags: Sequence[str] = (),
        users: Mapping[str, Sequence[str]] | None = None,
        crds: bool = True,
    ) -> None:
        self._gates = dict(gates or {})
        self._runtime_config = list(runtime_config)
        self._flags = list(flags)
        self._users: dict[str, Sequence[str]] = {ADMIN: ["system:masters"], **(users or {"maar": ["schedulers"]})}
        self._crds = crds
        self._processes: Processes | None = None

    @classmethod
    def with_upstream_gangs(cls) -> RealCluster:
        """A cluster that serves upstream's own PodGroup."""
        return cls(gates=UPSTREAM_GANGS, runtime_config=["scheduling.k8s.io/v1alpha2=true"])

    def __enter__(self) -> RealCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # starting and stopping

    def start(self) -> RealCluster:
        """Start etcd and the API server, install the CRDs of deploy/crds, and return when all answers."""
        if self._processes is not None:
            raise RuntimeError("already started")
        if not (found := available("etcd", "kubernetes")):
            raise StartFailed(found.why_not)
        self._homes = folders()
        self.folder = Path(tempfile.mkdtemp(prefix="maar-real-"))
        self._processes = Processes(self.folder)
        atexit.register(self.stop)
        try:
            self._write_files()
            self._start_etcd()
            self._start_api_server()
            if self._crds and CRDS.is_dir():
                self.apply_files(sorted(CRDS.glob("*.yaml")))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all that was started here, and clear its folder; nothing happens a second time."""
        atexit.unregister(self.stop)
        if self._processes is not None:
            self._processes.end_all()
            self._processes = None
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def processes(self) -> Processes:
        if self._processes is None:
            raise RuntimeError("not started")
        return self._processes

    def kill_api_server(self) -> None:
        """kill -9; watches and requests in flight are cut, etcd keeps every object."""
        self.processes.end("kube-apiserver")

    def restart_api_server(self) -> None:
        """Start the API server again, on the same port and the same etcd; one that runs is killed first."""
        self.kill_api_server()
        self._start_api_server()
        # It says it is ready, and then answers 429 for custom objects until it has looked at their CRDs.
        for crd in self._crds_there():
            self._await_crd(crd)

    def start_kwok(self) -> None:
        """Pretend kubelets for all nodes: bound pods run, pods of Jobs complete, deleted pods go.

        A node that says nothing about being Ready becomes Ready; one that a test makes NotReady stays so.
        """
        port = free_port()
        command: list[str | Path] = [
            self._part("kwok") / "kwok",
            f"--kubeconfig={self.kubeconfig}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=0",  # with leases, every node would cost a request every ten seconds
            f"--server-address=127.0.0.1:{port}",
            f"--config={self._write_stages()}",
        ]
        self.processes.start("kwok", command)
        self._await_process("kwok", lambda: listens(port))

    def stop_kwok(self) -> None:
        self.processes.end("kwok")

    def start_controller_manager(self, controllers: Sequence[str] = ("*", "-node-lifecycle-controller")) -> None:
        """Kubernetes' own controllers; the one that taints nodes whose kubelet is silent is left out by default."""
        port = free_port()
        command: list[str | Path] = [
            self._part("kubernetes") / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(controllers)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'controller-manager-certs'}",
            f"--service-account-private-key-file={self.folder / 'service-account.key'}",
            f"--root-ca-file={self.ca}",
            *self._gate_flags(),
        ]
        self.processes.start("kube-controller-manager", command)
        self._await_process("kube-controller-manager", lambda: listens(port))

    def stop_controller_manager(self) -> None:
        self.processes.end("kube-controller-manager")

    # talking to it

    def token_of(self, user: str) -> str:
        return self._tokens[user]

    def kubeconfig_of(self, user: str) -> Path:
        """A kubeconfig for one of `users`."""
        path = self.folder / f"{user}.kubeconfig"
        cluster = {"server": self.server, "certificate-authority": str(self.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": user}}],
            "current-context": "real",
        }
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)
        return path

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """One request as the admin, or with another token; `Refused` on an error of the server's."""
        return self._api.request(method, path, body, token=token, content_type=content_type)

    def serves(self, api_version: str, kind: str) -> bool:
        return self._api.serves(api_version, kind)

    def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Any:
        thing = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
        return self.request("GET", self._api.path(thing))

    def objects(self, api_version: str, kind: str, namespace: str = "", **query: str) -> list[Any]:
        """All objects of a kind, in one namespace or in all; `query` as in `labelSelector="a=b"`."""
        path = self._api.collection(api_version, kind, namespace)
        items: list[Any] = self.request("GET", f"{path}?{urlencode(query)}")["items"]
        return items

    def delete(self, thing: Object, **options: Any) -> None:
        """Delete an object; `options` as in `gracePeriodSeconds=0`."""
        self.request("DELETE", self._api.path(thing), options)

    def apply(self, objects: Iterable[Object], *, parallel: int = 16) -> list[Any]:
        """Create objects, or change those that exist; returns them, in order, as the server has them.

        Namespaces and CRDs go first, and CRDs are served before the rest is tried; the rest goes in parallel.
        """
        wanted = list(objects)
        answers: list[Any] = [None] * len(wanted)
        for index, thing in enumerate(wanted):
            if thing["kind"] in ("Namespace", "CustomResourceDefinition"):
                answers[index] = self._api.create(thing)
                if thing["kind"] == "CustomResourceDefinition":
                    self._await_crd(thing)
        rest = [index for index in range(len(wanted)) if answers[index] is None]
        for index, answer in zip(rest, self._api.create_all([wanted[i] for i in rest], parallel), strict=True):
            answers[index] = answer
        return answers

    def apply_files(self, paths: Iterable[Path]) -> list[Any]:
        """Apply all documents of some YAML files."""
        documents = [thing for path in paths for thing in yaml.safe_load_all(path.read_text()) if thing]
        return self.apply(documents)

    def bind(self, pod: str, node: str, namespace: str = "default") -> None:
        """Bind a pod to a node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        self.request("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", binding)

    def clear(self) -> None:
        """Delete what tests leave behind (`CLEARED` and all custom objects), at once: for clusters that tests share.

        Namespaces and rights stay: without the controller manager no namespace ever goes.
        """
        kinds = [(api_version, kind) for api_version, kind in CLEARED if self.serves(api_version, kind)]
        for crd in self._crds_there():
            served = [version["name"] for version in crd["spec"]["versions"] if version["served"]]
            kinds.append((f"{crd['spec']['group']}/{served[0]}", crd["spec"]["names"]["kind"]))
        for api_version, kind in kinds:
            self._clear(api_version, kind)

    # steps of the above

    def _part(self, name: str) -> Path:
        if not (found := available(name)):
            raise StartFailed(found.why_not)
        return self._homes[name]

    def _write_files(self) -> None:
        """Choose ports and tokens, and write what the API server reads."""
        self._etcd_port, self._peer_port, self._port = free_port(), free_port(), free_port()
        self._tokens = {user: secrets.token_hex(16) for user in self._users}
        self.server = f"https://127.0.0.1:{self._port}"
        self.token = self._tokens[ADMIN]
        self.ca = self.folder / "certs" / "apiserver.crt"  # made by the API server itself, and kept
        self.kubeconfig = self.kubeconfig_of(ADMIN)
        self._api = Api(self._port, self.ca, self.token)
        rows = [f'{self._tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in self._users.items()]
        (self.folder / "tokens.csv").write_text("".join(rows))
        (self.folder / "service-account.key").write_text(new_signing_key())

    def _write_stages(self) -> Path:
        """kwok's own fast stages, but for nodes: its own would make a node Ready again whenever it is not."""
        stages = [yaml.safe_load(path.read_text()) for path in sorted(self._part("kwok").glob("*.yaml"))]
        for stage in stages:
            if stage["spec"]["resourceRef"]["kind"] == "Node":
                (unready,) = stage["spec"]["selector"]["matchExpressions"]
                stage["spec"]["selector"]["matchExpressions"] = [{"key": unready["key"], "operator": "DoesNotExist"}]
        path = self.folder / "kwok-stages.yaml"
        path.write_text(yaml.safe_dump_all(stages))
        return path

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        command: list[str | Path] = [
            self._homes["etcd"] / "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",  # 50,000 pods and their history do not fit into the default 2 GiB
            "--log-level=warn",
        ]
        self.processes.start("etcd", command)

    def _start_api_server(self) -> None:
        command: list[str | Path] = [
            self._homes["kubernetes"] / "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.ca.parent}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            # The first would taint every node that a test creates; the second would want a token for every pod.
            "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'service-account.key'}",
            f"--service-account-signing-key-file={self.folder / 'service-account.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--delete-collection-workers=16",  # one by default, and `clear` deletes thousands
            "--endpoint-reconciler-type=none",  # it would advertise a loopback address, and be refused for it
            *([f"--runtime-config={','.join(self._runtime_config)}"] if self._runtime_config else []),
            *self._gate_flags(),
            *self._flags,
        ]
        self.processes.start("kube-apiserver", command)
        self._await_process("kube-apiserver", lambda: self._api.answers("/readyz"), "etcd")
        # Made in the background once the server is ready, and where most objects of tests live.
        self._await_process("kube-apiserver", lambda: self._api.answers("/api/v1/namespaces/default"), "etcd")

    def _gate_flags(self) -> list[str]:
        gates = ",".join(f"{name}={str(on).lower()}" for name, on in self._gates.items())
        return [f"--feature-gates={gates}"] if gates else []

    def _await_process(self, name: str, answers: Callable[[], bool], *needs: str) -> None:
        """Wait until a process answers; raise with its log if it, or what it needs, ends or takes too long."""

        def ready() -> bool:
            self.processes.check(*needs, name)
            return answers()

        try:
            wait_until(ready, f"{name} answers", START_S)
        except TimeoutError as late:
            raise StartFailed(f"{late}\n{self.processes.tail(name)}") from late

    def _clear(self, api_version: str, kind: str) -> None:
        there = [thing for thing in self.objects(api_version, kind) if not is_built_in(thing)]
        spare = urlencode({"fieldSelector": ",".join(f"metadata.name!={name}" for name in BUILT_IN)})
        for namespace in sorted({thing["metadata"].get("namespace", "") for thing in there}):
            path = self._api.collection(api_version, kind, namespace)
            self.request("DELETE", f"{path}?{spare}", {"gracePeriodSeconds": 0})
        for thing in self.objects(api_version, kind) if there else []:
            if not is_built_in(thing):  # held by a finalizer whose controller may not run
                self._let_go({"apiVersion": api_version, "kind": kind, **thing})

    def _let_go(self, thing: Object) -> None:
        content_type = "application/merge-patch+json"
        patch = {"metadata": {"finalizers": None}}
        try:
            self.request("PATCH", self._api.path(thing), patch, content_type=content_type)
        except Refused as refused:
            if refused.status != 404:  # gone by itself
                raise

    def _crds_there(self) -> list[Any]:
        return self.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition")

    def _await_crd(self, crd: Object) -> None:
        group, names = crd["spec"]["group"], crd["spec"]["names"]
        served = [version["name"] for version in crd["spec"]["versions"] if version["served"]]
        for version in served:
            path = f"/apis/{group}/{version}/{names['plural']}?limit=1"
            wait_until(partial(self._api.answers, path), f"{names['kind']} of {group}/{version} is served")


def is_built_in(thing: Object) -> bool:
    """Whether the API server made an object, and would make it again."""
    metadata = thing["metadata"]
    return metadata["name"] in BUILT_IN or metadata.get("namespace") == "kube-system"


def new_signing_key() -> str:
    """A private key for service account tokens, as PEM.

    By hand, since the standard library makes none: any 32 random bytes are an EC key on P-256 (but for one in 2**32),
    and its DER form is those bytes in a fixed frame (RFC 5915), the public half left for the reader to compute.
    """
    der = bytes.fromhex("303102010104 20") + secrets.token_bytes(32) + bytes.fromhex("a00a06082a8648ce3d030107")
    return f"-----BEGIN EC PRIVATE KEY-----\n{b64encode(der).decode()}\n-----END EC PRIVATE KEY-----\n"
