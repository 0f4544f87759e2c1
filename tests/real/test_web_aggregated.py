"""The aggregated API on a real API server: it passes on who asks, also users with client certificates."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from click.testing import CliRunner, Result
from tests.real.test_web import ACCOUNT, DEPLOY, RBAC
from tests.support.live import OUR_CRDS, connected
from tests.support.patience import PATIENCE, wait_until
from tests.support.real.api import Refused
from tests.support.real.cluster import RealCluster
from tests.support.web import gang

from maar.cli.main import main
from maar.web.api.roots import ROOT

FRONT = "front-proxy-client"


def pem(file: Path, issued: trustme.LeafCert) -> Path:
    file.write_bytes(b"".join(blob.bytes() for blob in (*issued.cert_chain_pems, issued.private_key_pem)))
    return file


def authority(file: Path) -> trustme.CA:
    made = trustme.CA()
    made.cert_pem.write_to_path(str(file))
    return made


def kubeconfig(cluster: RealCluster, certificate: Path, file: Path) -> Path:
    """A kubeconfig with a client certificate and no token."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"client-certificate": str(certificate), "client-key": str(certificate)}
    file.write_text(yaml.safe_dump(config))
    return file


def maar(config: Path, *arguments: str) -> Result:
    args = [*arguments, "--server", "aggregated", "--kubeconfig", str(config)]
    return CliRunner().invoke(main, args, catch_exceptions=False)


def raw(cluster: RealCluster, path: str, certificate: Path, method: str = "GET", **headers: str) -> tuple[int, Any]:
    """Ask the API server with a client certificate."""
    context = ssl.create_default_context(cafile=str(cluster.ca))
    context.load_cert_chain(certificate)
    request = urllib.request.Request(f"{cluster.server}{path}", headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def manifests(port: int, bundle: bytes) -> list[dict[str, Any]]:
    """Those of `deploy/web`, with a Service that leads to this machine."""
    found = list(yaml.safe_load_all((DEPLOY / "web" / "aggregated" / "aggregated.yaml").read_text()))
    for item in found:
        if item["kind"] == "Service":
            item["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        elif item["kind"] == "APIService":
            item["spec"]["service"]["port"] = port
            item["spec"]["caBundle"] = base64.b64encode(bundle).decode()
    return found


def test_users_with_client_certificates_ask_through_the_api_server(
    new_cluster: Callable[..., RealCluster], tmp_path: Path
) -> None:
    users, proxies, ours = (authority(tmp_path / f"{name}.crt") for name in ("users", "proxies", "ours"))
    front = pem(tmp_path / "front.pem", proxies.issue_cert("front.example", common_name=FRONT))
    alice, owner = (
        pem(tmp_path / f"{name}.pem", users.issue_cert("user.example", common_name=name)) for name in ("alice", "owner")
    )
    served = pem(tmp_path / "served.pem", ours.issue_cert("maar-web-aggregated.maar-system.svc"))
    cluster = new_cluster(
        users={ACCOUNT: ["system:serviceaccounts"]},
        flags=[
            f"--client-ca-file={tmp_path / 'users.crt'}",
            f"--requestheader-client-ca-file={tmp_path / 'proxies.crt'}",
            f"--requestheader-allowed-names={FRONT}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-uid-headers=X-Remote-Uid",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={front}",
            f"--proxy-client-key-file={front}",
        ],
    )
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("team-a", "xq7")])
    cluster.apply_files([DEPLOY / "1-rights.yaml", DEPLOY / "web" / "web.yaml"])
    cluster.apply(
        [thing for thing in manifests(1, b"") if thing["kind"] in ("RoleBinding", "ClusterRole", "ClusterRoleBinding")]
    )
    cluster.apply(rights())

    async def set_up() -> None:
        async with connected(cluster.kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(1, gpu=8)
            await gang(live.api, "team-a", "mine", 1, gpu=8)
            await gang(live.api, "xq7", "xq7job", 1, gpu=8, on="n0")

    asyncio.run(set_up())
    account = cluster.kubeconfig_of(ACCOUNT).rename(tmp_path / "account.kubeconfig")
    log = tmp_path / "log"
    command = [sys.executable, "-m", "maar.cli.main", "web", "--kubeconfig", str(account), "--history", "none"]
    options = ["--port=0", "--aggregated-port=0", f"--tls-cert={served}", f"--tls-key={served}", "--allow-writes"]
    with log.open("w") as out:
        process = subprocess.Popen([*command, *options], stderr=out)
    try:
        wait_until(lambda: "aggregated API at" in log.read_text() or process.poll() is not None, "a start")
        found = re.search(r"aggregated API at port (\d+)\n", log.read_text())
        assert found, log.read_text()
        cluster.apply(
            [i for i in manifests(int(found[1]), ours.cert_pem.bytes()) if i["kind"] in ("Service", "APIService")]
        )

        def available() -> bool:
            item = cluster.get("apiregistration.k8s.io/v1", "APIService", "v1.web.maar.dev")
            conditions = item.get("status", {}).get("conditions", [])
            return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)

        wait_until(available, "the API server finds it")
        wait_until(lambda: raw(cluster, f"{ROOT}/jobs", owner)[0] == 200, "it is ready")
        story(cluster, tmp_path, alice, owner)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
    assert "Traceback" not in log.read_text()
    assert "forbidden" not in log.read_text(), "the rights are enough"


