"""What a tenant can write on her jobs, and on other objects of her namespace, row by row of docs/security-inputs.md."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.security.world import (
    NOW,
    TIME,
    batch_job,
    bound,
    cluster,
    codes,
    config,
    evicted,
    good,
    good_is_well,
    group,
    node,
    plan,
    pod,
    queue,
    row,
    thing,
)
from tests.support.confs import RESERVE
from tests.support.objects import Json

from maar.decide import decide
from maar.history.model import Model
from maar.history.records import Measurement
from maar.model.snapshot import Snapshot
from maar.testing.builders import cluster as built
from maar.testing.builders import elastic
from maar.testing.builders import node as built_node
from maar.testing.scenario import configured

FAIR = [node("n1"), node("n2"), queue("good"), queue("evil")]


def sizes(*items: Json | list[Json], **how: Any) -> dict[str, int]:
    """The workers that elastic jobs get."""
    return {target.job: target.size for target in plan(*items, **how).targets}


def owned(worker: Json, name: str) -> Json:
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"Job-evil-{name}", "controller": True}
    worker["metadata"]["ownerReferences"] = [reference]
    return worker


@row("job-bounds")
@pytest.mark.parametrize(
    "bounds",
    [
        {"maar.dev/max-workers": "2147483647"},
        {"maar.dev/min-workers": "9999", "maar.dev/max-workers": "10000"},
        {"maar.dev/min-workers": "-1"},
        {"maar.dev/max-workers": "0"},
        {"maar.dev/max-workers": "9" * 100},
    ],
)
def test_bounds_give_her_no_more_than_her_share(bounds: dict[str, str]) -> None:
    jobs = [batch_job("evil", f"j{i}", annotations=bounds) for i in range(5)]
    good_is_well(plan(good(), jobs))
    got = sizes(FAIR, jobs, batch_job("good", "mine"))
    assert sum(size for job, size in got.items() if job.startswith("evil/")) <= 12, "all that `good` leaves"
    assert 4 == got["good/mine"]


@row("job-hold")
@pytest.mark.parametrize("hold", ["true", "stop", "false", "yes", "x" * 5000])
def test_a_hold_is_for_her_own_jobs(hold: str) -> None:
    """Also on an object that claims the pods of another namespace, or has the name of a job there."""
    held = {"maar.dev/hold": hold}
    claims = {"apiVersion": "batch/v1", "kind": "Job", "name": "waits", "uid": "Job-evil-waits", "controller": True}
    hers = [batch_job("evil", name, annotations=held) for name in ("waits", "runs")]
    groups = [group("evil", name, annotations=held, minMember=2) for name in ("waits", "runs")]
    mine = good()
    mine[-1]["metadata"]["ownerReferences"] = [claims]
    got = plan(mine, hers, groups)
    good_is_well(got)
    assert hold == "false" or {"Held", "Invalid"} & set(codes(got, "evil/waits"))


@row("job-hold")
def test_a_held_gang_keeps_no_room_from_others() -> None:
    """Sixteen GPUs that she holds and does not use: all of them are free for `good`."""
    hers = [group("evil", "big", annotations={"maar.dev/hold": "true"}, minMember=2)]
    hers += [pod("evil", f"big-{i}", gpus=8, annotations={"scheduling.k8s.io/group-name": "big"}) for i in (0, 1)]
    theirs = [pod("good", f"p{i}", gpus=8) for i in (0, 1)]
    assert {"good/p0", "good/p1"} == set(bound(plan(FAIR, hers, theirs)))


@row("job-priority-class")
@pytest.mark.parametrize("listed", ["", "low"])
def test_a_number_in_a_template_is_no_priority(listed: str) -> None:
    """The API server refuses pods with a number that their class does not have; it does not check templates."""
    first, her = batch_job("other", "first"), batch_job("evil", "second")
    for job in (first, her):
        job["metadata"]["annotations"] |= {"maar.dev/min-workers": "4", "maar.dev/max-workers": "4"}
        job["spec"]["template"]["metadata"]["annotations"]["volcano.sh/queue-name"] = "shared"
    first["metadata"]["creationTimestamp"] = "1970-01-12T13:00:00Z"
    her["spec"]["template"]["spec"] |= {"priority": 2_000_000_000, "preemptionPolicy": "PreemptLowerPriority"}
    shared = queue("shared", {"maar.dev/priority-classes": listed})
    never: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}}
    never |= {"value": 1, "globalDefault": True, "preemptionPolicy": "Never"}
    assert {"other/first": 4, "evil/second": 0} == sizes(node("n1", gpus=4), shared, never, first, her)
    (read,) = cluster(shared, never, her).jobs
    assert (1, False) == (read.priority, read.preempts)


@row("job-queue")
@pytest.mark.parametrize("where", ["annotation", "template", "schedulingPolicy", "queue"])
def test_a_job_may_be_in_a_queue_that_accepts_its_namespace(where: str) -> None:
    """A job without pods, wherever it names its queue."""
    name = {"volcano.sh/queue-name": "good"}
    template: Json = {
        "spec": pod("evil", "p")["spec"],
        "metadata": {"annotations": name if where == "template" else {}},
    }
    metadata = {"annotations": {"maar.dev/min-workers": "1", **(name if where == "annotation" else {})}}
    policy: Json = {"suspend": True, "schedulingPolicy": {"queue": "good"} if where == "schedulingPolicy" else {}}
    spec: Json = {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}}
    job = thing("PyTorchJob", "j", "evil", "kubeflow.org/v1", spec=spec, metadata=metadata)
    if where == "queue":
        tasks = [{"name": "worker", "replicas": 1, "template": template}]
        spec = {"schedulerName": "maar", "minAvailable": 1, "queue": "good", "tasks": tasks}
        job = thing("Job", "j", "evil", "batch.volcano.sh/v1alpha1", spec=spec, metadata=metadata)
    for accepted, expected in (("good", ["NamespaceNotAccepted"]), ("good, evil", [])):
        made = plan(node("n1"), queue("good", {"maar.dev/namespaces": accepted}), job)
        assert expected == [code for code in codes(made, "evil/j") if code == "NamespaceNotAccepted"]
    (read,) = cluster(job).jobs
    assert ("evil/j", "good") == (read.key, read.queue)


@row("job-priority-class")
@pytest.mark.parametrize("where", ["template", "schedulingPolicy"])
def test_a_job_names_any_class_that_its_queue_accepts(where: str) -> None:
    template: Json = {"spec": pod("evil", "p")["spec"], "metadata": {"annotations": {"volcano.sh/queue-name": "evil"}}}
    policy: Json = {"suspend": True}
    if where == "template":
        template["spec"]["priorityClassName"] = "system-node-critical"
    else:
        policy["schedulingPolicy"] = {"priorityClass": "system-node-critical"}
    spec = {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}}
    job = thing("PyTorchJob", "j", "evil", "kubeflow.org/v1", spec=spec)
    for listed, expected in (("silver", ["PriorityClassNotAccepted"]), ("silver, system-node-critical", [])):
        made = plan(node("n1"), queue("evil", {"maar.dev/priority-classes": listed}), job)
        assert expected == codes(made, "evil/j")
        assert (not expected) == bool(made.resume or made.resize)


@row("job-bounds")
@pytest.mark.parametrize("bounds", [{}, {"maar.dev/min-workers": "1", "maar.dev/max-workers": "4"}])
@pytest.mark.parametrize("suspended", [True, False])
def test_products_of_sizes_do_not_overflow(suspended: bool, bounds: dict[str, str]) -> None:
    """Replicas, hosts and parallelism are multiplied and added: the sum may be larger than 64 bits."""
    most, template = 2**31 - 1, {"spec": pod("evil", "p")["spec"]}
    workers = [{"groupName": f"g{i}", "replicas": most, "numOfHosts": most, "template": template} for i in range(20)]
    ray = {"suspend": suspended, "headGroupSpec": {"template": template}, "workerGroupSpecs": workers}
    each = {"spec": {"parallelism": most, "completions": most, "template": template}}
    jobs = [{"name": f"w{i}", "replicas": most, "template": each} for i in range(20)]
    metadata = {"annotations": bounds}
    evil = [
        thing("RayCluster", "r", "evil", "ray.io/v1", spec=ray, metadata=metadata),
        pod("evil", "r-0", gpus=0, labels={"ray.io/cluster": "r"}),
        thing(
            "JobSet",
            "j",
            "evil",
            "jobset.x-k8s.io/v1alpha2",
            spec={"suspend": suspended, "replicatedJobs": jobs},
            metadata=metadata,
        ),
        pod("evil", "j-0", gpus=0, labels={"jobset.sigs.k8s.io/jobset-name": "j"}),
    ]
    good_is_well(plan(good(), evil))


@row("job-bounds")
def test_voda_variables_mean_no_more_than_bounds() -> None:
    env = [{"name": n, "value": v} for n, v in (("MIN_NP", "-5"), ("MAX_NP", "1e9"), ("JOB_PRIORITY", "-99"))]
    template = {"spec": {"schedulerName": "maar", "containers": [{"name": "c", "image": "i", "env": env}]}}
    roles = {"Launcher": {"replicas": 1, "template": template}, "Worker": {"replicas": 10**9, "template": template}}
    for version in ("kubeflow.org/v1", "kubeflow.org/v2beta1"):
        good_is_well(plan(good(), thing("MPIJob", "m", "evil", version, spec={"mpiReplicaSpecs": roles})))


@row("job-elastic")
@pytest.mark.parametrize(
    "kept",
    [
        f'{{"last_resize": {NOW - 1}, "attained": 0, "counted": {NOW}, "running": true}}',
        '{"attained": 1e308, "forgiven": 1e308, "ran": 1e308, "first_start": 0.0}',
        '{"last_resize": 1e308, "since": -1e308}',
        '{"requested": 10000, "rigid": true}',
        '{"last_resize": NaN}',
    ],
)
def test_what_maar_keeps_on_her_job_freezes_and_resizes_no_other_job(kept: str) -> None:
    evil = batch_job("evil", "j", annotations={"maar.dev/elastic": kept})
    assert 4 == sizes(FAIR, evil, batch_job("good", "mine"))["good/mine"]
    good_is_well(plan(good(), evil))


@row("job-holds")
@pytest.mark.parametrize("size", [4, 10_000])
def test_holds_keep_room_only_within_her_queue_and_bounds(size: int) -> None:
    """She says that room was promised to her on all nodes a second ago."""
    notes = {
        "maar.dev/holds": '{"n1": 100, "n2": 100, "n3": 9}',
        "maar.dev/elastic": f'{{"last_resize": {NOW - 1}, "running": true}}',
        "maar.dev/max-workers": "10000",
    }
    evil = batch_job("evil", "j", size=size, annotations=notes, suspend=False)
    made = plan(good(), evil)
    good_is_well(made)
    assert sum(h.count for h in made.reserve) <= 8


@row("job-category")
def test_what_she_reports_changes_no_estimate_of_another_namespace() -> None:
    """The same category in two namespaces is two categories."""
    model = Model()
    for namespace, category in (("evil", "vision"), ("evil", "good/vision"), ("evil", "good/resnet")):
        for workers, seconds in ((1, 1e8), (2, 1e-6)):
            model.feed(Measurement(namespace, "resnet", 0, seconds, workers, NOW, category=category, accelerator="a"))
    assert {"evil/vision", "evil/good/vision", "evil/good/resnet"} == {key[0] for key in model.measured()}
    for category in ("good/vision", "good/resnet"):
        assert {} == model.points_for((category, "a"))
        assert (None, None) == (model.total_epochs(category), model.restart((category, "a")))


@row("job-restart")
def test_a_restart_that_costs_years_stops_only_her_own_growth_and_moves() -> None:
    """Two jobs of two workers on two nodes each could be on one node each; hers says that no move ever pays."""
    text = """
