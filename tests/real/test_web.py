"""`maar web` on a real API server: real tokens and rights of two users, with the rights of `deploy/web` and no more."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.live import OUR_CRDS, connected
from tests.support.patience import PATIENCE, wait_until
from tests.support.real.cluster import RealCluster
from tests.support.web import gang

DEPLOY = Path(__file__).parents[2] / "deploy"
ACCOUNT = "system:serviceaccount:maar-system:maar-web"
RBAC = "rbac.authorization.k8s.io"


def ask(base: str, path: str, token: str = "", body: object = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{base}{path}", data, headers), timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


def token_of(cluster: RealCluster, namespace: str, name: str, **spec: Any) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token: str = cluster.request("POST", path, request)["status"]["token"]
    return token


def users() -> list[dict[str, Any]]:
    """`alice` may list the pods of her namespace, `owner` all pods, `nobody` none."""
    made: list[dict[str, Any]] = []
    for name in ("alice", "owner", "nobody"):
        made.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "team-a"}})
    for kind, name, where in (("Role", "alice", {"namespace": "team-a"}), ("ClusterRole", "owner", {})):
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
        made.append({"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **where}, "rules": rules})
        made.append(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": f"{kind}Binding",
                "metadata": {"name": name, **where},
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "team-a"}],
            }
        )
    return made


def eviction() -> dict[str, Any]:
    """Maar's event on a pod of `team-a/mine` that is gone."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "evicted", "namespace": "team-a"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "mine-9", "namespace": "team-a"},
        "reason": "Preempted",
        "message": "preempted: gang of `team-a/mine` (priority 0) for `xq7team/xq7job` (priority 9)",
        "firstTimestamp": "2026-11-01T10:00:00Z",
        "lastTimestamp": "2026-11-01T10:00:00Z",
        "type": "Normal",
        "source": {"component": "maar"},
    }


def test_two_users_of_different_rights(new_cluster: Callable[..., RealCluster], tmp_path: Path) -> None:
    cluster = new_cluster(users={ACCOUNT: ["system:serviceaccounts"]})
    cluster.apply_files([DEPLOY / "1-rights.yaml"])
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("team-a", "xq7team")]
    cluster.apply(spaces)
    cluster.apply_files([DEPLOY / "web" / "web.yaml"])
    cluster.apply(users())

    async def set_up() -> dict[str, str]:
        async with connected(cluster.kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            await gang(live.api, "team-a", "mine", 1, gpu=8)
            await gang(live.api, "xq7team", "xq7job", 1, gpu=8, on="n0")
            await live.api.create("/api/v1/namespaces/team-a/events", eviction())
            return await live.versions()

    before = asyncio.run(set_up())
    kubeconfig = cluster.kubeconfig_of(ACCOUNT).rename(tmp_path / "kubeconfig")
    log = tmp_path / "log"
    command = [sys.executable, "-m", "maar.cli.main", "web", "--kubeconfig", str(kubeconfig), "--port", "0"]
    with log.open("w") as out:
        process = subprocess.Popen([*command, "--history", "none"], stderr=out)
    try:
        wait_until(lambda: "serving at" in log.read_text() or process.poll() is not None, "a start")
        found = re.search(r"serving at (http://\S+)/\n", log.read_text())
        assert found, log.read_text()
        base = found[1]
        wait_until(lambda: ask(base, "/readyz")[0] == 200, "it is ready")
        tokens = {name: token_of(cluster, "team-a", name) for name in ("alice", "owner", "nobody")}

        def names(token: str) -> list[str]:
            status, text = ask(base, "/api/v1/jobs", token)
            assert 200 == status, text
            return [job["name"] for job in json.loads(text)["items"]]

        wait_until(lambda: names(tokens["owner"]) == ["mine", "xq7job"], "the owner sees all")
        owners = {job["owner"]["kind"] for job in json.loads(ask(base, "/api/v1/jobs", tokens["owner"])[1])["items"]}
        assert {"PodGroup"} == owners, "also of jobs from before the start"
        assert ["mine"] == names(tokens["alice"])
        assert [] == names(tokens["nobody"])
        assert ["mine"] == names(token_of(cluster, "team-a", "alice", audiences=["maar.dev"]))
        for bad in ("", "junk", token_of(cluster, "team-a", "alice", audiences=["elsewhere"]), tokens["alice"] + "x"):
            assert 401 == ask(base, "/api/v1/jobs", bad)[0]
        for path in ("cluster", "queues", "nodes", "jobs", "decisions", "jobs/team-a/mine", "jobs/xq7team/xq7job"):
            status, text = ask(base, f"/api/v1/{path}", tokens["alice"])
            assert status == (404 if "xq7" in path else 200), text
            assert "xq7" not in text
        story = json.loads(ask(base, "/api/v1/jobs/team-a/mine?unblock=false", tokens["alice"])[1])["detail"]["story"]
        told = [entry["words"] for entry in story if entry["what"] == "Evicted"]
        assert ["preempted: gang of `team-a/mine` (priority 0) for another job (priority 9): 1 pod"] == told
        question = {"edits": [{"edit": "add-nodes-like", "like": "n0"}]}
        status, text = ask(base, "/api/v1/what-if", tokens["alice"], question)
        assert (200, ["team-a/mine"]) == (status, json.loads(text)["whatIf"]["starts"]), text
        assert "forbidden" not in log.read_text(), "the rights are enough"
        cluster.kill_api_server()
        assert 200 == ask(base, "/api/v1/jobs", tokens["alice"])[0], "what is known is shown"
        cluster.restart_api_server()
        wait_until(lambda: ask(base, "/api/v1/cluster", tokens["nobody"])[0] == 200, "it goes on")

        async def after() -> dict[str, str]:
            async with connected(cluster.kubeconfig) as live:
                found = await live.versions()
                await gang(live.api, "team-a", "later", 1, gpu=1)
                return found

        assert before == asyncio.run(after()), "it wrote something"
        wait_until(lambda: "later" in names(tokens["alice"]), "it follows the cluster again")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    text = log.read_text()
    assert "Traceback" not in text
    assert not any(token in text for token in tokens.values())
