"""HTTP on a real API server: real ServiceAccount tokens, the rights of `deploy/`, and clients that hold connections."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.live import bound, connected
from tests.support.patience import PATIENCE, wait_until
from tests.support.real.cluster import RealCluster
from tests.support.real.processes import free_port
from tests.support.scheduler import Child

from maar.controller.process import LEASE_NAMESPACE
from maar.report import Reporter

DEPLOY = Path(__file__).parents[2] / "deploy"
ACCOUNT = "system:serviceaccount:maar-system:maar"
MAAR = [sys.executable, "-m", "maar.cli.main"]
GOOD = {"epoch": 1, "seconds": 60.0, "workers": 2}


def ask(port: int, path: str, token: str = "", body: object = None) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers), timeout=PATIENCE
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def token_of(cluster: RealCluster, namespace: str, name: str = "trainer", **spec: Any) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token: str = cluster.request("POST", path, request)["status"]["token"]
    return token


def test_trainings_report_with_the_token_that_every_pod_has(
    new_cluster: Callable[..., RealCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the service account of `deploy/`, with its rights and no more: `maar.report` needs no set-up."""
    cluster = new_cluster(users={ACCOUNT: ["system:serviceaccounts"]})
    cluster.apply_files([DEPLOY / "1-rights.yaml"])
    for space in ("team", "other"):
        cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}])
        account = {"metadata": {"name": "trainer", "namespace": space}}
        cluster.apply([{"apiVersion": "v1", "kind": "ServiceAccount", **account}])
    port, history = free_port(), tmp_path / "h.db"
    kubeconfig = cluster.kubeconfig_of(ACCOUNT).rename(tmp_path / "kubeconfig")
    options = ("--history", str(history), "--http-port", str(port), "--lease-namespace", LEASE_NAMESPACE)
    child = Child(kubeconfig, tmp_path / "maar.log", *options)
    try:
        wait_until(lambda: ask(port, "/readyz") == (200, "ok"), "ready")
        wait_until(lambda: child.says("history: "), "the database")
        path = "/v1/jobs/team/resnet/measurements"
        for token in (
            token_of(cluster, "team"),
            *(token_of(cluster, "team", audiences=[to]) for to in ("maar.dev", "maar")),
        ):
            assert 202 == ask(port, path, token, GOOD)[0]
            status, text = ask(port, "/v1/jobs/other/resnet/measurements", token, GOOD)
            assert 403 == status
            assert "jobs of namespace `other` need a token of that namespace" in text
        for token in ("", "junk", cluster.token_of(ACCOUNT), token_of(cluster, "team", audiences=["elsewhere"])):
            assert 401 == ask(port, path, token, GOOD)[0]
        head, payload, signature = token_of(cluster, "team").split(".")
        assert 401 == ask(port, path, f"{head}.{payload}.{signature[::-1]}", GOOD)[0], "not signed by the API server"
        (tmp_path / "token").write_text(token_of(cluster, "team"))
        monkeypatch.setenv("MAAR_TOKEN_FILE", str(tmp_path / "token"))
        reporter = Reporter(f"http://127.0.0.1:{port}", "team/bert", total_epochs=5)
        reporter.report(0, 30.0)
        reporter.flush(PATIENCE)

        def shown() -> str:
            command = [*MAAR, "history", "--history", str(history), "-o", "json", "team/bert"]
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout

        wait_until(lambda: '"job": "team/bert"' in shown() or '"job":"team/bert"' in shown(), "it is stored")
    finally:
        child.end()
    assert not child.says("Traceback")
    assert not child.says("forbidden")


def test_the_rights_are_needed(new_cluster: Callable[..., RealCluster], tmp_path: Path) -> None:
    """Without the right to review tokens, clients are asked to retry, and the log says what is missing."""
    cluster = new_cluster(users={ACCOUNT: ["system:serviceaccounts"]})
    documents = [thing for thing in yaml.safe_load_all((DEPLOY / "1-rights.yaml").read_text()) if thing]
    for thing in documents:
        if thing["kind"] == "ClusterRole":
            thing["rules"] = [rule for rule in thing["rules"] if "tokenreviews" not in rule["resources"]]
    cluster.apply(documents[:1])
    cluster.apply(documents[1:])
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer", "namespace": "default"}}
    cluster.apply([account])
    port = free_port()
    kubeconfig = cluster.kubeconfig_of(ACCOUNT).rename(tmp_path / "kubeconfig")
    options = ("--history", str(tmp_path / "h.db"), "--http-port", str(port), "--lease-namespace", LEASE_NAMESPACE)
    child = Child(kubeconfig, tmp_path / "maar.log", *options)
    try:
        wait_until(lambda: ask(port, "/healthz") == (200, "ok"), "healthy")
        status, text = ask(port, "/v1/jobs/default/x/measurements", token_of(cluster, "default"), GOOD)
        assert 503 == status
        assert "forbidden: grant `create` on `tokenreviews.authentication.k8s.io`" in text
        wait_until(lambda: child.says("cannot check tokens and rights: "), "the log")
    finally:
        child.end()


def test_thousands_of_connections_do_not_stop_it(real_cluster: RealCluster, tmp_path: Path) -> None:
    """2,000 clients hold connections and one floods; a gang starts, health answers, and the HTTP process is small."""
    many = int(os.environ.get("MAAR_CONNECTIONS", "2000"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < many + 500:
        pytest.skip(f"needs {many + 500} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port = free_port()
    child = Child(real_cluster.kubeconfig, tmp_path / "maar.log", "--history", "none", "--http-port", str(port))
    held: list[socket.socket] = []

    async def story() -> None:
        async with connected(real_cluster.kubeconfig) as cluster:
            await cluster.nodes(2, gpu=8)
            await cluster.eventually(lambda: ask(port, "/readyz") == (200, "ok"), "ready")
            for number in range(many):
                each = socket.socket()
                held.append(each)
                each.setblocking(False)
                each.bind((f"127.0.{1 + number % 100}.1", 0))
                await asyncio.get_running_loop().sock_connect(each, ("127.0.0.1", port))
                if number % 2:
                    await asyncio.get_running_loop().sock_sendall(each, b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
            await cluster.gang("train", 2, gpu=8)
            await cluster.until(bound("train", 2), "the gang starts")
            assert (200, "ok") == await asyncio.to_thread(ask, port, "/healthz")
            assert 200 == (await asyncio.to_thread(ask, port, "/metrics"))[0]

    try:
        asyncio.run(story())
        (front,) = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        status = Path(f"/proc/{front}/status").read_text()
        (memory,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert memory < 100_000, "kB"
        child.end()  # with SIGKILL
        wait_until(lambda: not Path(f"/proc/{front}").exists(), "the HTTP process ends too")
    finally:
        for each in held:
            each.close()
        child.end()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
