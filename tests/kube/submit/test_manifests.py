"""What the training service makes of manifests of every kind, and of changes: without a server."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from tests.kube.picture.test_hold import SCENES
from tests.support.objects import Json, decoded

from maar.decide import decide
from maar.kube.kinds import KINDS
from maar.kube.kinds.kind import JobKind, PodGroupKind
from maar.kube.picture.picture import Picture
from maar.kube.submit.changes import Change, patch_of, why_not_stopped
from maar.kube.submit.errors import BadManifest, CannotChange, SubmitError
from maar.kube.submit.manifests import SUBMITTED, prepared
from maar.kube.submit.paths import found
from maar.model.snapshot import Snapshot
from maar.testing.scenario import configured

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"allocatable": {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "64"}},
}
CONFIG = configured("""
actions: "enqueue, allocate, resize"
tiers: [{plugins: [{name: gang}, {name: predicates}]}]
""")


def submitted(scene: str) -> Json:
    """The object of a scene as its owner writes it, without a scheduler."""
    item = copy.deepcopy(SCENES[scene][0])
    made: Json = json.loads(json.dumps(item).replace('"schedulerName": "maar", ', ""))
    made["metadata"] = {k: v for k, v in made["metadata"].items() if k in ("name", "annotations", "labels")}
    return made


def with_notes(item: Json, **notes: str) -> Json:
    item["metadata"].setdefault("annotations", {}).update(
        {f"maar.dev/{k.replace('_', '-')}": v for k, v in notes.items()}
    )
    return item


@pytest.mark.parametrize("scene", SCENES)
def test_all_pods_get_our_scheduler_and_nothing_else_changes(scene: str) -> None:
    before = submitted(scene)
    made = prepared(before, namespace="team", names=("ours", "volcano"))
    assert ("team", "team") == (made.namespace, made.document["metadata"]["namespace"])
    assert before == submitted(scene), "what the caller gave is not changed"
    for path in made.kind.form.templates:
        for template in found(made.document, path):
            assert template.value["spec"].get("schedulerName", "ours") == "ours"
    again = prepared(made.document, names=("ours", "volcano"))
    assert () == again.completed, "what is complete stays as it is"
    assert made.document == again.document
    assert () == made.warnings


def test_every_kind_that_makes_gangs_is_taken() -> None:
    assert {k for k in KINDS if isinstance(k, (JobKind, PodGroupKind))} < set(SUBMITTED)


@pytest.mark.parametrize("scene", [s for s in SCENES if s not in ("a pod", "pods that are a group")])
def test_what_was_suspended_is_resumed(scene: str) -> None:
    """A job that is suspended and that Maar would not resume would never start."""
    made = prepared(submitted(scene))
    if not any("uspend" in line for line in made.completed):
        return
    picture = Picture(frozenset({"maar"}), settling=None)
    document = copy.deepcopy(made.document)
    document["metadata"] |= {"uid": "u", "generation": 1}
    for item in (NODE, document):
        picture.put(*decoded(item))
    plan = decide(Snapshot(picture.cluster(picture.take(0.0).around)), CONFIG, 0.0)
    assert 1 == len(plan.resume), plan.waiting


def test_kinds_that_are_suspended() -> None:
    suspended = {s for s in SCENES if any("uspend" in line for line in prepared(submitted(s)).completed)}
    kubeflow = {"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"}
    assert {"Job", "JobSet", "RayCluster", *kubeflow} == suspended


def test_a_job_whose_pods_are_alone_is_suspended_only_if_it_is_elastic() -> None:
    """Suspended, its pods would be a gang."""
    plain = submitted("Job whose pods are alone")
    assert "suspend" not in prepared(plain).document["spec"]
    elastic = with_notes(submitted("Job whose pods are alone"), min_workers="1", max_workers="4")
    assert prepared(elastic).document["spec"]["suspend"]


def test_what_the_owner_says_about_suspension_stays() -> None:
    item = submitted("PyTorchJob")
    item["spec"]["runPolicy"] = {"suspend": False}
    assert not prepared(item).document["spec"]["runPolicy"]["suspend"]
    assert "runPolicy" not in prepared(submitted("PyTorchJob"), suspend=False).document["spec"]


def test_what_kubectl_get_adds_is_removed() -> None:
    item = submitted("PyTorchJob")
    item["metadata"] |= {"uid": "x", "resourceVersion": "5", "managedFields": [], "creationTimestamp": None}
    item["status"] = {"conditions": []}
    made = prepared(item).document
    assert {"name", "namespace"} == set(made["metadata"])
    assert "status" not in made


WORKER = "spec.pytorchReplicaSpecs.Worker.template.spec"


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        (lambda d: d.pop("kind"), "kind", "missing"),
        (lambda d: d.update(kind="Deployment", apiVersion="apps/v1"), "kind", "`Deployment` of `apps/v1` is no job"),
        (lambda d: d.update(kind="Node", apiVersion="v1"), "kind", "`Node` of `v1` is no job"),
        (lambda d: d.pop("metadata"), "metadata", "missing"),
        (lambda d: d["metadata"].pop("name"), "metadata.name", "missing"),
        (lambda d: d["metadata"].update(namespace="other"), "metadata.namespace", "expected `team`, got `other`"),
        (lambda d: d["metadata"].update(namespace="../x"), "metadata.namespace", "expected `team`, got `../x`"),
        (lambda d: role(d).update(replicas="many"), "spec.pytorchReplicaSpecs.Worker.replicas", "expected a whole"),
        (lambda d: role(d).update(replicas=-2), "spec.pytorchReplicaSpecs.Worker.replicas", "at least 0, got `-2`"),
        (lambda d: role(d).update(template=[]), "spec.pytorchReplicaSpecs.Worker.template", "expected a mapping"),
        (lambda d: role(d)["template"].pop("spec"), WORKER, "missing"),
        (lambda d: pod(d).update(containers=[]), f"{WORKER}.containers", "expected at least one container"),
        (lambda d: pod(d).update(schedulerName="other"), f"{WORKER}.schedulerName", "expected `maar`, got `other`"),
        (lambda d: requests(d, "lots"), f"{WORKER}.containers[0].resources", "lots"),
        (lambda d: with_notes(d, hold="please"), "metadata.annotations.maar.dev/hold", "expected `true`, `stop`"),
        (
            lambda d: with_notes(d, min_workers="5", max_workers="2"),
            "metadata.annotations.maar.dev/max-workers",
            "expected at least the minimum of 5",
        ),
    ],
)
def test_what_is_wrong_has_a_path(change: Any, field: str, problem: str) -> None:
    item = submitted("PyTorchJob")
    change(item)
    with pytest.raises(BadManifest) as refused:
        prepared(item, namespace="team")
    assert refused.value.field.startswith(field)
    assert problem in refused.value.problem
    assert 400 == refused.value.status


VALUES = {
    "maar.dev/hold": "please",
    "maar.dev/max-runtime": "soon",
    "maar.dev/last-checkpoint-time": "yesterday",
    "maar.dev/topology-mode": "firm",
    "maar.dev/gang": "truee",
    "volcano.sh/sla-waiting-time": "quickly",
    "volcano.sh/preemptable": "maybe",
    "volcano.sh/jdb-min-available": "half",
    "volcano.sh/jdb-max-unavailable": "x%",
    "volcano.sh/task-topology-task-order": "a,b;c",
}
"""Annotations that Maar reads on every job, with values that it cannot use."""
ON_PODS = {
    **VALUES,
    "volcano.sh/cooldown-time": "a while",
    "volcano.sh/task-priority": "first",
    "volcano.sh/resource-strategy-scoring-type": "Most",
    "volcano.sh/resource-strategy-weight": "{",
}
ELASTIC = {
    "maar.dev/min-workers": "few",
    "maar.dev/max-workers": "0",
    "maar.dev/epochs": "-1",
    "maar.dev/restart-seconds": "long",
}


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("key", VALUES)
def test_every_annotation_of_every_kind_is_checked_by_its_reader(scene: str, key: str) -> None:
    item = submitted(scene)
    item["metadata"].setdefault("annotations", {})[key] = VALUES[key]
    with pytest.raises(BadManifest) as refused:
        prepared(item)
    assert f"metadata.annotations.{key}" == refused.value.field
    assert "expected" in refused.value.problem


@pytest.mark.parametrize("key", ON_PODS)
def test_every_annotation_of_pods_is_checked_by_its_reader(key: str) -> None:
    for scene, base in (("PyTorchJob", "spec.pytorchReplicaSpecs.Worker.template."), ("a pod", "")):
        item = submitted(scene)
        holder = role(item)["template"] if base else item
        holder.setdefault("metadata", {}).setdefault("annotations", {})[key] = ON_PODS[key]
        with pytest.raises(BadManifest) as refused:
            prepared(item)
        assert f"{base}metadata.annotations.{key}" == refused.value.field


@pytest.mark.parametrize("key", ELASTIC)
def test_annotations_of_elastic_jobs_are_checked_by_their_reader(key: str) -> None:
    for scene in ("PyTorchJob", "Job", "RayCluster"):
        item = with_notes(submitted(scene), min_workers="1", max_workers="4")
        item["metadata"]["annotations"][key] = ELASTIC[key]
        with pytest.raises(BadManifest) as refused:
            prepared(item)
        assert f"metadata.annotations.{key}" == refused.value.field


@pytest.mark.parametrize(
    ("notes", "key"),
    [
        ({"pod_group": "g", "pod_group_size": "all"}, "pod_group_size"),
        (
            {"scheduling.k8s.io/group-name": "g", "scheduling.volcano.sh/group-min-member": "two"},
            "scheduling.volcano.sh/group-min-member",
        ),
    ],
)
def test_the_size_of_a_gang_that_pods_state_is_checked(notes: dict[str, str], key: str) -> None:
    item = submitted("a pod")
    item["metadata"]["annotations"] = notes
    with pytest.raises(BadManifest) as refused:
        prepared(item)
    assert f"metadata.annotations.{key}" == refused.value.field


def role(item: Json) -> Json:
    made: Json = item["spec"]["pytorchReplicaSpecs"]["Worker"]
    return made


def pod(item: Json) -> Json:
    made: Json = role(item)["template"]["spec"]
    return made


def requests(item: Json, cpu: str) -> None:
    pod(item)["containers"][0]["resources"] = {"requests": {"cpu": cpu}}


@pytest.mark.parametrize("namespace", ["../x", "a/b", "A", "a.b", "-a", "x" * 64, "a%2fb"])
def test_a_namespace_is_never_more_than_one_part_of_a_path(namespace: str) -> None:
    item = submitted("PyTorchJob")
    item["metadata"]["namespace"] = namespace
    with pytest.raises(BadManifest, match="expected the name of a namespace"):
        prepared(item)


@pytest.mark.parametrize("document", [None, [], "x", 5])
def test_what_is_no_object_is_refused(document: Any) -> None:
    with pytest.raises(BadManifest, match="expected an object"):
        prepared(document)


def patched(scene: str, **change: Any) -> Json:
    kind, item = decoded(SCENES[scene][0])
    return patch_of(kind, item, Change(**change))


@pytest.mark.parametrize("scene", SCENES)
def test_every_kind_is_held_and_released(scene: str) -> None:
    assert {"metadata": {"annotations": {"maar.dev/hold": "true"}}} == patched(scene, hold=True)
    assert {"metadata": {"annotations": {"maar.dev/hold": "stop"}}} == patched(scene, hold=True, stop=True)
    assert {"metadata": {"annotations": {"maar.dev/hold": None}}} == patched(scene, hold=False)
    assert {} == patched(scene)


def test_which_kinds_can_be_stopped() -> None:
    cannot = {s for s in SCENES if why_not_stopped(*decoded(SCENES[s][0]))}
    groups = {"PodGroup of Volcano", "PodGroup of Kubernetes", "PodGroup of scheduler-plugins"}
    assert {"LeaderWorkerSet", "RayJob", "a pod", "pods that are a group", *groups} == cannot
    assert "shutdownAfterJobFinishes" in why_not_stopped(*decoded(SCENES["RayJob"][0]))


def allowed(**change: Any) -> set[str]:
    """The scenes whose kind allows a change."""
    found = set()
    for scene in SCENES:
        with suppress(CannotChange):
            patched(scene, **change)
            found.add(scene)
    return found


KUBEFLOW = {"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"}


def test_the_priority_changes_only_where_the_object_has_one_beside_its_pods() -> None:
    assert {*KUBEFLOW, "PodGroup of Volcano"} == allowed(priority_class="high")
    policy = {"spec": {"runPolicy": {"schedulingPolicy": {"priorityClass": "high"}}}}
    assert policy == patched("PyTorchJob", priority_class="high")
    with pytest.raises(CannotChange, match="the priority of a pod cannot change") as refused:
        patched("a pod", priority_class="high")
    assert 422 == refused.value.status


def test_the_queue_changes_where_the_kind_allows_it() -> None:
    assert set(SCENES) - {"Job of Volcano", "Job whose pods are alone"} == allowed(queue="research")
    assert {"spec": {"queue": "research"}} == patched("PodGroup of Volcano", queue="research")
    annotation = {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "research"}}}
    assert annotation == patched("Job", queue="research")


def test_bounds_change_where_the_size_does() -> None:
    can = {*KUBEFLOW, "Job", "Job whose pods are alone", "Job of Volcano", "RayCluster"}
    assert can == allowed(min_workers=1, max_workers=8)
    notes = {"maar.dev/min-workers": "1", "maar.dev/max-workers": "8"}
    assert {"metadata": {"annotations": notes}} == patched("PyTorchJob", min_workers=1, max_workers=8)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"min_workers": 0}, "minWorkers"),
        ({"max_workers": 10_001}, "maxWorkers"),
        ({"min_workers": 5, "max_workers": 2}, "minWorkers"),
        ({"queue": ""}, "queue"),
        ({"priority_class": ""}, "priorityClass"),
        ({"stop": True}, "stop"),
    ],
)
def test_bad_changes_name_the_field(change: Json, field: str) -> None:
    with pytest.raises(SubmitError) as refused:
        patched("PyTorchJob", **change)
    assert field == refused.value.field


def test_several_changes_are_one_patch() -> None:
    made = patched("PyTorchJob", hold=True, queue="q", priority_class="p", max_workers=4)
    assert {"queue": "q", "priorityClass": "p"} == made["spec"]["runPolicy"]["schedulingPolicy"]
    assert {"maar.dev/hold": "true", "maar.dev/max-workers": "4"} == made["metadata"]["annotations"]
