"""The manifests in `deploy/` match what the code does, needs and accepts."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from tests.support.live import NAMESPACE, Live, bound, connected, scheduling
from tests.support.memory import electing
from tests.support.provisioner import claim, storage_class, using, volume
from tests.support.real.cluster import UPSTREAM_GANGS, RealCluster
from tests.support.real.parts import available

from maar import __version__
from maar.cli.run import run
from maar.config.file import default_config, read_config
from maar.controller.main import lease_of_shard
from maar.controller.process import LEASE_NAMESPACE
from maar.controller.settings.brakes import BrakeSettings
from maar.history.history import History
from maar.kube.kinds import rights, rights_at_home, upstream_podgroup
from maar.kube.kinds.cluster import CONFIGURATION
from maar.kube.read.storage.claims import SELECTED_NODE
from maar.kube.wire.api_resources import CLAIMS, CONFIG_MAPS, NODES, QUEUES, STORAGE_CLASSES, VOLUMES
from maar.kube.write.leases import LeaderElection
from maar.registry import catalog
from maar.shards.slots import MOST_SHARDS

DEPLOY = Path(__file__).parents[1] / "deploy"


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """Every object by kind and name, in the order in which `kubectl apply -f deploy` sends them."""
    objects = [item for file in sorted(DEPLOY.glob("*.yaml")) for item in yaml.safe_load_all(file.read_text())]
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def rules(kind: str = "ClusterRole") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manifests()[kind, "maar"]["rules"]
    return found


def granted(group: str, resource: str, kind: str = "ClusterRole") -> set[str]:
    """The verbs that a role grants on a resource."""
    fit = [r["verbs"] for r in rules(kind) if group in r["apiGroups"] and resource in r["resources"]]
    return {verb for verbs in fit for verb in verbs}


def container() -> dict[str, Any]:
    (only,) = manifests()["Deployment", "maar"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def arguments() -> click.Context:
    """The arguments of the Deployment as parsed by the command line. Unknown arguments raise an error."""
    command, *options = container()["args"]
    assert "run" == command
    return run.make_context("run", list(options))


def test_the_namespace_comes_first_and_holds_the_rest() -> None:
    first, *rest = manifests().values()
    assert ("Namespace", "maar-system") == (first["kind"], first["metadata"]["name"])
    elsewhere = {"ClusterRole", "ClusterRoleBinding", "PriorityClass", "Role", "RoleBinding"}
    assert {"maar-system"} == {m["metadata"].get("namespace") for m in rest if m["kind"] not in elsewhere}


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_the_bindings_give_the_roles_to_the_account_of_the_deployment(kind: str) -> None:
    binding = manifests()[f"{kind}Binding", "maar"]
    assert {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "maar"} == binding["roleRef"]
    account = manifests()["Deployment", "maar"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert [{"kind": "ServiceAccount", "name": account, "namespace": "maar-system"}] == binding["subjects"]
    assert ("ServiceAccount", account) in manifests()


def test_rights_are_exactly_what_the_table_of_kinds_needs() -> None:
    needed: dict[tuple[str, str], set[str]] = {}
    for right in rights():
        needed.setdefault((right.group, right.resource), set()).update(right.verbs)
    given: dict[tuple[str, str], set[str]] = {}
    for rule in rules():
        for place in itertools.product(rule["apiGroups"], rule["resources"]):
            given.setdefault(place, set()).update(rule["verbs"])
    assert needed == given


def test_the_lease_can_be_written_in_its_namespace() -> None:
    assert {"get", "watch", "create", "update", "patch"} == granted("coordination.k8s.io", "leases", "Role")
    (named,) = (r["resourceNames"] for r in rules("Role") if r["resources"] == ["leases"] and "resourceNames" in r)
    assert [lease_of_shard("maar", shard) for shard in range(MOST_SHARDS)] == named
    assert LEASE_NAMESPACE == arguments().params["lease_namespace"], "one for all, wherever Maar runs"
    for kind in ("Role", "RoleBinding"):
        assert LEASE_NAMESPACE == manifests()[kind, "maar"]["metadata"]["namespace"]


def test_the_state_can_be_written_in_its_namespace_and_nowhere_else() -> None:
    """`create` cannot be limited to a name."""
    home = [rule for rule in manifests()["Role", "maar"]["rules"] if rule["apiGroups"] == [""]]
    given = {(name, verb) for rule in home for name in rule.get("resourceNames", [""]) for verb in rule["verbs"]}
    assert {("configmaps",)} == {tuple(rule["resources"]) for rule in home}
    needed = {(name, verb) for name, right in rights_at_home() for verb in right.verbs}
    assert {("" if verb == "create" else name, verb) for name, verb in needed} == given
    assert set() == granted("", "configmaps", "ClusterRole")


def test_everyone_who_signs_in_may_read_the_configuration_in_use_and_nothing_else() -> None:
    (rule,) = manifests()["Role", "maar-configuration"]["rules"]
    only = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CONFIGURATION], "verbs": ["get"]}
    assert only == rule
    binding = manifests()["RoleBinding", "maar-configuration"]
    assert {LEASE_NAMESPACE} == {
        manifests()[kind, "maar-configuration"]["metadata"]["namespace"] for kind in ("Role", "RoleBinding")
    }
    assert ("Role", "maar-configuration") == (binding["roleRef"]["kind"], binding["roleRef"]["name"])
    assert [("Group", "system:authenticated")] == [(s["kind"], s["name"]) for s in binding["subjects"]]


def test_the_arguments_are_options_of_maar_run() -> None:
    given = arguments().params
    assert given["leader_elect"]
    assert not given["dry_run"]
    assert not given["delete_victims"], "the role does not allow deleting pods"
    assert ("maar",) == given["names"]


def test_the_named_files_are_in_the_configmap() -> None:
    (mount,) = (m for m in container()["volumeMounts"] if m["name"] == "configuration")
    assert "subPath" not in mount, "a file mounted with subPath never changes"
    given = arguments().params
    files = {Path(given["config"]), Path(given["brakes"])}
    assert {Path(mount["mountPath"]) / key for key in manifests()["ConfigMap", "maar"]["data"]} == files


def test_the_probes_use_the_served_port() -> None:
    (port,) = container()["ports"]
    assert arguments().params["http_port"] == port["containerPort"]
    probes = {probe: container()[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")}
    assert {"/healthz", "/readyz"} == {get["path"] for get in probes.values()}
    assert {port["name"]} == {get["port"] for get in probes.values()}


def test_the_service_leads_to_the_port_of_the_pods() -> None:
    service = manifests()["Service", "maar"]["spec"]
    pods = manifests()["Deployment", "maar"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= pods.items()
    (port,), (open_port,) = service["ports"], container()["ports"]
    assert (open_port["containerPort"], open_port["name"]) == (port["port"], port["targetPort"])


def test_the_history_is_set_and_needs_no_file() -> None:
    assert "none" == arguments().params["history"], "two replicas need a shared database"
    assert container()["securityContext"]["readOnlyRootFilesystem"]
    assert not History(arguments().params["history"]).on, "no warning about a file that is not writable"


def test_a_history_in_postgresql_is_a_few_lines_away() -> None:
    text = (DEPLOY / "3-deployment.yaml").read_text()
    wanted = text.replace("        - --history=none\n", "").replace("        # env:", "        env:")
    wanted = re.sub(r"^        # ( *(?:- name|value|secret|name|key))", r"        \1", wanted, flags=re.MULTILINE)
    (made,) = yaml.safe_load(wanted)["spec"]["template"]["spec"]["containers"]
    (variable,) = made["env"]
    option = next(p for p in run.params if p.name == "history")
    assert option.envvar == variable["name"]
    assert {"secretKeyRef": {"name": "maar-history", "key": "url"}} == variable["valueFrom"]
    assert "none" not in str(made["args"])


def test_shards_are_a_few_lines_away() -> None:
    text = (DEPLOY / "3-deployment.yaml").read_text()
    assert "  replicas: 2 " in text, "the comment beside it says how many for shards"
    wanted = re.sub(r"^        # (- --(?:shards|rack-label)=\S+).*$", r"        \1", text, flags=re.MULTILINE)
    (made,) = yaml.safe_load(wanted)["spec"]["template"]["spec"]["containers"]
    command, *options = made["args"]
    given = run.make_context(command, list(options)).params
    assert (3, "topology.kubernetes.io/rack") == (given["shards"], given["rack_label"])
    assert arguments().params["shards"] is None, "one Maar leads by default"


def test_the_configuration_is_the_default() -> None:
    loaded = read_config(manifests()["ConfigMap", "maar"]["data"]["maar.yaml"], "maar.yaml", catalog())
    assert [] == loaded.warnings
    assert default_config(catalog()) == loaded.config


def test_the_brakes_are_off() -> None:
    document = yaml.safe_load(manifests()["ConfigMap", "maar"]["data"]["brakes.yaml"])
    assert BrakeSettings() == msgspec.convert(document, BrakeSettings)
    fields = {field.encode_name for field in msgspec.structs.fields(BrakeSettings)}
    assert fields == document.keys(), "every brake is listed"


def test_the_image_is_that_of_this_version() -> None:
    assert f"maar:{__version__}" == container()["image"]


@pytest.mark.real
def test_with_these_rights_nothing_is_refused(tmp_path: Path) -> None:
    """On a real API server, as the service account: gangs start, preempt, wait and are elected."""
    if not (found := available()):
        (pytest.fail if os.environ.get("MAAR_REAL") else pytest.skip)(found.why_not)
    account = "system:serviceaccount:maar-system:maar"
    with RealCluster(
        gates=UPSTREAM_GANGS,
        runtime_config=["scheduling.k8s.io/v1alpha2=true"],
        users={account: ["system:serviceaccounts"]},
    ) as cluster:
        namespace, *rest = manifests().values()
        cluster.apply([namespace])
        cluster.apply(rest)
        cluster.start_kwok()
        # A colon in a path would split it into two paths.
        maars = cluster.kubeconfig_of(account).rename(tmp_path / "kubeconfig")
        asyncio.run(_story(cluster.kubeconfig, maars))


async def _story(admins: Path, maars: Path) -> None:
    async with connected(admins) as cluster, connected(maars) as maar:
        await cluster.nodes(2, gpu=8)
        await cluster.priority("high", 1000)
        election = LeaderElection(maar.api, "maar", LEASE_NAMESPACE, "one")
        await election.lead(lambda: asyncio.sleep(0), lambda: pytest.fail("the lease was lost"))
        async with scheduling(maar, config=electing(maars.parent)) as scheduler:
            await cluster.gang("low", 2, gpu=8)
            await cluster.until(bound("low", 2), "a gang starts")
            await _hand_over(cluster)
            await cluster.gang("high", 1, gpu=8, priorityClassName="high")
            await cluster.until(bound("high", 1), "a gang preempts another")
            await cluster.pod("fills", gpu=8, priorityClassName="high")
            await cluster.until(lambda ps: any(p.node for p in ps if p.name == "fills"), "a single pod starts")
            await cluster.pod("waits", gpu=8)
            await cluster.eventually(lambda: _elected(cluster, "waits"), "a pod is elected")
            await cluster.delete("waits")
            await cluster.create(upstream_podgroup.ALPHA.path(NAMESPACE), _upstream("study", 2))
            for name in ("study-0", "study-1"):
                await cluster.pod(name, gpu=8, schedulingGroup={"podGroupName": "study"})
            study = upstream_podgroup.ALPHA.path(NAMESPACE, "study")
            await cluster.eventually(lambda: _elected(cluster, "study"), "an upstream gang is elected")
            await cluster.eventually(lambda: _locked(cluster, "n0"), "a node is locked for it")
            await cluster.until(lambda ps: all(p.message or p.node for p in ps), "every waiting pod has a reason")
            await cluster.eventually(lambda: cluster.get(QUEUES.path(name="default")), "the default queue")
            await cluster.eventually(lambda: scheduler.executor.pending == 0, "all writes are done")
            counts = scheduler.outbox.counts
        assert {"done:Bind", "done:Evict", "done:Patch", "done:Create"} == counts.keys()
        assert (0, 0) == (scheduler.executor.counts.failed, scheduler.events.counts.failed)
        assert scheduler.events.counts.written > 0
        assert "PodGroupScheduled" == (await cluster.get(study))["status"]["conditions"][0]["type"]


async def _hand_over(cluster: Live) -> None:
    """Pods with new and existing volumes: the scheduler hands over their claims, and no controller serves them."""
    await cluster.create(STORAGE_CLASSES.path(), storage_class())
    await cluster.create(STORAGE_CLASSES.path(), storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    await cluster.create(VOLUMES.path(), volume("v", "local", host="n0"))
    await cluster.api.patch(VOLUMES.path(name="v", sub="status"), {"status": {"phase": "Available"}})
    for name in ("disk", "local"):
        await cluster.create(CLAIMS.path(NAMESPACE), claim(name, name))
        await cluster.pod(f"with-{name}", **using(name))
    path = CLAIMS.path(NAMESPACE, "disk")
    await cluster.eventually(lambda: _annotated(cluster, path, SELECTED_NODE), "a claim is handed over")
    await cluster.eventually(lambda: _given(cluster, "v"), "a free volume is assigned to a claim")
    for name in ("disk", "local"):
        await cluster.delete(f"with-{name}")


async def _given(cluster: Live, name: str) -> bool:
    return "claimRef" in (await cluster.get(VOLUMES.path(name=name)))["spec"]


async def _annotated(cluster: Live, path: str, annotation: str) -> bool:
    return annotation in (await cluster.get(path))["metadata"].get("annotations", {})


async def _elected(cluster: Live, name: str) -> bool:
    path = CONFIG_MAPS.path(LEASE_NAMESPACE, "maar-state")
    return f'"job":"{NAMESPACE}/{name}"' in (await cluster.get(path))["data"]["maar"]


async def _locked(cluster: Live, node: str) -> bool:
    return await _annotated(cluster, NODES.path(name=node), "maar.dev/locked-for")


def _upstream(name: str, minimum: int) -> dict[str, Any]:
    return {
        "apiVersion": upstream_podgroup.ALPHA.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"schedulingPolicy": {"gang": {"minCount": minimum}}},
    }