actions: "allocate, resize"
tiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}]}]
pools: [{name: default, rate-limit: 0s, minimum-time: 0s, restart: 1s, migrate: true}]
"""

    def moved(restart: float) -> set[str]:
        jobs = [elastic(f"good/{n}", 1, 2, on=on) for n, on in (("a", ["n1", "n2"]), ("b", ["n2", "n1"]))]
        evil = elastic("evil/c", 1, 2, on=["n3", "n4"], restart=restart)
        nodes = [built_node(f"n{i}", gpu=2) for i in (1, 2, 3, 4)]
        made = decide(Snapshot(built(nodes, jobs, evil)), configured(text), NOW)
        return {e.task.partition("/")[0] for e in made.evict}

    assert "good" in moved(1.0)
    assert {"good"} == moved(1e9)


@row("job-pool")
@pytest.mark.parametrize("pool", ["default", "nowhere", "x" * 900])
def test_a_pool_matters_to_her_job_only(pool: str) -> None:
    evil = [batch_job("evil", f"j{i}", annotations={"maar.dev/pool": pool, "maar.dev/epochs": "1"}) for i in range(9)]
    assert 4 == sizes(FAIR, evil, batch_job("good", "mine"))["good/mine"]


@row("job-notes")
def test_notes_that_maar_writes_for_the_owner_say_at_most_whether_she_suspended_her_job() -> None:
    notes = {"maar.dev/workers": "999", "maar.dev/planned-workers": "-1", "maar.dev/why": "because"}
    plain, noted = (cluster(good(), batch_job("evil", "j", annotations=n)) for n in ({}, notes))
    assert {j.key: j for j in plain.jobs} == {j.key: j for j in noted.jobs}
    found = []
    for workers in ("999", "0"):
        edited = batch_job("evil", "j", annotations={**notes, "maar.dev/workers": workers})
        edited["metadata"]["generation"] = 2
        found.append({j.key: j for j in cluster(good(), edited).jobs})
    assert {"evil/j"} == found[1].keys() - found[0].keys()
    assert found[0] == {key: job for key, job in found[1].items() if key != "evil/j"}


@row("job-status")
def test_a_finished_job_of_hers_frees_no_room_that_its_pods_have() -> None:
    """A PodGroup that says Completed does not exempt an elastic job that runs from sharing its pool."""
    jobs = batch_job("evil", "j", size=8, suspend=False, annotations={"maar.dev/max-workers": "8"})
    workers = [
        owned(pod("evil", f"j-{i}", on="n2", annotations={"scheduling.k8s.io/group-name": "g"}), "j") for i in range(8)
    ]
    finished = group("evil", "g", phase="Completed")
    finished["metadata"]["ownerReferences"] = workers[0]["metadata"]["ownerReferences"]
    world = [node("n2"), queue("evil"), queue("good"), finished, jobs, *workers, batch_job("good", "mine")]
    made = plan(world)
    assert [("evil/g", 4)] == [(r.job, r.after) for r in made.resize]
    done = batch_job("evil", "k")
    done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    good_is_well(plan(good(), done))


@row("budget")
def test_a_budget_holds_by_default_and_for_her_share_if_untrusted() -> None:
    world = [
        node("n1"),
        queue("good"),
        queue("evil"),
        *(pod("evil", f"e{i}", on="n1", labels={"app": "x"}) for i in range(8)),
        pod("good", "wants", gpus=4),
        thing("PodDisruptionBudget", "all", "evil", "policy/v1", spec={"minAvailable": "100%", "selector": {}}),
    ]
    assert [] == evicted(plan(world))
    made = plan(world, tenants="untrusted")
    assert 4 == len(evicted(made, "evil/"))
    assert {False} == {e.budgets_apply for e in made.evict}


@row("budget")
@pytest.mark.parametrize("spec", [{"maxUnavailable": "9" * 99 + "%"}, {"minAvailable": -5}, {"minAvailable": 10**9}])
def test_a_budget_covers_pods_of_its_own_namespace_only(spec: Json) -> None:
    everything = {"selector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}, **spec}
    budget = thing("PodDisruptionBudget", "all", "evil", "policy/v1", spec=everything)
    made = cluster(good(), pod("evil", "p", on="n2"), budget)
    assert {"evil"} == {t.key.partition("/")[0] for t in made.tasks if t.budgets}


@row("claim")
def test_a_selected_node_keeps_no_room() -> None:
    """The annotation of her claim names a node; the gang of `good` gets the room there all the same."""
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"}}
    items: list[Json] = [{**storage, "provisioner": "x", "volumeBindingMode": "WaitForFirstConsumer"}]
    for i in range(9):
        name = f"c{i}"
        notes = {"volume.kubernetes.io/selected-node": f"n{i % 2 + 1}", "pv.kubernetes.io/bind-completed": "yes"}
        claim = {"storageClassName": "s", "accessModes": ["ReadWriteOnce"]}
        items.append(thing("PersistentVolumeClaim", name, "evil", spec=claim, metadata={"annotations": notes}))
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        items.append(pod("evil", f"p{i}", gpus=4, volumes=volumes))
    good_is_well(plan(good(), items))
    assert [] == [t.key for t in cluster(good(), items).tasks if t.node and t.key.startswith("evil/")]


@row("service")
def test_her_services_and_owner_references_spread_no_pods_of_others() -> None:
    """The Service selects everything in her namespace, and her pod names the controller of `good`."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
    metadata = {"ownerReferences": [owner]}
    service = thing("Service", "all", "evil", spec={"selector": {"app": "x"}})
    pods = [pod(space, "web", labels={"app": "x"}, metadata=metadata) for space in ("good", "evil")]
    theirs = {job.key: job.siblings for job in cluster(node("n1"), queue("good"), queue("evil"), service, pods).jobs}
    assert {"good/web": ("ReplicaSet good/u",), "evil/web": ("ReplicaSet evil/u", "Service evil/all")} == theirs


