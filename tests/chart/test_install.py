"""The charts on a real API server: every object is accepted, releases come and go, and definitions stay."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart.test_values import MATRIX, pods
from tests.support.charts import CHART, CRDS_CHART, NAME, NAMESPACE, Object, by_name, program, ran, refused, rendered
from tests.support.charts import settings as flags
from tests.support.live import NAMESPACE as TENANT
from tests.support.live import connected, observing
from tests.support.real.api import Refused
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import CHECKOUT, available, folders
from tests.support.real.processes import wait_until

from maar.controller.settings.settings import Settings
from maar.controller.shadow import Shadow
from maar.kube.client.errors import Forbidden
from maar.kube.wire.api_resources import PODS

pytestmark = pytest.mark.real

DEFINITIONS: dict[str, Object] = {
    file.stem: yaml.safe_load(file.read_text()) for file in sorted((CHECKOUT / "deploy" / "crds").glob("*.yaml"))
}
CRD = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
RESTRICTED = {f"pod-security.kubernetes.io/{what}": "restricted" for what in ("enforce", "warn", "audit")}
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{NAME}"
OPERATORS = {"prometheus-operator": ("prometheusrules", "servicemonitors"), "cert-manager": ("certificates",)}
"""Parts with definitions of kinds that the chart makes if it is told to."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    program("helm")
    if not (found := available("etcd", "kubernetes", *OPERATORS)):
        (pytest.fail if os.environ.get("MAAR_REAL") else pytest.skip)(found.why_not)
    with RealCluster(crds=False, users={ACCOUNT: ["system:serviceaccounts"]}) as running:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": RESTRICTED}}
        running.apply([namespace, *operators()])
        yield running


def operators() -> Iterator[Object]:
    """The definitions of Prometheus Operator and cert-manager."""
    for part, plurals in OPERATORS.items():
        for plural in plurals:
            crd = yaml.load((folders()[part] / f"{plural}.yaml").read_text(), yaml.CSafeLoader)
            crd["metadata"].pop("labels", None)  # those of cert-manager are templates
            yield crd


def helm(cluster: RealCluster, command: str, *arguments: Any, **values: Any) -> str:
    options = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
    return ran("helm", command, *arguments, *options, *flags(values))


def definitions(cluster: RealCluster) -> dict[str, Object]:
    """Those of the definitions in question that exist and are not being deleted, by plural and group."""
    found = {item["metadata"]["name"]: item for item in cluster.objects(*CRD)}
    names = {crd["metadata"]["name"] for crd in DEFINITIONS.values()}
    return {name: found[name] for name in names & found.keys() if "deletionTimestamp" not in found[name]["metadata"]}


def tried(cluster: RealCluster, item: Object) -> None:
    """Let the server check an object, with unknown fields as errors, and store nothing."""
    path = cluster._api.collection(item["apiVersion"], item["kind"], item["metadata"].get("namespace", ""))
    cluster.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", item)


