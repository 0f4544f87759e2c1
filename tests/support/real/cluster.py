"""A real cluster without containers: etcd and kube-apiserver as processes, kwok as its kubelets.

    with RealCluster() as cluster:
        cluster.apply([node, pod])
        cluster.start_kwok()
        subprocess.run(["maar", "run", "--kubeconfig", cluster.kubeconfig])

The binaries come from tools/controlplane/build.py (`make real`). `parts.available()` says whether they exist. A cluster
has its own folder and free ports, so several clusters can run at once. All its processes end on `stop()`, when the
program ends, and, through a guard process, when the program is killed.
"""

from __future__ import annotations

import atexit
import json
import secrets
import shutil
import tempfile
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from tests.support.patience import wait_until
from tests.support.real import commands
from tests.support.real.api import Api, Object
from tests.support.real.clearing import clear
from tests.support.real.parts import CHECKOUT, available, folders
from tests.support.real.processes import Processes, StartFailed, free_port, listens

CRDS = CHECKOUT / "deploy" / "crds"

ADMIN = "admin"
# The feature gates of the upstream PodGroup (scheduling.k8s.io/v1alpha2) in 1.36.
UPSTREAM_GANGS: Mapping[str, bool] = {"GenericWorkload": True, "GangScheduling": True}


class RealCluster:
    """etcd, kube-apiserver and the processes started beside them. A context manager; it can start again after `stop()`.

    `gates` are feature gates and `runtime_config` API versions to enable (see `UPSTREAM_GANGS`). `flags` go to
    kube-apiserver unchanged. `users` (name to groups) get tokens and no rights. The admin may do anything. With an
    `address`, pods of real kubelets reach the server there, and it checks pods and nodes as in production. `kubernetes`
    is the part of tools/controlplane with the API server.
    """

    server: str  # https://127.0.0.1:port
    etcd: str  # http://127.0.0.1:port
    folder: Path  # logs and data, removed on stop
    kubeconfig: Path  # the admin's
    token: str  # the admin's
    ca: Path  # the CA of the server's certificate

    def __init__(
        self,
        *,
        gates: Mapping[str, bool] | None = None,
        runtime_config: Sequence[str] = (),
        flags: Sequence[str] = (),
        users: Mapping[str, Sequence[str]] | None = None,
        crds: bool = True,
        address: str = "",
        kubernetes: str = "kubernetes",
    ) -> None:
        self._gates = dict(gates or {})
        self._runtime_config = list(runtime_config)
        self._flags = list(flags)
        self._users: dict[str, Sequence[str]] = {ADMIN: ["system:masters"], **(users or {"maar": ["schedulers"]})}
        self._crds = crds
        self._address = address
        self._kubernetes = kubernetes
        self._processes: Processes | None = None

    @classmethod
    def with_upstream_gangs(cls) -> RealCluster:
        """A cluster that serves the upstream PodGroup."""
        return cls(gates=UPSTREAM_GANGS, runtime_config=["scheduling.k8s.io/v1alpha2=true"])

    def __enter__(self) -> RealCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # starting and stopping

    def start(self) -> RealCluster:
        """Start etcd and the API server, install the CRDs of deploy/crds, and wait until they respond."""
        if self._processes is not None:
            raise RuntimeError("already started")
        if not (found := available("etcd", self._kubernetes)):
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
        """End all processes and remove the folder. A second call does nothing."""
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
        """Kill the API server with SIGKILL. Watches and requests are cut. etcd keeps every object."""
        self.processes.end("kube-apiserver")

    def restart_api_server(self) -> None:
        """Start the API server again, on the same port and the same etcd. Kills a running one first."""
        self.kill_api_server()
        self._start_api_server()
        # The server reports ready, but answers 429 for custom objects until it has read their CRDs.
        for crd in self._installed_crds():
            self._await_crd(crd)

    def start_kwok(self, stages: Path | None = None) -> None:
        """Start simulated kubelets for all nodes: bound pods run, pods of Jobs complete, deleted pods go.

        A node without a Ready condition becomes Ready. A node that a test makes NotReady stays NotReady. `stages` is a
        file with more Stages, or with others of the same names.
        """
        port = free_port()
        command = commands.kwok(
            self._part("kwok"), self.folder, port=port, kubeconfig=self.kubeconfig, own_stages=stages
        )
        self.processes.start("kwok", command)
        self.processes.await_answer("kwok", lambda: listens(port))

    def stop_kwok(self) -> None:
        self.processes.end("kwok")

    def start_controller_manager(self, controllers: Sequence[str] = ("*", "-node-lifecycle-controller")) -> None:
        """Start kube-controller-manager, by default without the controller that taints nodes with a silent kubelet."""
        port = free_port()
        command = commands.controller_manager(
            self._part("kubernetes"),
            self.folder,
            port=port,
            kubeconfig=self.kubeconfig,
            controllers=controllers,
            gates=self._gates,
        )
        self.processes.start("kube-controller-manager", command)
        self.processes.await_answer("kube-controller-manager", lambda: listens(port))

    def start_scheduler(self, user: str = ADMIN, flags: Sequence[str] = ()) -> None:
        """Start kube-scheduler, for pods that name no other scheduler. It is built for real nodes (`node`)."""
        port, kubeconfig = free_port(), self.kubeconfig_of(user)
        command = commands.kube_scheduler(self._part("node"), self.folder, port=port, kubeconfig=kubeconfig)
        self.processes.start("kube-scheduler", [*command, *flags])
        self.processes.await_answer("kube-scheduler", lambda: listens(port))

    def apply_volcano(self) -> None:
        """Apply Volcano's own CRDs. Its scheduler waits until all kinds that it watches are served."""
        self.apply_files(sorted(self._part("volcano").glob("*.yaml")))

    def start_volcano(self, flags: Sequence[str] = ()) -> None:
        """Start Volcano's scheduler alone (`apply_volcano` comes first).

        Its controllers would open queues and make PodGroups for pods without one; the test that starts it does that.
        """
        port = free_port()
        command = commands.volcano_scheduler(self._part("volcano"), port=port, kubeconfig=self.kubeconfig)
        self.processes.start("volcano-scheduler", [*command, *flags])
        self.processes.await_answer("volcano-scheduler", lambda: listens(port))

    def compact(self) -> None:
        """Let etcd forget all but the current version of every object."""
        at = self._ask_etcd("range", {"key": "AA=="})["header"]["revision"]
        self._ask_etcd("compaction", {"revision": at, "physical": True})

    def _ask_etcd(self, what: str, body: Object) -> Any:
        data = json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.etcd}/v3/kv/{what}", data, timeout=30) as answer:
            return json.load(answer)

    def stop_controller_manager(self) -> None:
        self.processes.end("kube-controller-manager")

    # requests

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
        """Send one request as the admin, or with another token. Raises `Refused` on an error."""
        return self._api.request(method, path, body, token=token, content_type=content_type)

    def serves(self, api_version: str, kind: str) -> bool:
        return self._api.serves(api_version, kind)

    def get(self, api_version: str, kind: str, name: str, namespace: str = "default") -> Any:
        thing = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}}
        return self.request("GET", self._api.path(thing))

    def objects(self, api_version: str, kind: str, namespace: str = "", **query: str) -> list[Any]:
        """All objects of a kind, in one namespace or in all. `query` is for example `labelSelector="a=b"`."""
        return self._api.objects(api_version, kind, namespace, **query)

    def delete(self, thing: Object, **options: Any) -> None:
        """Delete an object. `options` is for example `gracePeriodSeconds=0`."""
        self.request("DELETE", self._api.path(thing), options)

    def apply(self, objects: Iterable[Object], *, parallel: int = 16) -> list[Any]:
        """Create objects, or apply those that exist. Returns them in order, as the server stores them.

        Namespaces and CRDs are first, and each CRD is served before the next step. The others are created in parallel.
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
        """Apply all documents of YAML files."""
        documents = [thing for path in paths for thing in yaml.load_all(path.read_text(), yaml.CSafeLoader) if thing]
        return self.apply(documents)

    def bind(self, pod: str, node: str, namespace: str = "default") -> None:
        """Bind a pod to a node, as a scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        self.request("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", binding)

    def clear(self) -> None:
        """Delete the objects of tests, including custom objects, in a cluster that tests share."""
        clear(self._api, self._installed_crds())

    # helpers

    def _part(self, name: str) -> Path:
        if not (found := available(name)):
            raise StartFailed(found.why_not)
        return self._homes[name]

    def _write_files(self) -> None:
        """Choose ports and tokens, and write the files that the API server reads."""
        self._etcd_port, self._port = free_port(), free_port()
        self._tokens = {user: secrets.token_hex(16) for user in self._users}
        self.server = f"https://127.0.0.1:{self._port}"
        self.etcd = f"http://127.0.0.1:{self._etcd_port}"
        self.token = self._tokens[ADMIN]
        self.ca = self.folder / commands.CERTIFICATE
        self.kubeconfig = self.kubeconfig_of(ADMIN)
        self._api = Api(self._port, self.ca, self.token)
        commands.write_files(self.folder, self._tokens, self._users)
        if self._address:
            commands.write_certificate(self.folder, self._address)

    def _start_etcd(self) -> None:
        command = commands.etcd(self._homes["etcd"], self.folder, port=self._etcd_port, peer_port=free_port())
        self.processes.start("etcd", command)

    def _start_api_server(self) -> None:
        command = commands.api_server(
            self._homes[self._kubernetes],
            self.folder,
            port=self._port,
            etcd_port=self._etcd_port,
            gates=self._gates,
            versions=self._runtime_config,
            address=self._address,
        )
        self.processes.start("kube-apiserver", [*command, *self._flags])
        # The server creates this namespace after it is ready. Most objects of tests are in it.
        for path in ("/readyz", "/api/v1/namespaces/default"):
            self.processes.await_answer("kube-apiserver", partial(self._api.answers, path), "etcd")

    def _installed_crds(self) -> list[Any]:
        return self.objects("apiextensions.k8s.io/v1", "CustomResourceDefinition")

    def _await_crd(self, crd: Object) -> None:
        """Wait until the kind is served, and listed: a client that looks earlier finds only some kinds of a group."""
        group, names = crd["spec"]["group"], crd["spec"]["names"]
        served = [version["name"] for version in crd["spec"]["versions"] if version["served"]]
        for version in served:
            path = f"/apis/{group}/{version}/{names['plural']}?limit=1"
            wait_until(partial(self._api.answers, path), f"{names['kind']} of {group}/{version} is served")
            listed = partial(self._lists, f"/apis/{group}/{version}", names["plural"])
            wait_until(listed, f"{names['kind']} of {group}/{version} is listed")

    def _lists(self, root: str, plural: str) -> bool:
        return self._api.answers(root) and plural in {kind["name"] for kind in self.request("GET", root)["resources"]}