@row("provisioning-request")
def test_a_provisioning_request_of_hers_matters_to_no_decision() -> None:
    notes = {"maar.dev/job": "good/waits", "maar.dev/demand": "x", "maar.dev/attempt": "-1", "maar.dev/pod-sets": "{}"}
    request = thing(
        "ProvisioningRequest", "r", "evil", "autoscaling.x-k8s.io/v1", metadata={"annotations": notes}, spec={}
    )
    good_is_well(plan(good(), request))


@row("quota")
def test_a_namespace_weight_is_the_operators() -> None:
    """`edit` may only read ResourceQuotas (tests/real/test_tenants.py); a strange weight stops nothing."""
    for weight in ("1e30", "-5", "0"):
        quota = thing("ResourceQuota", "q", "evil", spec={"hard": {"volcano.sh/namespace.weight": weight}})
        good_is_well(plan(good(), quota, pod("evil", "p")))


@row("election")
def test_an_election_is_not_read_from_tenants_objects() -> None:
    notes = {"maar.dev/elected-since": TIME, "maar.dev/election-expired": TIME, "maar.dev/max-runtime": "0s"}
    evil = [pod("evil", "p", gpus=100, annotations=notes), group("evil", "g", annotations=notes, minMember=9)]
    made = cluster(good(), evil)
    assert (None, ()) == (made.elect, made.locks)
    good_is_well(plan(good(), evil))


