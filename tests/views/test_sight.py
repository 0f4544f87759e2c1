"""Safety: whatever the cluster is, no byte of any view names something of a namespace that the viewer may not see."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support import confs
from tests.support.strategies import clusters, elastic_clusters

from maar.config.config import Config
from maar.config.file import default_config
from maar.model.plan import Elect, Evict, Lock
from maar.model.snapshot import Budget, Cluster, Quota, Snapshot
from maar.model.tasks import Status
from maar.registry import catalog
from maar.shards.map import ShardMap
from maar.shards.sharing import Sharing
from maar.shards.wants import Want
from maar.testing.builders import gang
from maar.testing.scenario import configured
from maar.views.answers import what_if_view
from maar.views.cluster import cluster_view
from maar.views.decisions import ShownCycle, decision_view
from maar.views.jobs import job_detail, job_views
from maar.views.nodes import node_views
from maar.views.queues import queue_views
from maar.views.records import State
from maar.views.sight import ALL, Sight
from maar.views.tally import Tally
from maar.views.utilisation import utilisation_view
from maar.whatif.answer import decided, what_if
from maar.whatif.edit import Edit, Scene
from maar.whatif.job_edits import EndJobs, SetPriority
from maar.whatif.node_edits import RemoveNodes
from maar.whatif.patience import Effort
from maar.whatif.why import why

CONFIGS = [default_config(catalog()), *map(configured, (confs.PREEMPT, confs.RECLAIM, confs.RESERVE))]
NOW = 10.0
MARK = "zq7"
"""In every name of a namespace that the viewer may not see, and in no other."""
MINE = Sight({"ns"})


@st.composite
def shared(draw: st.DrawFn) -> Cluster:
    """A random cluster, some of whose jobs belong to another tenant; nodes may be reserved for one of hers.

    The viewer has a job that waits then, for a reason that names the other one.
    """
    cluster: Cluster = draw(st.one_of(clusters(), elastic_clusters()))
    keys = [job.key for job in cluster.jobs]
    hers = draw(st.sets(st.sampled_from(keys), min_size=1)) if keys else set()
    names = {key: f"{MARK}ns/{MARK}{key.partition('/')[2]}" for key in hers}

    def pod(key: str, job: str) -> str:
        return f"{MARK}ns/{MARK}{key.partition('/')[2]}" if job in names else key

    def budget(key: str) -> str:
        return f"{MARK}ns/{MARK}{key.partition('/')[2]}"

    jobs = tuple(replace(job, key=names.get(job.key, job.key)) for job in cluster.jobs)
    tasks = tuple(
        replace(
            task,
            key=pod(task.key, task.job),
            job=names.get(task.job, task.job),
            budgets=tuple(budget(key) for key in task.budgets),
        )
        for task in cluster.tasks
    )
    quotas = (Quota(f"{MARK}ns/{MARK}quota", {"pods": 0}), Quota("ns/quota", {"pods": draw(st.sampled_from([2, 100]))}))
    asks = gang("asks", 1)
    cluster = replace(
        cluster,
        jobs=(*jobs, asks.job),
        tasks=(*tasks, *asks.tasks),
        quotas=quotas,
        budgets=tuple(Budget(budget(b.key), b.allowed) for b in cluster.budgets),
    )
    nodes = [node.name for node in cluster.nodes]
    hers_wait = sorted({task.job for task in tasks if task.job in names.values() and task.status is Status.PENDING})
    reserved: bool = draw(st.sampled_from([True, True, True, False]))
    if hers_wait and reserved:
        locks = tuple(Lock(node, hers_wait[0], 1.0) for node in nodes)
        cluster = replace(cluster, elect=Elect(hers_wait[0], 1.0), locks=locks)
    return cluster


def wanting(cluster: Cluster) -> Sharing:
    """Three shards whose holders are pods of a namespace that the viewer may not see. Every job wants all nodes.

    Victims are pods of others.
    """
    victims = tuple(Evict(t.key, "", f"for `{t.job}`") for t in cluster.tasks if MARK in t.key)
    nodes = tuple(sorted(node.name for node in cluster.nodes))
    wants = tuple(
        Want(1, job.key, job.uid, job.priority, job.created, nodes, NOW + 1, asks=bool(i % 2), victims=victims)
        for i, job in enumerate(cluster.jobs)
    )
    holders = {shard: f"{MARK}-{shard}" for shard in range(3)}
    return Sharing(replace(ShardMap.new(3), holders=holders, epochs=dict.fromkeys(holders, 2)), wants)


class Same:
    """Nothing has happened since."""

    def __init__(self, cluster: Cluster) -> None:
        self._nodes = {task.key: task.node for task in cluster.tasks}

    def node_of(self, pod: str) -> str | None:
        return self._nodes.get(pod)

    def size_of(self, job: str) -> int | None:
        return None

    def is_admitted(self, job: str) -> bool:
        return False


@settings(max_examples=80)
@given(shared(), st.sampled_from(CONFIGS))
def test_safety_no_view_names_what_belongs_to_others(cluster: Cluster, config: Config) -> None:
    found = decided(Scene(cluster, config), NOW)
    tally = Tally(found.snapshot, found.plan, NOW, sharing=wanting(cluster))
    owners = {task.key: task.job for task in cluster.tasks}
    cycle = ShownCycle(1, NOW, 0.1, found.plan, owners, tally.namespaces)
    mine = sorted(job.key for job in cluster.jobs if MINE.of(job.key))

    views: list[object] = [
        cluster_view(tally, MINE),
        queue_views(tally, MINE),
        node_views(tally, MINE),
        job_views(tally, MINE),
        decision_view(cycle, MINE, Same(cluster)),
        utilisation_view(tally),
    ]
    views += [
        job_detail(tally, why(cluster, config, NOW, key, _few(6)), MINE)
        for key in [key for key in mine if not found.outcome.of(key).ok][:1]
    ]
    edits: list[Edit] = [RemoveNodes((cluster.nodes[0].name,))]
    edits += [edit for key in mine[:1] for edit in (SetPriority(key, 5), EndJobs((key,)))]
    views += [what_if_view(what_if(cluster, config, NOW, [edit]), MINE, tally.namespaces) for edit in edits]
    for view in views:
        assert MARK.encode() not in msgspec.json.encode(view)
    assert len(mine) == len(cluster.jobs) or MARK.encode() in msgspec.json.encode(job_views(tally, ALL))
    assert MARK.encode() in msgspec.json.encode(cluster_view(tally, ALL).shards)
    waits = [view for view in job_views(tally, MINE) if view.state is State.WAITING and view.pods.get("pending")]
    assert all("other shards" in view.why for view in waits)


def _few(count: int) -> Callable[[Effort], bool]:
    """Lets a search for changes make only some decisions."""
    left = iter(range(count))
    return lambda effort: next(left, None) is not None


@settings(max_examples=20)
@given(shared())
def test_safety_amounts_are_the_same_for_every_viewer(cluster: Cluster) -> None:
    found = decided(Scene(cluster, CONFIGS[0]), NOW)
    tally = Tally(Snapshot(cluster), found.plan, NOW)
    for whole, part in zip(node_views(tally, ALL), node_views(tally, MINE), strict=True):
        assert (whole.used, whole.system) == (part.used, part.system)
        assert sum(j.pods for j in whole.jobs) == sum(j.pods for j in part.jobs) + part.others.pods
        for name in whole.used:
            seen = sum(job.amounts.get(name, 0) for job in part.jobs) + part.system.amounts.get(name, 0)
            assert whole.used[name] == seen + part.others.amounts.get(name, 0)
    assert queue_views(tally, ALL) == queue_views(tally, MINE)
    assert cluster_view(tally, ALL).jobs == cluster_view(tally, MINE).jobs
