"""Objects that tenants cannot write, and what Maar believes of them, row by row of docs/security.md.

That `edit` cannot write them is tested on a real API server: tests/real/test_tenants.py.
"""

from __future__ import annotations

import pytest
from tests.security.world import TIME, bound, cluster, codes, good, good_is_well, node, plan, pod, queue, row, thing
from tests.support.objects import Json

from maar.kube.kinds import KINDS
from maar.kube.kinds.cluster import STATE


@row("queue")
@pytest.mark.parametrize(
    "notes",
    [
        {"volcano.sh/hierarchy": "root/" + "x/" * 500, "volcano.sh/hierarchy-weights": "9" * 500},
        {"maar.dev/namespaces": " , ,,"},
        {"maar.dev/priority-classes": ",".join(f"c{i}" for i in range(5000))},
    ],
)
def test_a_mistake_in_one_queue_stops_its_own_jobs_only(notes: dict[str, str]) -> None:
    items = [i for i in good() if (i["kind"], i["metadata"]["name"]) != ("Queue", "evil")]
    good_is_well(plan(items, queue("evil", notes), pod("evil", "p")))


@row("queue")
def test_lists_of_a_queue_are_names_separated_by_commas() -> None:
    """An empty list accepts everything; the default class needs no place in a list."""
    default: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "usual"}}
    default |= {"value": 5, "globalDefault": True}
    lists = {"maar.dev/namespaces": " a,b ,b", "maar.dev/priority-classes": "gold"}
    (made,) = (q for q in cluster(queue("q", lists)).queues if q.name == "q")
    assert (("a", "b"), ("gold",)) == (made.namespaces, made.priority_classes)
    (made,) = (q for q in cluster(queue("q", {"maar.dev/namespaces": " , "})).queues if q.name == "q")
    assert made.namespaces is None
    world = [node("n1"), default, queue("q", lists)]
    assert ["a/p"] == bound(plan(world, pod("a", "p", queue="q", priorityClassName="usual")))
    refused = plan(world, pod("c", "p", queue="q"))
    assert ["NamespaceNotAccepted"] == codes(refused, "c/p")


@row("node")
@pytest.mark.parametrize("since", ["", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "nonsense"])
def test_a_lock_that_no_election_stands_behind_locks_nothing(since: str) -> None:
    notes = {"maar.dev/locked-for": "nobody/home", "maar.dev/locked-since": since, "maar.dev/locked-uid": "x"}
    items = [i for i in good() if i["kind"] != "Node"]
    good_is_well(plan(items, *(node(name, metadata={"annotations": notes}) for name in ("n1", "n2"))))


@row("load")
@pytest.mark.parametrize("cpu", ["-1", "1e30", "NaN", "lots", "9" * 5000])
def test_figures_that_cannot_be_true_are_left_out(cpu: str) -> None:
    metrics = thing("NodeMetrics", "n1", version="metrics.k8s.io/v1beta1", timestamp=TIME, usage={"cpu": cpu})
    other = thing("NodeMetrics", "n2", version="metrics.k8s.io/v1beta1", timestamp=TIME, usage={"cpu": "32"})
    assert [("n2", 0.5)] == [(load.node, load.cpu) for load in cluster(good(), metrics, other).loads]
    good_is_well(plan(good(), metrics, other))


@row("cluster")
def test_kinds_without_a_namespace_are_the_operators() -> None:
    """Every kind that Maar reads has a namespace, or is in this list and in the table."""
    plural = {kind.resource.plural for kind in KINDS if not kind.resource.namespaced}
    assert {
        "csidrivers",
        "csinodes",
        "hypernodes",
        "namespaces",
        "nodes",
        "persistentvolumes",
        "priorityclasses",
        "queues",
        "shardmaps",
        "shards",
        "storageclasses",
    } == plural


@row("state")
def test_what_protects_others_is_kept_where_tenants_cannot_write() -> None:
    """Elections and the last resize of a pool are in one ConfigMap of Maar's own namespace, locks on nodes."""
    assert "maar-state" == STATE.only
    made = cluster(
        good(),
        thing(
            "Pod",
            "p",
            "evil",
            spec={"schedulerName": "maar"},
            metadata={"annotations": {"maar.dev/elected-since": TIME}},
        ),
    )
    assert (None, {}) == (made.elect, made.resized)