@pytest.mark.parametrize("values", MATRIX, ids=str)
def test_every_object_is_accepted(cluster: RealCluster, values: str) -> None:
    """Also every pod, in a namespace that enforces the restricted standard."""
    objects = rendered(MATRIX[values])
    for item in objects:
        if item["kind"] != "Namespace":
            tried(cluster, item)
    for name, spec in pods(objects).items():
        without_class = {key: value for key, value in spec.items() if key != "priorityClassName"}  # not created here
        metadata = {"name": name, "namespace": NAMESPACE}
        tried(cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": without_class})


def test_the_namespace_refuses_pods_that_are_not_restricted(cluster: RealCluster) -> None:
    """Otherwise the test above could not fail."""
    spec = copy.deepcopy(pods(rendered())["maar"])
    spec.pop("priorityClassName")
    spec["containers"][0]["securityContext"].pop("capabilities")
    metadata = {"name": "maar", "namespace": NAMESPACE}
    with pytest.raises(Refused, match='violates PodSecurity "restricted'):
        tried(cluster, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def test_a_release_is_installed_upgraded_rolled_back_and_leaves_no_trace(cluster: RealCluster) -> None:
    before = everything(cluster)
    notes = helm(cluster, "install", NAME, CHART, shadow=True)
    assert "as a shadow: it decides and writes nothing" in notes
    assert "helm install maar-crds deploy/chart-crds" in notes, "the cluster has no Queues yet"
    assert "pod-security" not in notes, "the namespace has its labels"
    secret = cluster.get("v1", "Secret", "maar-web", NAMESPACE)["data"]
    notes = helm(cluster, "upgrade", NAME, CHART, **{"brakes.paused": True, "brakes.perMinute": 7})
    assert "Evictions are paused" in notes
    assert secret == cluster.get("v1", "Secret", "maar-web", NAMESPACE)["data"], "the certificate stays"
    deployment = cluster.get("apps/v1", "Deployment", "maar", NAMESPACE)
    assert 2 == deployment["spec"]["replicas"]
    assert "perMinute: 7" in brakes(cluster)
    helm(cluster, "rollback", NAME, "1")
    assert 1 == cluster.get("apps/v1", "Deployment", "maar", NAMESPACE)["spec"]["replicas"]
    assert "perMinute: null" in brakes(cluster)
    assert secret == cluster.get("v1", "Secret", "maar-web", NAMESPACE)["data"]
    cluster.delete(cluster.get("v1", "Secret", "maar-web", NAMESPACE))
    helm(cluster, "upgrade", NAME, CHART)
    assert secret["tls.crt"] != cluster.get("v1", "Secret", "maar-web", NAMESPACE)["data"]["tls.crt"], "a new one"
    helm(cluster, "uninstall", NAME)
    assert before == everything(cluster)


def test_with_the_rights_of_a_shadow_it_decides_and_changes_nothing(cluster: RealCluster, tmp_path: Path) -> None:
    """Also without the rights on a family that is served: Jobs."""
    helm(cluster, "install", NAME, CHART, **{"shadow": True, "kinds.jobs": False})
    maars = cluster.kubeconfig_of(ACCOUNT).rename(tmp_path / "kubeconfig")  # a colon would split the path
    settings = Settings(without=frozenset({"jobs"}))

    async def story() -> None:
        async with connected(cluster.kubeconfig) as admin, connected(maars) as maar:
            await admin.nodes(1, gpu=8)
            await admin.pod("alone", gpu=1)
            before = await admin.versions()
            async with observing(maar, settings) as observer:
                shadow = Shadow()
                observer.loop.on_cycle.append(shadow.on_cycle)
                await admin.eventually(lambda: "1 only by Maar" in shadow.line(), "it decides")
                assert "" == observer.not_ready()
                assert {} == dict(maar.api.writes), "it did not even try"
                with pytest.raises(Forbidden):
                    await maar.api.delete(PODS.path(TENANT, "alone"))
            assert before == await admin.versions()
            await admin.delete("alone")

    asyncio.run(story())
    helm(cluster, "uninstall", NAME)


def brakes(cluster: RealCluster) -> str:
    text: str = cluster.get("v1", "ConfigMap", "maar", NAMESPACE)["data"]["brakes.yaml"]
    return text


def everything(cluster: RealCluster) -> set[tuple[str, str, str]]:
    """All objects of the kinds that the chart makes, and of releases."""
    kinds = {(item["apiVersion"], item["kind"]) for values in MATRIX.values() for item in rendered(values)}
    return {
        (kind, item["metadata"].get("namespace", ""), item["metadata"]["name"])
        for version, kind in kinds
        for item in cluster.objects(version, kind)
    }


def test_definitions_are_upgraded_and_stay_with_their_objects_when_the_release_is_uninstalled(
    cluster: RealCluster, tmp_path: Path
) -> None:
    notes = helm(cluster, "install", "maar-crds", CRDS_CHART)
    assert 4 == notes.count("defined by this release")
    found = definitions(cluster)
    assert {crd["metadata"]["name"] for crd in DEFINITIONS.values()} == found.keys()
    wait_for(cluster)
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}}
    cluster.apply([{**queue, "spec": {"weight": 1}}])
    helm(cluster, "upgrade", "maar-crds", newer(tmp_path / "newer"))
    assert "newer" in definitions(cluster)["queues.scheduling.volcano.sh"]["spec"]["names"]["shortNames"]
    helm(cluster, "uninstall", "maar-crds")
    assert found.keys() == definitions(cluster).keys()
    assert "team" == cluster.get("scheduling.volcano.sh/v1beta1", "Queue", "team")["metadata"]["name"]
    helm(cluster, "install", "maar-crds", CRDS_CHART)  # the same release owns them again
    # Told so, an uninstall deletes them.
    notes = helm(cluster, "upgrade", "maar-crds", CRDS_CHART, keep=False)
    assert "An uninstall deletes the definitions" in notes
    helm(cluster, "uninstall", "maar-crds")
    assert {} == definitions(cluster)
    gone(cluster)


def newer(folder: Path) -> Path:
    """A later version of the chart of definitions, with a change in one of them."""
    shutil.copytree(CRDS_CHART, folder)
    crd = copy.deepcopy(DEFINITIONS["queues"])
    crd["spec"]["names"]["shortNames"] = ["newer"]
    (folder / "definitions" / "queues.yaml").write_text(yaml.safe_dump(crd))
    return folder


def wait_for(cluster: RealCluster) -> None:
    for crd in DEFINITIONS.values():
        cluster._await_crd(crd)


