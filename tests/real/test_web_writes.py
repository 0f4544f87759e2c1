"""Jobs written through `maar web` on a real API server with the real training operator: by the rights of the caller."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from tests.real.test_submit import MANIFEST, OWNER, STRANGER, TEAM, jobs, node, rights, workers
from tests.real.test_web import ACCOUNT, DEPLOY, ask, token_of
from tests.support.elastic_story import CONFIG
from tests.support.live import OUR_CRDS
from tests.support.patience import PATIENCE, wait_until
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available
from tests.support.real.training_operator import start_training_operator
from tests.support.scheduler import Child

ROBOT = "robot"
"""A ServiceAccount with the rights of the owner."""
POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create, update, patch, delete, deletecollection]}
- {level: None}
"""


def write(base: str, method: str, path: str, token: str, body: object = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{base}/api/v1{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@contextmanager
def webbing(kubeconfig: Path, log: Path) -> Iterator[str]:
    """A `maar web` that allows writes; yields its address."""
    command = [sys.executable, "-m", "maar.cli.main", "web", "--kubeconfig", str(kubeconfig), "--port", "0"]
    with log.open("w") as out:
        process = subprocess.Popen([*command, "--history", "none", "--allow-writes"], stderr=out)
    try:
        wait_until(lambda: "serving at" in log.read_text() or process.poll() is not None, "a start")
        found = re.search(r"serving at (http://\S+)/\n", log.read_text())
        assert found, log.read_text()
        wait_until(lambda: ask(found[1], "/readyz")[0] == 200, "it is ready")
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def certified(cluster: RealCluster, authority: trustme.CA, folder: Path) -> Path:
    """The kubeconfig of an administrator who has a client certificate and no token."""
    mine = authority.issue_cert("root.example.org", common_name="root", organization_name="system:masters")
    pem = b"".join(blob.bytes() for blob in (*mine.cert_chain_pems, mine.private_key_pem))
    (folder / "root.pem").write_bytes(pem)
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    files = {"client-certificate": str(folder / "root.pem"), "client-key": str(folder / "root.pem")}
    config["users"][0]["user"] = files
    path = folder / "root.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def robot() -> list[dict[str, Any]]:
    binding = rights()[-1]
    subjects = [{"kind": "ServiceAccount", "name": ROBOT, "namespace": TEAM}]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ROBOT, "namespace": TEAM}},
        {**binding, "metadata": {"name": ROBOT, "namespace": TEAM}, "subjects": subjects},
    ]


@pytest.mark.slow
def test_jobs_are_written_by_the_rights_of_the_caller(new_cluster: Callable[..., RealCluster], tmp_path: Path) -> None:
    if not (found := available("training-operator")):
        pytest.skip(found.why_not)
    authority, audit = trustme.CA(), tmp_path / "audit.log"
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "maar.yaml").write_text(CONFIG)
    flags = [
        f"--client-ca-file={tmp_path / 'ca.pem'}",
        f"--audit-policy-file={tmp_path / 'policy.yaml'}",
        f"--audit-log-path={audit}",
    ]
    cluster = new_cluster(users={OWNER: [], STRANGER: [], ACCOUNT: ["system:serviceaccounts"]}, flags=flags)
    cluster.start_kwok()
    start_training_operator(cluster)
    cluster.apply_files(sorted(OUR_CRDS.glob("*.yaml")))
    cluster.start_controller_manager(("garbage-collector-controller",))
    cluster.apply_files([DEPLOY / "1-rights.yaml", DEPLOY / "web" / "web.yaml"])
    cluster.apply([*rights(), *robot(), node()])
    options = ["--config", str(tmp_path / "maar.yaml"), "--no-leader-elect", "--history", "none"]
    scheduler = Child(cluster.kubeconfig, tmp_path / "maar.log", *options)
    owner, stranger = cluster.token_of(OWNER), cluster.token_of(STRANGER)
    path, submission = f"/jobs/{TEAM}/train", {"manifests": MANIFEST}
    kubeconfig = cluster.kubeconfig_of(ACCOUNT).rename(tmp_path / "kubeconfig")
    try:
        with webbing(kubeconfig, tmp_path / "log") as base:
            story(cluster, base, owner, stranger)
        # An API server believes a client certificate before it looks at a token: ours must not go with a token.
        with webbing(certified(cluster, authority, tmp_path), tmp_path / "log2") as base:
            status, answer = write(base, "POST", "/jobs", stranger, submission)
            assert (403, True) == (status, f"to `{STRANGER}`" in answer["error"]), answer
            assert [] == jobs(cluster)
            assert 201 == write(base, "POST", "/jobs", owner, submission)[0]
            assert 403 == write(base, "DELETE", path, stranger)[0]
            assert 200 == write(base, "DELETE", path, owner)[0]
    finally:
        scheduler.end()
    text = (tmp_path / "log").read_text() + (tmp_path / "log2").read_text()
    assert "Traceback" not in text
    assert not any(token in text for token in (owner, stranger))
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    written = {
        (event["user"]["username"], event["verb"], event["responseStatus"]["code"] < 300)
        for event in events
        if event["objectRef"]["resource"] == "pytorchjobs" and event["user"].get("username") in (OWNER, STRANGER)
    }
    assert {(OWNER, verb, True) for verb in ("create", "patch", "delete")} == {one for one in written if one[2]}
    # Changes need the right to read the object first, which the stranger does not have either.
    assert {(STRANGER, "create", False)} == {one for one in written if one[0] == STRANGER}
    ours = {e["objectRef"]["resource"] for e in events if e["user"].get("username") == ACCOUNT}
    assert {"tokenreviews", "subjectaccessreviews"} == ours, "the process itself writes nothing"


