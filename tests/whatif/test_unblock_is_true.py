"""What is said to unblock a job is true: on any cluster it starts the job, and nothing smaller does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support import confs
from tests.support.strategies import clusters, described, elastic_clusters

from maar.config.config import Config
from maar.config.file import default_config
from maar.model.plan import Elect, Lock
from maar.model.resources import CPU
from maar.model.snapshot import Cluster
from maar.registry import catalog
from maar.testing.builders import GPU
from maar.testing.scenario import configured
from maar.whatif.answer import decided
from maar.whatif.changes import COARSE, KINDS
from maar.whatif.edit import Edit, Scene
from maar.whatif.edits import applied
from maar.whatif.job_edits import EndJobs, SetMinimum, SetPriority, SetRequest
from maar.whatif.node_edits import AddNodesLike, Uncordon
from maar.whatif.queue_edits import SetAmounts, SetWeight
from maar.whatif.started import Start
from maar.whatif.unblock import Change, unblock

CONFIGS = {
    "default": default_config(catalog()),
    "preempt": configured(confs.PREEMPT),
    "reclaim": configured(confs.RECLAIM),
    "reserve": configured(confs.RESERVE),
    "capacity": configured(confs.CAPACITY_GUIDE),
}
NOW = 10.0


@st.composite
def blocked(draw: st.DrawFn) -> Cluster:
    """A random cluster in which also cordons, limits, closed queues and reservations keep jobs waiting."""
    cluster: Cluster = draw(st.one_of(clusters(), elastic_clusters()))
    cordoned = draw(st.sets(st.sampled_from([node.name for node in cluster.nodes])))
    nodes = tuple(replace(node, unschedulable=node.name in cordoned) for node in cluster.nodes)
    queues = tuple(
        replace(
            queue,
            capability=draw(st.sampled_from([None, {GPU: 1}, {GPU: 3}, {CPU: 3000}, {GPU: 2, CPU: 2500}])),
            deserved=draw(st.sampled_from([None, {GPU: 1, CPU: 1000}])),
            open=draw(st.sampled_from([True, True, True, False])),
        )
        for queue in cluster.queues
    )
    cluster = replace(cluster, nodes=nodes, queues=queues)
    reserved: bool = draw(st.booleans())
    if cluster.jobs and reserved:
        waiting = [task.job for task in cluster.tasks if not task.node]
        job = draw(st.sampled_from(waiting or [job.key for job in cluster.jobs]))
        locked = draw(st.sets(st.sampled_from([node.name for node in nodes])))
        locks = tuple(Lock(name, job, 0.0) for name in sorted(locked))
        cluster = replace(cluster, elect=Elect(job, 0.0), locks=locks)
    return cluster


def start(cluster: Cluster, config: Config, job: str, edits: list[Edit]) -> Start:
    """How far the job is with the edits, by a decision of its own."""
    return decided(applied(Scene(cluster, config), edits), NOW).outcome.of(job)


def smaller(cluster: Cluster, change: Change) -> Iterator[list[Edit]]:
    """Every part of a change, and smaller amounts of each of its edits."""
    edits = list(change.edits)
    for size in range(1, len(edits)):
        yield from map(list, combinations(edits, size))
    for i, edit in enumerate(edits):
        yield from ([*edits[:i], less, *edits[i + 1 :]] for less in less_of(cluster, edit))


def less_of(cluster: Cluster, edit: Edit) -> Iterator[Edit]:
    jobs = {job.key: job for job in cluster.jobs}
    queues = {queue.name: queue for queue in cluster.queues}
    match edit:
        case Uncordon(nodes):
            for size in range(1, len(nodes)):
                yield from (Uncordon(some) for some in combinations(nodes, size))
        case EndJobs(ended):
            for size in range(1, len(ended)):
                yield from (EndJobs(some) for some in combinations(ended, size))
        case AddNodesLike(like, count):
            yield from (AddNodesLike(like, fewer) for fewer in range(1, count))
        case SetMinimum(job, minimum):
            yield from (SetMinimum(job, n) for n in range(minimum + 1, jobs[job].min_member))
        case SetPriority(job, priority):
            yield from (SetPriority(job, p) for p in range(jobs[job].priority + 1, priority))
        case SetRequest(job, resource, amount):
            step = COARSE.get(resource, 1)
            yield SetRequest(job, resource, amount + step)
        case SetAmounts(queue, of, amounts):
            ((name, most),) = amounts.items()
            now: int = (getattr(queues[queue], of) or {}).get(name, 0) if queue in queues else 0
            assert most is not None
            if most - 1 > now:
                yield SetAmounts(queue, of, {name: most - 1})
        case SetWeight(queue, weight):
            if weight - 1 > (queues[queue].weight if queue in queues else 1):
                yield SetWeight(queue, weight - 1)


def test_a_change_starts_the_job_and_nothing_smaller_does() -> None:
    found: Counter[str] = Counter()

    @settings(max_examples=160, deadline=None)
    @given(blocked(), st.sampled_from(sorted(CONFIGS)), st.integers(0, 20))
    def holds(cluster: Cluster, name: str, which: int) -> None:
        note(f"{name}\n{described(cluster)}")
        found.update(checked(cluster, CONFIGS[name], which))

    holds()
    assert len(found) > len(KINDS) / 3, f"hardly any change was found: {found}"


def checked(cluster: Cluster, config: Config, which: int) -> list[str]:
    """Check the changes for one of the waiting jobs; returns their kinds."""
    before = decided(Scene(cluster, config), NOW)
    waiting = [job.key for job in cluster.jobs if not before.outcome.of(job.key).ok]
    if not waiting:
        return []
    job = waiting[which % len(waiting)]
    answer = unblock(cluster, config, NOW, job, most=len(KINDS))
    note(f"{job}: {answer}")
    assert Start.WAITS is answer.start
    kinds = [change.kind for change in answer.changes]
    assert sorted(kinds, key=list(KINDS).index) == kinds
    for change in answer.changes:
        made = start(cluster, config, job, list(change.edits))
        assert made.ok, change.words
        assert change.start is made
        for less in smaller(cluster, change):
            assert Start.WAITS is start(cluster, config, job, less), f"{change.words}: less is enough: {less}"
    return kinds
