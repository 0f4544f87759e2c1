"""Simulated shards strand nothing: when all is quiet, one Maar over the whole cluster finds nothing more to do."""

from __future__ import annotations

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support import shard_scenes
from tests.support.shards import electing, gpus_placed, left_over, settled, turns, workload
from tests.support.strategies import clusters, described, elastic_clusters

from maar.config.file import default_config, default_text, read_config
from maar.model.snapshot import Cluster
from maar.model.tasks import Status
from maar.registry import catalog

CONFIG = default_config(catalog())
CAPACITY = "- {name: capacity, enableHierarchy: true} #"
TREE = read_config(default_text().replace("- name: proportion", CAPACITY), "tree.yaml", catalog()).config


def begun(cluster: Cluster) -> Cluster:
    """The cluster after the pods that were leaving have left."""
    return replace(cluster, tasks=tuple(t for t in cluster.tasks if t.status is not Status.RELEASING))


@settings(max_examples=120, deadline=None)
@given(clusters(), st.integers(2, 4), st.integers(0, 2**16))
def test_one_maar_finds_nothing_to_do_after_shards_on_any_cluster(cluster: Cluster, shards: int, seed: int) -> None:
    note(described(cluster))
    after = settled(begun(cluster), CONFIG, shards, seed)
    plan = left_over(after)
    assert not plan.moves, f"bind {plan.bind} evict {plan.evict} resize {plan.resize} admit {plan.admit}"


@settings(max_examples=30, deadline=None)
@given(elastic_clusters(), st.integers(2, 4), st.integers(0, 2**16))
def test_nor_after_shards_with_elastic_jobs(cluster: Cluster, shards: int, seed: int) -> None:
    """Sizes change at most every 30 s and jobs keep theirs for 60 s, so the shards get some times 100 s."""
    note(described(cluster))
    after = settled(begun(cluster), CONFIG, shards, seed)
    for _ in range(8):
        before = after.virtual.cluster().jobs, after.virtual.cluster().tasks
        after.now += 100.0
        assert after.settle(turns(shards, seed))
        if before == (after.virtual.cluster().jobs, after.virtual.cluster().tasks):
            break
    plan = left_over(after)
    assert not plan.moves, f"bind {plan.bind} evict {plan.evict} resize {plan.resize} resume {plan.resume}"


def test_random_workloads_strand_nothing_and_place_as_many_gpus_as_one_maar() -> None:
    """40 workloads here; `python -m tests.shards.measure` has more."""
    shares = []
    for seed in range(40):
        made = workload(seed)
        after = settled(made, CONFIG, 2 + seed % 3, seed)
        assert not left_over(after).moves, f"workload {seed}"
        placed = gpus_placed(settled(made, CONFIG, 1).virtual.cluster())
        shares.append(gpus_placed(after.virtual.cluster()) / placed if placed else 1.0)
    print(f"GPUs placed, as a share of what one Maar places: {sum(shares) / len(shares):.4f}")
    assert sum(shares) / len(shares) >= 0.98


@pytest.mark.parametrize("torn", [True, False])
def test_gangs_within_one_rack_are_not_stranded(torn: bool) -> None:
    """Racks belong to one shard each, or have nodes of several."""
    for seed in range(8):
        shards = 2 + seed % 3
        after = settled(shard_scenes.racks(seed, shards, torn), CONFIG, shards, seed)
        assert not left_over(after).moves, f"racks {seed}"
        cluster = after.virtual.cluster()
        rack = {node.name: node.labels["rack"] for node in cluster.nodes}
        close = {job.key for job in cluster.jobs if job.closeness is not None and job.closeness.hard}
        placed = {(task.job, rack[task.node]) for task in cluster.tasks if task.node and task.job in close}
        assert len(placed) == len({job for job, _ in placed}), f"racks {seed}: a gang in two racks"


def test_jobs_in_a_tree_of_queues_with_limits_are_not_stranded() -> None:
    for seed in range(10):
        shards = 2 + seed % 3
        assert not left_over(settled(shard_scenes.tree(seed), TREE, shards, seed)).moves, f"tree {seed}"


def test_pods_tied_to_nodes_of_any_shard_are_not_stranded() -> None:
    for seed in range(8):
        shards = 2 + seed % 3
        assert not left_over(settled(shard_scenes.daemons(seed), CONFIG, shards, seed)).moves, f"daemons {seed}"


def test_a_large_job_starts_although_small_ones_flow_into_other_shards() -> None:
    """Nodes are locked for it."""
    config = electing(CONFIG)
    turns_needed = [shard_scenes.start_of_large(seed, 2 + seed % 3, config, 40) for seed in range(5)]
    assert None not in turns_needed, turns_needed
    never = replace(config, actions=tuple(a for a in config.actions if a.name != "reserve"))
    assert shard_scenes.start_of_large(1, 3, never, 40) is None, "the flow alone leaves no room for it"