def story(cluster: RealCluster, base: str, owner: str, stranger: str) -> None:
    path, submission = f"/jobs/{TEAM}/train", {"manifests": MANIFEST}
    # 1. A caller without rights creates nothing, nor does a token that the API server does not accept.
    status, answer = write(base, "POST", "/jobs", stranger, submission)
    assert (403, True) == (status, f"to `{STRANGER}`" in answer["error"]), answer
    for_us = token_of(cluster, TEAM, ROBOT, audiences=["maar.dev"])
    assert 200 == write(base, "GET", "/jobs", for_us)[0]
    status, answer = write(base, "POST", "/jobs", for_us, submission)
    assert (403, True) == (status, "a token that the API server itself accepts" in answer["error"])
    assert [] == jobs(cluster)
    # 2. Its owner creates it, suspended; Maar resumes it, with all the workers that it can use.
    bad = MANIFEST.replace("spec:\n", "spec:\n  runPolicy: {backoffLimit: many}\n", 1)
    status, answer = write(base, "POST", "/jobs", owner, {"manifests": bad, "dryRun": True})
    assert (422, "manifests[0].spec.runPolicy.backoffLimit") == (status, answer["field"]), answer
    status, answer = write(base, "POST", "/jobs", owner, submission)
    assert 201 == status, answer
    (made,) = answer["created"]
    assert ("PyTorchJob", TEAM, "train") == (made["kind"], made["namespace"], made["name"])
    forecast = made["forecast"]
    assert "expected" == forecast["verdict"], "its namespace had no jobs before, and she may list pods there"
    assert 30.0 > forecast["startP90"] - forecast["madeAt"], "there is room"
    assert "spec.runPolicy.suspend: true" in made["completed"]
    wait_until(lambda: workers(cluster) == 4, "its workers run")
    assert 409 == write(base, "POST", "/jobs", owner, submission)[0]
    # 3. A caller without rights changes nothing, and is not told whether there is such a job.
    before = jobs(cluster)[0]["metadata"]["uid"]
    for method, body in (("PATCH", {"hold": True}), ("PATCH", {"maxWorkers": 1}), ("DELETE", None)):
        assert 403 == write(base, method, path, stranger, body)[0]
        assert 403 == write(base, method, f"/jobs/{TEAM}/nothing", stranger, body)[0]
    assert 404 == write(base, "GET", path, stranger)[0]
    assert (before, 4) == (jobs(cluster)[0]["metadata"]["uid"], workers(cluster))
    # 4. Its owner resizes, stops, releases and cancels it.
    assert 200 == write(base, "PATCH", path, owner, {"maxWorkers": 2})[0]
    wait_until(lambda: workers(cluster) == 2, "it has two workers")
    assert 200 == write(base, "PATCH", path, owner, {"hold": True, "stop": True})[0]
    wait_until(lambda: workers(cluster) == 0, "it is stopped")

    def held() -> bool:
        status, answer = write(base, "GET", f"{path}?unblock=false", owner)
        return status == 200 and answer["detail"]["job"]["held"] and answer["detail"]["job"]["condition"] == "Held"

    wait_until(held, "its reason is told")
    assert 200 == write(base, "PATCH", path, owner, {"hold": False})[0]
    wait_until(lambda: workers(cluster) == 2, "it runs again")
    status, answer = write(base, "DELETE", path, owner)
    assert (200, ["train"]) == (status, [one["name"] for one in answer["deleted"]])
    wait_until(lambda: not jobs(cluster) and not workers(cluster), "it is gone with its pods")
