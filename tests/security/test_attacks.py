"""Attacks of more than one step: dialects that contradict each other, pods that never go, owners that are another's."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from tests.security.world import (
    GPU,
    NOW,
    OURS,
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

from maar.kube.kinds.status import time_text
from maar.kube.picture.picture import Picture
from maar.model.snapshot import Cluster

KUBERNETES, PLUGINS = "scheduling.k8s.io/v1alpha2", "scheduling.x-k8s.io/v1alpha1"


# -- one gang named by two dialects

DIALECTS: dict[str, dict[str, Any]] = {
    "kubernetes": {"schedulingGroup": {"podGroupName": "k"}},
    "volcano": {"annotations": {"scheduling.k8s.io/group-name": "v"}},
    "plugins": {"labels": {"scheduling.x-k8s.io/pod-group": "s"}},
    "plain": {"annotations": {"pod_group": "p", "pod_group_size": "2"}},
    "owner": {
        "metadata": {
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "o", "uid": "Job-evil-o", "controller": True}
            ]
        }
    },
}


def _named(*dialects: str) -> Json:
    made: Json = {}
    for dialect in dialects:
        for key, value in DIALECTS[dialect].items():
            made[key] = {**made.get(key, {}), **value}
    return made


def _objects() -> list[Json]:
    """A gang of each dialect, of two pods."""
    return [
        group("evil", "v", minMember=2, phase="Inqueue"),
        thing("PodGroup", "s", "evil", PLUGINS, spec={"minMember": 2}),
        thing("PodGroup", "k", "evil", KUBERNETES, spec={"schedulingPolicy": {"gang": {"minCount": 2}}}),
        batch_job("evil", "o", size=2, suspend=False, annotations={"maar.dev/gang": "true"}),
    ]


def _pod(name: str, said: Json) -> Json:
    said = dict(said)
    metadata = dict(said.pop("metadata", {}))
    notes, labels = said.pop("annotations", {}), said.pop("labels", {})
    made = pod("evil", name, annotations=notes, labels=labels, **said)
    made["metadata"].update(metadata)
    return made


def _of(found: Cluster) -> dict[str, str]:
    return {task.key: task.job for task in found.tasks if task.key.startswith("evil/")}


@row("pod-gang")
@pytest.mark.parametrize("pair", list(itertools.combinations(DIALECTS, 2)), ids="-".join)
def test_a_pod_that_two_dialects_name_is_in_one_gang_whatever_comes_first(pair: tuple[str, str]) -> None:
    """Two pods of each dialect alone, and two of both: none is in two gangs, none is lost, and no one else is hit."""
    pods = [_pod(f"{'-'.join(of)}-{i}", _named(*of)) for of in ((pair[0],), (pair[1],), pair) for i in (0, 1)]
    expected = _of(cluster(good(), _objects(), pods))
    assert 6 == len(expected)
    both = {expected[f"evil/{'-'.join(pair)}-{i}"] for i in (0, 1)}
    alone = {expected[f"evil/{one}-0"] for one in pair}
    assert 1 == len(both & alone) == len(both), "as the stronger of the two says"
    for seed in range(8):
        items = [*good(), *_objects(), *pods]
        random.Random(seed).shuffle(items)
        assert expected == _of(cluster(items))
        made = plan(items)
        good_is_well(made)
        assert len({b.task for b in made.bind}) == len(made.bind)


@row("pod-gang")
def test_groups_of_two_apis_with_one_name_are_two_gangs() -> None:
    """Neither gets the pods, the minimum or the queue of the other, nor those of another namespace."""
    same = [
        group("evil", "waits", minMember=1, phase="Inqueue"),
        thing("PodGroup", "waits", "evil", PLUGINS, spec={"minMember": 2}),
        thing("PodGroup", "waits", "evil", KUBERNETES, spec={"schedulingPolicy": {"gang": {"minCount": 3}}}),
    ]
    pods = [
        pod("evil", "a", annotations={"scheduling.k8s.io/group-name": "waits"}),
        pod("evil", "b", labels={"scheduling.x-k8s.io/pod-group": "waits"}),
        pod("evil", "c", schedulingGroup={"podGroupName": "waits"}),
    ]
    found = cluster(good(), same, pods)
    minimum = {job.key: job.min_member for job in found.jobs}
    assert {"evil/a": 1, "evil/b": 2, "evil/c": 3} == {key: minimum[job] for key, job in _of(found).items()}
    assert 3 == len(set(_of(found).values()))
    made = plan(good(), same, pods)
    good_is_well(made)
    assert ["evil/a"] == bound(made, "evil/"), "the other two have too few pods"


# -- pods that never go


def _ends(victim: Json, now: float) -> Json:
    """A pod after its eviction: a finalizer keeps it."""
    gone = {"deletionTimestamp": time_text(now + 30), "finalizers": ["evil/never"], "deletionGracePeriodSeconds": 30}
    return {**victim, "metadata": {**victim["metadata"], **gone}}


@row("pod-grace")
@pytest.mark.parametrize("tenants", ["trusted", "untrusted"])
def test_victims_that_never_go_delay_others_and_cause_no_storm_of_evictions(tenants: str) -> None:
    """After ten minutes their room is not awaited any more, and the next victims go: no more than the gang needs."""
    hers = {f"evil/e{i}": pod("evil", f"e{i}", on=f"n{i // 8 + 1}") for i in range(16)}
    share = {"deserved": {GPU: "8"}}
    base = [node("n1"), node("n2"), queue("good", **share), queue("evil", **share)]
    base += [group("good", "waits", minMember=4, phase="Inqueue")]
    base += [pod("good", f"w{i}", annotations={"scheduling.k8s.io/group-name": "waits"}) for i in range(4)]
    went: list[tuple[float, str]] = []
    said: list[tuple[float, list[str]]] = []
    for now in range(int(NOW), int(NOW) + 3 * 3600, 60):
        made = plan(base, hers.values(), tenants=tenants, now=float(now))
        for key in evicted(made):
            assert key not in [victim for _, victim in went], "none is evicted twice"
            went.append((float(now), key))
            hers[key] = _ends(hers[key], now)
        said.append((float(now), codes(made, "good/waits")))
        assert [] == bound(made), "no room is free"
    for start, _ in went:
        assert 4 >= sum(start <= at < start + 600 for at, _ in went), "no more than the gang needs, in ten minutes"
    assert 8 <= len(went) <= 12, "other victims go in their place, and she keeps her share of what is left"
    assert all(reasons for _, reasons in said), "it is told why it waits in each cycle"
    assert "Nominated" in said[1][1]
    assert "Nominated" not in said[-1][1], "nobody waits for pods that never go"
    for key in [victim for _, victim in went[:4]]:  # its containers have ended, as a kubelet says
        hers[key] = {**hers[key], "status": {"phase": "Failed"}}
    assert [f"good/w{i}" for i in range(4)] == bound(plan(base, hers.values(), tenants=tenants, now=NOW + 3 * 3600))


# -- owners that are another's


def _owned(pod_name: str, **reference: Any) -> Json:
    of = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "Job-good-train", "controller": True}
    made = pod("evil", pod_name, queue="evil")
    made["metadata"]["ownerReferences"] = [{**of, **reference}]
    made["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "train", "job-name": "train"}
    return made


@row("pod-owner")
def test_the_owner_of_another_tenant_gives_neither_gang_nor_queue_nor_priority_nor_place_to_write() -> None:
    theirs = batch_job("good", "train", size=2, suspend=False, annotations={"maar.dev/gang": "true"})
    theirs["spec"]["template"]["spec"]["priorityClassName"] = "high"
    high = thing("PriorityClass", "high", version="scheduling.k8s.io/v1", value=1000)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "Job-good-train", "controller": True}
    real = [pod("good", f"t{i}", gpus=0, metadata={"ownerReferences": [reference]}) for i in range(2)]
    forged = [
        _owned("exact"),
        _owned("namespaced", name="good/train"),
        _owned("path", name="../../good/jobs/train"),
        _owned("nowhere", uid="no-such-uid"),
        _owned("node", apiVersion="v1", kind="Node", name="n1", uid="Node--n1"),
        _owned("queue", apiVersion="scheduling.volcano.sh/v1beta1", kind="Queue", name="good", uid="Queue--good"),
        _owned("namespace", apiVersion="v1", kind="Namespace", name="good", uid="x"),
        _owned("control", name="\x1b[2J\r\n\u202e" + "x" * 10_000),
        _owned("group", apiVersion="scheduling.volcano.sh/v1beta1", kind="PodGroup", name="waits", uid="x"),
    ]
    picture = Picture(OURS, settling=None)
    for item in (*good(), high, theirs, *real, *forged):
        picture.put(*decoded(item))
    picture.read_short()
    found = picture.cluster(picture.take(NOW).around)
    of = {task.key: task.job for task in found.tasks}
    jobs = {job.key: job for job in found.jobs}
    for item in forged:
        key = f"evil/{item['metadata']['name']}"
        job = jobs[of[key]]
        assert of[key].startswith("evil/")
        assert ("evil", 0) == (job.queue, job.priority)
        assert "\x1b" not in of[key]
        owner = picture.owner_of(of[key])
        assert owner is None or getattr(owner, "namespace", "evil") == "evil", "nothing is written on theirs"
    assert {"good/t0", "good/t1"} == {key for key, job in of.items() if job == "good/train"}
    good_is_well(plan(good(), high, theirs, real, forged))


@row("pod-owner")
def test_a_chain_of_owners_stays_in_its_namespace_and_ends() -> None:
    """Objects of hers that name each other, and another tenant's, as their owners."""
    jobs = [batch_job("evil", f"j{i}", suspend=False, annotations={"maar.dev/gang": "true"}) for i in range(3)]
    for i, job in enumerate(jobs):
        after = {"name": f"j{(i + 1) % 3}", "uid": f"Job-evil-j{(i + 1) % 3}"}
        other = {"name": "train", "uid": "Job-good-train"}
        job["metadata"]["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "controller": True, **one} for one in (other, after)
        ]
    made = pod("evil", "p", gpus=0)
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j0", "uid": "Job-evil-j0", "controller": True}
    ]
    theirs = batch_job("good", "train", suspend=False, annotations={"maar.dev/gang": "true"})
    found = cluster(good(), theirs, jobs, made)
    (task,) = (task for task in found.tasks if task.key == "evil/p")
    assert task.job.startswith("evil/")
    good_is_well(plan(good(), theirs, jobs, made))