@row("election")
def test_the_lock_of_another_job_does_not_let_her_in() -> None:
    locked = {"maar.dev/locked-for": "good/wide", "maar.dev/locked-since": TIME, "maar.dev/locked-uid": "x"}
    world = [node("n1", metadata={"annotations": locked}), queue("good"), queue("evil")]
    made = plan(world, pod("evil", "wide", gpus=8))
    assert ["evil/wide"] == bound(made), "a lock without an election is none"


@row("promise")
@pytest.mark.parametrize("promise", ["0s", "0", "-1s", "1ns"])
def test_a_promise_that_is_over_passes_no_lock(promise: str) -> None:
    """The gang of `good` is elected; her pods run, and promised to be gone long ago."""
    notes = {"maar.dev/max-runtime": promise}
    running = [pod("evil", f"r{i}", gpus=6, on=f"n{i}", annotations=notes) for i in (1, 2)]
    wide = [pod("good", f"w-{i}", gpus=8, annotations={"pod_group": "w", "pod_group_size": "2"}) for i in (0, 1)]
    world = [node("n1"), node("n2"), queue("good"), queue("evil"), *running, *wide]
    first = plan(world, text=RESERVE)
    assert first.elect is not None
    assert "good/w" == first.elect.job
    snapshot = cluster(world, pod("evil", "more", gpus=2, annotations=notes))
    later = decide(Snapshot(replace(snapshot, elect=first.elect, locks=first.locks)), config(text=RESERVE), NOW + 1)
    locked = {lock.node for lock in first.locks}
    assert not [b for b in later.bind if b.node in locked]
