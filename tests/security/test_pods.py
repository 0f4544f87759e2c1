"""What a tenant can write on her own pods, row by row of docs/security-inputs.md."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.security.world import (
    GPU,
    NOW,
    OURS,
    TIME,
    batch_job,
    bound,
    cluster,
    codes,
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
from tests.support.objects import Json, decoded

from maar.controller.snapshots.cache import Cache
from maar.kube.picture.picture import Picture
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status, Task

PINNED = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
            }
        }
    }
}
DAEMONSET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}


def full(**claim: Any) -> list[Json]:
    """`evil` has the only node; `good` wants its half."""
    return [
        node("n1"),
        queue("good"),
        queue("evil"),
        *(pod("evil", f"e{i}", on="n1", **claim) for i in range(8)),
        pod("good", "wants", gpus=4),
    ]


def without_queue(items: list[Json], name: str) -> list[Json]:
    return [i for i in items if (i["kind"], i["metadata"]["name"]) != ("Queue", name)]


def task(items: list[Json], key: str) -> Task:
    return next(task for task in cluster(items).tasks if task.key == key)


@row("pod-preemptable")
@row("pod-cooldown")
@pytest.mark.parametrize("key", ["volcano.sh/preemptable", "volcano.sh/cooldown-time"])
@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_protection_holds_by_default_and_for_her_share_if_untrusted(key: str, where: str) -> None:
    claim: Json = {where: {key: "false" if "preemptable" in key else "99999h"}}
    assert [] == evicted(plan(full(**claim)))
    assert 4 == len(evicted(plan(full(**claim), tenants="untrusted"), "evil/"))


@row("pod-task-priority")
def test_the_priority_of_her_pods_does_not_send_away_others() -> None:
    """In one queue, two jobs with surplus that lose the same; hers states a high priority for its pods."""
    gang = {"scheduling.k8s.io/group-name": "g"}
    items = [
        node("n1"),
        queue("good"),
        queue("evil"),
        group("evil", "g", phase="Running"),
        group("other", "g", phase="Running", queue="evil"),
        *(
            pod("evil", f"e-{i}", on="n1", annotations={**gang, "volcano.sh/task-priority": "2147483647"})
            for i in range(4)
        ),
        *(pod("other", f"o-{i}", on="n1", queue="evil", annotations=gang) for i in range(4)),
        pod("good", "wants", gpus=1),
    ]
    assert ["other/o-3"] == evicted(plan(items)), "as in Volcano"
    assert ["evil/e-3"] == evicted(plan(items, tenants="untrusted"))


@row("pod-role")
def test_roles_and_numbers_matter_inside_her_gang_only() -> None:
    labels = {"training.kubeflow.org/replica-index": "-7", "batch.kubernetes.io/job-completion-index": "9" * 63}
    roles = [
        pod("evil", f"p{i}", annotations={"volcano.sh/task-spec": f"role-{i}" * 50}, labels=labels) for i in range(4)
    ]
    good_is_well(plan(good(), roles))


@row("pod-gang")
def test_a_gang_of_another_namespace_cannot_be_joined() -> None:
    for key in ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "pod_group"):
        joins = [pod("evil", f"p{i}", annotations={key: "waits"}) for i in range(3)]
        made = cluster(good(), joins)
        assert {"evil"} == {t.job.partition("/")[0] for t in made.tasks if t.key.startswith("evil/")}
        good_is_well(plan(good(), joins))
    joins = [pod("evil", "p", annotations={"scheduling.k8s.io/group-name": "waits", "pod_group_size": "9" * 9})]
    joins += [
        pod("evil", "q", schedulingGroup={"podGroupName": "waits"}, labels={"scheduling.x-k8s.io/pod-group": "waits"})
    ]
    good_is_well(plan(good(), joins))


def counted(*steps: list[Json]) -> list[list[int]]:
    """The GPUs in use on each node after each step, as a running Maar counts them."""
    picture = Picture(OURS, settling=None)
    cache, found = Cache(picture), []
    for number, step in enumerate(steps):
        for item in step:
            picture.put(*decoded(item))
        picture.read_short()
        snapshot = cache.snapshot(NOW + number)
        found.append(snapshot.used[:, snapshot.axes.index[GPU]].tolist())
    return found


@row("pod-gang")
def test_no_name_of_a_gang_hides_pods_that_run() -> None:
    """A Job and a PodGroup of one name have the keys `evil/x@owner` and `evil/x`. Another pod names that key itself."""
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "Job-evil-x", "controller": True}
    runs = [
        group("evil", "x", phase="Inqueue"),
        pod("evil", "p", gpus=0, annotations={"scheduling.k8s.io/group-name": "x"}),
        batch_job("evil", "x", size=4, suspend=False),
        *(pod("evil", f"w{i}", gpus=2, on="n2", metadata={"ownerReferences": [reference]}) for i in range(4)),
    ]
    names = ["x@owner", "x@owner-2", "x@volcano", "x@pod"]
    forged = [
        pod("evil", f"{key[:4]}-{i}", gpus=0, annotations={key: name})
        for key in ("pod_group", "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
        for i, name in enumerate(names)
    ]
    assert [[4, 8], [4, 8]] == counted([*good(), *runs], forged)
    keys = [job.key for job in cluster(good(), runs, forged).jobs]
    assert sorted(set(keys)) == sorted(keys)
    good_is_well(plan(good(), forged))


@row("pod-gang")
@pytest.mark.parametrize("name", ["x" * 200_000, "../../good/waits", "good/waits", "\x1b[2J", "é" * 300])
def test_any_name_of_a_gang_makes_a_short_key_of_her_namespace(name: str) -> None:
    """Elections, locks and messages name the key of a job."""
    joins = [pod("evil", f"p{i}", gpus=100, annotations={"scheduling.k8s.io/group-name": name}) for i in range(2)]
    made = plan(good(), joins)
    good_is_well(made)
    (waits,) = (wait for wait in made.waiting if wait.job.startswith("evil/"))
    assert re.fullmatch(r"evil/[%A-Za-z0-9._-]{1,520}", waits.job)
    assert all(len(reason.message) < 1000 for reason in waits.reasons)


@row("pod-queue")
def test_a_queue_may_list_the_namespaces_that_it_accepts() -> None:
    """Without a list, any tenant may be in any queue, as in Volcano."""
    intruder = [pod("evil", "x", queue="good"), pod("evil", "r", on="n2", gpus=2, queue="good")]
    open_to_all = good()
    assert "evil/x" in bound(plan(open_to_all, intruder))
    assert 6 == _gpus(open_to_all + intruder, "good")
    closed = [*without_queue(good(), "good"), queue("good", {"maar.dev/namespaces": "good, other"})]
    refused = plan(closed, intruder)
    assert ["NamespaceNotAccepted"] == codes(refused, "evil/x")
    good_is_well(refused)
    assert (4, 2) == (_gpus(closed + intruder, "good"), _gpus(closed + intruder, "default"))
    owned = [*without_queue(closed, "evil"), queue("evil", {"maar.dev/namespaces": "evil"})]
    assert (4, 2) == (_gpus(owned + intruder, "good"), _gpus(owned + intruder, "evil"))


def _gpus(items: list[Json], name: str) -> int:
    """What a queue pays for."""
    snapshot = Snapshot(cluster(items))
    mine = snapshot.jobs.queue == snapshot.queues.number[name]
    return int(snapshot.jobs.allocated[mine][:, snapshot.axes.index[GPU]].sum())


@row("pod-node-name")
@pytest.mark.parametrize("named", ["evil", "nowhere", "", "default"])
def test_a_pod_that_is_created_on_a_node_is_charged_and_can_be_reclaimed(named: str) -> None:
    """Her queue, or `default` if she names none that exists, pays for it; her other pods wait."""
    items = full()[:3]
    direct = [pod("evil", f"e{i}", on="n1", queue=named) for i in range(8)]
    pays = named if named == "evil" else "default"
    assert 8 == _gpus([*items, *direct], pays)
    made = plan(items, direct, pod("good", "wants", gpus=4), pod("evil", "more", queue=named or "default"))
    assert 4 <= len(evicted(made, "evil/"))
    assert "evil/more" not in bound(made)


@row("pod-scheduler-name")
def test_another_schedulers_pod_takes_room_and_a_queue_that_owns_its_namespace_pays() -> None:
    foreign = [pod("evil", f"e{i}", on="n2", queue="good", schedulerName="default-scheduler") for i in range(8)]
    made = plan(good(), foreign)
    good_is_well(made)
    assert [] == evicted(made), "Maar never evicts another scheduler's pods"
    assert (4, 0) == (_gpus(good() + foreign, "good"), _gpus(good() + foreign, "evil"))
    owned = [*without_queue(good(), "evil"), queue("evil", {"maar.dev/namespaces": "evil"}, capability={GPU: "8"})]
    assert 8 == _gpus(owned + foreign, "evil")
    assert [] == bound(plan(owned, foreign, pod("evil", "more")), "evil/"), "her other pods wait"


@row("pod-daemonset")
def test_an_owner_reference_alone_makes_no_daemonset_pod() -> None:
    claim: Json = {"metadata": {"ownerReferences": [DAEMONSET]}}
    assert 4 == len(evicted(plan(full(**claim)))), "not pinned to its node"
    loose: Json = {"metadata": {"ownerReferences": [{**DAEMONSET, "controller": False}]}, **PINNED}
    assert 4 == len(evicted(plan(full(**loose))))


@row("pod-daemonset")
def test_a_daemonset_protects_by_default_and_for_her_share_if_untrusted() -> None:
    """Under `edit` a tenant can create real DaemonSets."""
    real: Json = {"metadata": {"ownerReferences": [DAEMONSET]}, **PINNED}
    assert [] == evicted(plan(full(**real)))
    assert 4 == len(evicted(plan(full(**real), tenants="untrusted")))


@row("pod-mirror")
def test_a_mirror_annotation_alone_makes_no_static_pod() -> None:
    note = {"kubernetes.io/config.mirror": "x"}
    assert 4 == len(evicted(plan(full(annotations=note))))
    assert 4 == len(evicted(plan(full(annotations=note, metadata={"ownerReferences": [{**NODE, "name": "n2"}]}))))


@row("pod-mirror")
def test_a_static_pod_is_owned_by_its_node_and_protected_for_her_share_if_untrusted() -> None:
    notes = {"kubernetes.io/config.mirror": "x", "volcano.sh/queue-name": "evil"}
    static: Json = {"metadata": {"ownerReferences": [NODE], "annotations": notes}}
    assert [] == evicted(plan(full(**static)))
    assert 4 == len(evicted(plan(full(**static), tenants="untrusted")))


@row("pod-owner")
def test_an_owner_of_another_namespace_is_not_found() -> None:
    job = batch_job("good", "train")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
    joins = pod(
        "evil", "p", metadata={"ownerReferences": [reference]}, labels={"batch.kubernetes.io/job-name": "train"}
    )
    made = cluster(good(), job, joins)
    assert ["evil/p"] == [t.job for t in made.tasks if t.key == "evil/p"]
    assert [] == [t.key for t in made.tasks if t.job == "good/train"]


@row("pod-owner")
def test_an_object_that_names_the_job_of_another_namespace_hides_it_from_no_one() -> None:
    """A job that has made nothing yet is planned as if its controller had created its pods."""
    train = thing("TrainJob", "t", "good", "trainer.kubeflow.org/v1alpha1", spec={})
    made = thing("JobSet", "t", "evil", "jobset.x-k8s.io/v1alpha2", spec={"replicatedJobs": []})
    reference = {"apiVersion": train["apiVersion"], "kind": "TrainJob", "name": "t", "controller": True}
    made["metadata"]["ownerReferences"] = [{**reference, "uid": train["metadata"]["uid"]}]
    picture = Picture(OURS, settling=None)
    for item in (train, made):
        picture.put(*decoded(item))
    assert ("good", "t") in [(owner.namespace, owner.name) for owner in picture.jobs_without_pods()]


@row("pod-priority-class")
@pytest.mark.parametrize("name", ["system-node-critical", "gold"])
def test_a_queue_may_list_the_priority_classes_that_it_accepts(name: str) -> None:
    """Without a list a priority class means what it means in Kubernetes: anyone may name any."""
    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 9}
    items = [node("n1"), gold, *(pod("other", f"o{i}", on="n1", queue="evil") for i in range(8))]
    evil = pod("evil", "vip", priorityClassName=name)
    assert 1 == len(evicted(plan(items, queue("evil"), evil), "other/"))
    listed = queue("evil", {"maar.dev/priority-classes": "silver"})
    made = plan(items, listed, evil)
    assert ([], ["PriorityClassNotAccepted"]) == (evicted(made), codes(made, "evil/vip"))
    accepted = queue("evil", {"maar.dev/priority-classes": f"silver, {name}"})
    assert 1 == len(evicted(plan(items, accepted, evil), "other/"))


@row("pod-priority-class")
def test_a_class_that_is_not_accepted_protects_no_running_pod() -> None:
    """A system class protects by default; a queue that does not accept it, or `tenants: untrusted`, ends that."""
    running = full(priorityClassName="system-cluster-critical")
    assert [] == evicted(plan(running))
    assert 4 == len(evicted(plan(running, tenants="untrusted")))
    made = cluster(without_queue(running, "evil"), queue("evil", {"maar.dev/priority-classes": "none"}))
    assert {0} == {job.priority for job in Snapshot(made).jobs.jobs}


@row("pod-checkpoint")
@pytest.mark.parametrize("when", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", TIME])
def test_a_checkpoint_time_never_makes_an_eviction_more_expensive(when: str) -> None:
    """Work counts since the start of the pod at most, which only a kubelet writes."""
    items = [
        node("n1"),
        queue("good"),
        queue("evil"),
        *(pod("evil", f"e{i}", on="n1", annotations={"maar.dev/last-checkpoint-time": when}) for i in range(4)),
        *(pod("other", f"o{i}", on="n1", queue="evil") for i in range(4)),
        pod("good", "wants"),
    ]
    assert ["evil/e0"] == evicted(plan(items))


@row("pod-sla")
@pytest.mark.parametrize("wait", ["1ns", "0", "292y", "-1s"])
def test_a_promised_wait_matters_inside_her_queue_only(wait: str) -> None:
    evil = [pod("evil", f"p{i}", gpus=8, annotations={"volcano.sh/sla-waiting-time": wait}) for i in range(3)]
    for tenants in ("trusted", "untrusted"):
        good_is_well(plan(good(), evil, tenants=tenants))


@row("pod-broken")
@pytest.mark.parametrize("stays", ["-1", "99999h", "soon"])
def test_how_long_her_broken_gang_stays_protects_it_from_no_one(stays: str) -> None:
    assert 4 == len(evicted(plan(full(annotations={"maar.dev/broken-grace-period": stays})), "evil/"))


@row("pod-topology")
def test_a_topology_key_matters_to_her_gang_only() -> None:
    notes = {"maar.dev/topology-key": "no-such-label", "maar.dev/topology-mode": "hard"}
    made = plan(good(), [pod("evil", f"p{i}", annotations={**notes, "pod_group": "g"}) for i in range(2)])
    good_is_well(made)
    assert [] == bound(made, "evil/")


@row("pod-requests")
def test_huge_requests_do_not_overflow() -> None:
    """Ten pods of 1 Ei on one node: their sum must not wrap around and make the node look empty."""
    huge: Json = {"containers": [{"name": "c", "resources": {"requests": {"memory": "1Ei", GPU: "1e18"}}}]}
    evil = [pod("evil", f"{n}-{i}", on=n, **huge) for n in ("n1", "n2") for i in range(10)]
    made = plan(good(), evil)
    assert [] == bound(made), "both nodes are full"
    snapshot = Snapshot(cluster(good(), evil))
    assert (snapshot.used >= 0).all()
    assert (
        snapshot.used[:, snapshot.axes.index["memory"]] > snapshot.nodes.allocatable[:, snapshot.axes.index["memory"]]
    ).all()


@row("pod-requests")
@pytest.mark.parametrize("amount", ["1e999", "-1", "9" * 5000, "NaN", "1e-30"])
def test_strange_requests_stop_her_pod_only(amount: str) -> None:
    parts: list[dict[str, Any]] = [
        {"containers": [{"name": "c", "resources": {"requests": {GPU: amount}}}]},
        {"initContainers": [{"name": "c", "resources": {"requests": {GPU: amount}}, "restartPolicy": "Always"}]},
        {"overhead": {GPU: amount}},
        {"resources": {"requests": {"cpu": amount}}},
    ]
    good_is_well(plan(good(), [pod("evil", f"p{i}", **part) for i, part in enumerate(parts)]))


DIGITS = "9" * 5000
UNKNOWN = "evil.example.com/x"


@row("pod-requests")
@pytest.mark.parametrize("scheduler", ["maar", "default-scheduler"])
@pytest.mark.parametrize(
    ("resources", "allocated"),
    [
        ({"requests": {"cpu": "1m"}, "limits": {"cpu": DIGITS}}, {}),
        ({"requests": {"cpu": "1m", UNKNOWN: DIGITS}, "limits": {UNKNOWN: DIGITS}}, {}),
        ({"requests": {"cpu": "1m"}}, {"cpu": "1m", UNKNOWN: DIGITS}),
    ],
    ids=["limits", "requests", "status"],
)
def test_an_amount_that_cannot_be_read_does_not_close_the_node(
    resources: Json, allocated: Json, scheduler: str
) -> None:
    """The API server accepts 5,000 digits. Kubelets ignore limits, and resources that the node does not have."""
    status = {"phase": "Running", "containerStatuses": [{"name": "c", "allocatedResources": allocated}]}
    spec: Json = {"schedulerName": scheduler, "containers": [{"name": "c", "resources": resources}]}
    good_is_well(plan(good(), [pod("evil", f"p-{on}", gpus=0, on=on, status=status, **spec) for on in ("n1", "n2")]))


@row("pod-requests")
def test_an_amount_that_cannot_be_read_takes_all_of_its_resource() -> None:
    """So that no node is over-committed, whatever the amount is."""
    huge: Json = {"containers": [{"name": "c", "resources": {"requests": {GPU: DIGITS}}}]}
    evil = [pod("evil", f"p-{on}", on=on, **huge) for on in ("n1", "n2")]
    assert [] == bound(plan(good(), evil))
    good_is_well(plan(good(), [{**p, "status": {"phase": "Failed"}} for p in evil]))


@row("pod-resource-names")
def test_thousands_of_resource_names_cost_no_columns() -> None:
    names = [{"requests": {f"evil.example.com/r{i}-{j}": "1" for j in range(100)}} for i in range(50)]
    evil = [pod("evil", f"p{i}", containers=[{"name": "c", "resources": one}]) for i, one in enumerate(names)]
    made = plan(good(), evil)
    good_is_well(made)
    assert [] == bound(made, "evil/"), "no node has them"
    assert len(Snapshot(cluster(good(), evil)).axes) < 80


@row("pod-affinity")
def test_anti_affinity_to_everyone_is_limited_to_her_namespace_if_untrusted() -> None:
    everyone = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}
    named = {"labelSelector": {}, "namespaces": ["good"], "topologyKey": "kubernetes.io/hostname"}
    for term in (everyone, named):
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        items = [*good(), *(pod("evil", f"e{i}", gpus=0, on=f"n{i}", affinity=apart) for i in (1, 2))]
        for i in (0, 1):
            items[i]["metadata"]["labels"] = {"kubernetes.io/hostname": f"n{i + 1}"}
        assert [] == bound(plan(items), "good/"), "what Kubernetes means by it"
        good_is_well(plan(items, tenants="untrusted"))


@row("pod-gates")
def test_gates_keep_only_her_own_pod() -> None:
    gated = [pod("evil", f"p{i}", gpus=8, schedulingGates=[{"name": f"x/{i}"}]) for i in range(9)]
    good_is_well(plan(good(), gated))


@row("pod-grace")
@pytest.mark.parametrize(("grace", "expected"), [(30, None), (10**9, 600)])
def test_a_victim_stops_within_ten_minutes_if_untrusted(grace: int, expected: int | None) -> None:
    items = full(terminationGracePeriodSeconds=grace)
    assert {None} == {e.grace for e in plan(items).evict}
    assert {expected} == {e.grace for e in plan(items, tenants="untrusted").evict}


@row("pod-grace")
def test_a_pod_that_takes_years_to_stop_is_paid_for_and_its_room_is_not_promised() -> None:
    """She deletes her own pods with a long grace period, and they run on."""
    going = {"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["evil/never"]}}
    capped = [node("n1"), queue("good"), queue("evil", capability={GPU: "4"})]
    leaving = [
        pod("evil", f"e{i}", on="n1", annotations={"volcano.sh/queue-name": "evil"}, **_with(going, "evil"))
        for i in range(4)
    ]
    made = plan(capped, leaving, pod("evil", "more"), pod("good", "wants", gpus=6))
    assert [] == bound(made, "evil/"), "her queue has all it may have"
    assert () == made.nominate, "nobody waits for years"
    soon = [{**p, "metadata": {**p["metadata"], "deletionTimestamp": TIME}} for p in leaving]
    made = plan(capped, soon, pod("evil", "more"), pod("good", "wants", gpus=6))
    assert ["good/wants"] == [n.task for n in made.nominate]
    stuck = plan(capped, soon, pod("good", "wants", gpus=6), now=NOW + 3600)
    assert () == stuck.nominate


def _with(metadata: Json, queue: str) -> Json:
    return {"metadata": {**metadata["metadata"], "annotations": {"volcano.sh/queue-name": queue}}}


@row("pod-labels")
def test_thousands_of_labels_and_long_values_matter_to_no_one() -> None:
    labels = {f"l{i}": "x" * 63 for i in range(5000)}
    notes = {f"a{i}": "x" * 1000 for i in range(250)}
    good_is_well(plan(good(), [pod("evil", f"p{i}", labels=labels, annotations=notes) for i in range(3)]))
    long = plan(good(), pod("evil", "p", annotations={"volcano.sh/cooldown-time": "1s" * 501}))
    (reason,) = (reason for wait in long.waiting if wait.job == "evil/p" for reason in wait.reasons)
    assert "pod `evil/p`: `volcano.sh/cooldown-time`: 1002 characters, expected at most 1000" == reason.message


@row("pod-many")
def test_thousands_of_tiny_jobs_do_not_pass_the_gang_of_another_queue() -> None:
    tiny = [pod("evil", f"p{i}", gpus=1) for i in range(2000)]
    good_is_well(plan(good(), tiny))


@row("pod-ports")
def test_a_port_matters_only_to_pods_that_need_the_same_one() -> None:
    """As in Kubernetes: two pods of one node cannot have the same port of it."""
    taken: Json = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    shared: Json = {"containers": [{"name": "c", "ports": [{"containerPort": 443}]}], "hostNetwork": True}
    evil = [pod("evil", f"{i}-{on}", on=on, **spec) for on in ("n1", "n2") for i, spec in enumerate((taken, shared))]
    made = plan(good(), evil, pod("good", "port-80", gpus=0, **taken), pod("good", "port-443", gpus=0, **shared))
    good_is_well(made)
    assert ["good/port-443", "good/port-80"] == sorted(w.job for w in made.waiting if w.job.startswith("good/"))


@row("pod-label-values")
def test_her_labels_matter_only_to_selectors_that_reach_her_namespace() -> None:
    label, key = {"app": "trainer"}, "kubernetes.io/hostname"
    evil = [pod("evil", f"e-{on}", gpus=0, on=on, labels=label) for on in ("n1", "n2")]
    items = good()
    for i in (0, 1):
        items[i]["metadata"]["labels"] = {key: f"n{i + 1}"}
    for reach, expected in (({}, ["good/apart"]), ({"namespaceSelector": {}}, [])):
        term = {"labelSelector": {"matchLabels": label}, "topologyKey": key, **reach}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        spread = [{"maxSkew": 1, "topologyKey": key, "labelSelector": {"matchLabels": label}}]
        wants = pod("good", "apart", gpus=0, labels=label, affinity=apart, topologySpreadConstraints=spread)
        made = plan(items, evil, wants)
        assert expected == [task for task in bound(made) if task == "good/apart"]


@row("pod-placement")
def test_where_her_pods_may_run_is_hers_to_say() -> None:
    spec: Json = {
        "nodeSelector": {"no": "such"},
        "tolerations": [{"operator": "Exists"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "x", "labelSelector": {}}],
        "resourceClaims": [{"name": "c"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}],
    }
    devices = {"nvidia.com/use-gputype": "A100", "nvidia.com/use-gpuuuid": "x"}
    good_is_well(plan(good(), pod("evil", "p", annotations=devices, **spec)))


@row("pod-status")
def test_the_status_of_a_pod_is_what_maar_relies_on() -> None:
    """`edit` has no right to write `pods/status` (tests/real/test_tenants.py): here it keeps promised room."""
    promised = task([*good(), pod("good", "p", status={"nominatedNodeName": "n2"})], "good/p")
    assert (Status.NOMINATED, "n2") == (promised.status, promised.node)


@row("pod-autoscaling")
def test_annotations_for_autoscalers_are_not_read_for_decisions() -> None:
    notes = {
        "autoscaling.x-k8s.io/consume-provisioning-request": "good",
        "autoscaling.x-k8s.io/provisioning-class-name": "x",
        "maar.dev/fenced": "x",
    }
    good_is_well(plan(good(), pod("evil", "p", annotations=notes)))