# -- gates


@row("pod-gates")
def test_gates_that_come_and_go_move_no_one_else() -> None:
    """She recreates her pods with and without gates, cycle after cycle: only pods without gates count."""
    gated: Json = {"schedulingGates": [{"name": "evil/wait"}]}
    for turn in range(6):
        many = [pod("evil", f"g{i}", **(gated if (i + turn) % 2 else {}), gpus=100) for i in range(200)]
        many += [
            pod("evil", f"h{i}", annotations={"scheduling.k8s.io/group-name": "half"}, **(gated if i % 2 else {}))
            for i in range(8)
        ]
        many.append(group("evil", "half", minMember=8, phase="Inqueue"))
        made = plan(good(), many, now=NOW + turn)
        good_is_well(made)
        assert [] == bound(made, "evil/"), "half of a gang does not start, and pods with gates never do"
        assert [] == evicted(made)


# -- shards


@row("queue")
def test_nothing_of_a_namespace_says_which_shard_decides() -> None:
    """The pin is an annotation of a Queue, which has no namespace: on pods, groups and jobs it means nothing."""
    pin = {"maar.dev/shard": "0"}
    hers = [
        pod("evil", "p", annotations=pin),
        group("evil", "g", annotations=pin, phase="Inqueue"),
        batch_job("evil", "j", annotations=pin),
    ]
    found = cluster(good(), hers)
    assert ["", ""] == [queue.pin for queue in found.queues if queue.name in ("good", "evil")]
    good_is_well(plan(good(), hers))