def rights() -> list[dict[str, Any]]:
    """`alice` may list the pods of her namespace, `owner` all pods."""
    made: list[dict[str, Any]] = []
    for kind, name, where in (("Role", "alice", {"namespace": "team-a"}), ("ClusterRole", "owner", {})):
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
        made.append({"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": name, **where}, "rules": rules})
        made.append(
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": f"{kind}Binding",
                "metadata": {"name": name, **where},
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": [{"apiGroup": RBAC, "kind": "User", "name": name}],
            }
        )
    return made


def story(cluster: RealCluster, folder: Path, alice: Path, owner: Path) -> None:
    hers, all_of_it = (kubeconfig(cluster, file, file.with_suffix(".kubeconfig")) for file in (alice, owner))
    # 1. The commands, with client certificates.
    listed = maar(hers, "jobs")
    assert (0, True, False) == (listed.exit_code, "team-a/mine" in listed.stdout, "xq7" in listed.stdout), listed.stderr
    listed = maar(all_of_it, "jobs")
    assert (0, True) == (listed.exit_code, "xq7/xq7job" in listed.stdout)
    why = maar(hers, "why", "team-a/mine")
    assert (0, False) == (why.exit_code, "xq7" in why.stdout), why.stderr
    (folder / "node.yaml").write_text("edit: add-nodes-like\nlike: n0\n")
    asked = maar(hers, "what-if", "-f", str(folder / "node.yaml"))
    assert (0, True) == (asked.exit_code, "team-a/mine" in asked.stdout), asked.stderr
    for name in ("queues", "nodes"):
        assert 0 == maar(hers, name).exit_code
    # 2. What a user writes into these headers herself is not passed on.
    forged = {"X-Remote-User": "owner", "X-Remote-Group": "system:masters"}
    status, who = raw(cluster, f"{ROOT}/whoami", alice, **forged)
    assert (200, "alice", ["team-a"], False) == (status, who["user"], who["namespaces"], who["writes"])
    # 3. Nothing is written through it: neither by users, whom the API server does not let, nor by an administrator.
    status, text = raw(cluster, f"{ROOT}/jobs/team-a/mine", owner, "DELETE")
    assert (403, True) == (status, 'User \\"owner\\" cannot delete' in text), text
    assert 0 == maar(cluster.kubeconfig, "jobs").exit_code, "an administrator with a token"
    with pytest.raises(Refused) as refused:
        cluster.request("DELETE", f"{ROOT}/jobs/team-a/mine")
    assert 403 == refused.value.status
    assert 1 == len(cluster.objects("v1", "Pod", "team-a"))