HANGS = 150.0
"""Seconds after which a deletion hangs. It takes one or two."""
FORGOTTEN = 5.0
"""Seconds after which the API server may have forgotten a deleted definition. If another part of it writes the status
at the same moment, its finalizer gives up, and looks again when the definition changes, or after five minutes."""


def gone(cluster: RealCluster) -> None:
    """Wait until deleted definitions are gone; those that the API server has forgotten are changed."""
    names = {crd["metadata"]["name"] for crd in DEFINITIONS.values()}
    changed = time.monotonic()

    def none_left() -> bool:
        nonlocal changed
        left = {item["metadata"]["name"] for item in cluster.objects(*CRD)} & names
        if left and time.monotonic() > changed + FORGOTTEN:
            changed = time.monotonic()
            for name in left:
                with contextlib.suppress(Refused):  # gone by now
                    annotate(cluster, name, {"tests/changed": f"{changed}"})
        return not left

    wait_until(none_left, "the definitions are deleted", HANGS)


def annotate(cluster: RealCluster, definition: str, annotations: dict[str, str]) -> None:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}"
    body = {"metadata": {"annotations": annotations}}
    cluster.request("PATCH", path, body, content_type="application/merge-patch+json")


def volcanos(plural: str) -> Object:
    """A definition as Volcano's own manifests have it: with fields and an annotation that ours does not have."""
    crd: Object = copy.deepcopy(DEFINITIONS[plural])
    crd["metadata"]["annotations"] = {"controller-gen.kubebuilder.io/version": "v0.17.0"}
    crd["spec"]["names"]["shortNames"] = [f"volcanos-{plural}"]
    return crd


def test_volcanos_definitions_are_never_owned_or_changed(cluster: RealCluster) -> None:
    cluster.apply([volcanos("queues"), volcanos("podgroups")])
    names = ("queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh")
    before = {name: definitions(cluster)[name]["metadata"]["resourceVersion"] for name in names}
    notes = helm(cluster, "install", "maar-crds", CRDS_CHART)
    assert 2 == notes.count("the cluster has it from elsewhere, and it stays as it is")
    helm(cluster, "upgrade", "maar-crds", CRDS_CHART, keep=False)
    helm(cluster, "uninstall", "maar-crds")
    found = definitions(cluster)
    assert set(names) == found.keys(), "ours were deleted, because the release was told so"
    for name in names:
        assert [f"volcanos-{name.partition('.')[0]}"] == found[name]["spec"]["names"]["shortNames"]
        assert "meta.helm.sh/release-name" not in found[name]["metadata"]["annotations"]
        own = found[name]["metadata"]
        assert before[name] == own["resourceVersion"], "nothing was written"
    for plural in ("queues", "podgroups"):
        cluster.delete(DEFINITIONS[plural])
    gone(cluster)


def test_a_definition_that_another_replaced_is_not_deleted_by_an_upgrade(cluster: RealCluster) -> None:
    """Helm deletes what a release no longer has. All Queues of the cluster would go with it."""
    helm(cluster, "install", "maar-crds", CRDS_CHART)
    name = "queues.scheduling.volcano.sh"
    wait_until(lambda: replaced(cluster, volcanos("queues")), "the definition is replaced")
    options = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
    message = refused("upgrade", "maar-crds", CRDS_CHART, *options)
    assert f"kubectl annotate crd {name} helm.sh/resource-policy=keep" in message
    assert name in definitions(cluster)
    annotate(cluster, name, {"helm.sh/resource-policy": "keep"})
    helm(cluster, "upgrade", "maar-crds", CRDS_CHART, keep=False)
    helm(cluster, "uninstall", "maar-crds")
    assert {name} == definitions(cluster).keys()
    cluster.delete(DEFINITIONS["queues"])
    gone(cluster)


def replaced(cluster: RealCluster, crd: Object) -> bool:
    """Replace a definition, as `kubectl replace` does; false if the server wrote its status at the same moment."""
    name = crd["metadata"]["name"]
    crd["metadata"]["resourceVersion"] = definitions(cluster)[name]["metadata"]["resourceVersion"]
    try:
        cluster.request("PUT", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", crd)
    except Refused as error:
        if error.status != 409:
            raise
        return False
    return True


@pytest.mark.parametrize("plural", DEFINITIONS)
def test_one_version_is_stored_at_a_time(plural: str) -> None:
    """A release that stores another version must serve both, and store one: then objects are migrated by a write."""
    crd = by_name(rendered(chart=CRDS_CHART))["CustomResourceDefinition", DEFINITIONS[plural]["metadata"]["name"]]
    assert DEFINITIONS[plural]["spec"] == crd["spec"]
    versions = crd["spec"]["versions"]
    assert 1 == len([version for version in versions if version["storage"]])
    assert all(version["served"] for version in versions if version["storage"])
