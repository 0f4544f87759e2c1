"""Views: what they say about a small cluster, and to whom."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.subgroups import divided

from maar.config.file import default_config
from maar.decide import decide
from maar.model.facts import About, Fact
from maar.model.plan import Admit, Bind, Elect, Evict, Lock, Nominate, Plan, Resize
from maar.model.queues import Queue
from maar.model.reserved import NAME, OWNER, Reserved, ReservedPlace
from maar.model.selectors import Taint
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog
from maar.shards.map import ShardMap
from maar.shards.sharing import Sharing
from maar.shards.wants import Want
from maar.testing.builders import GPU, cluster, elastic, gang, node
from maar.views.cluster import cluster_view
from maar.views.decisions import ShownCycle, decision_view
from maar.views.jobs import NoJob, job_detail, job_named, job_views
from maar.views.nodes import node_views
from maar.views.queues import queue_views
from maar.views.records import Happened, JobView, NodeView, Others, OwnerView, QueueView, State, UtilisationView
from maar.views.sight import ALL, ANOTHER, Sight
from maar.views.tally import Tally
from maar.views.utilisation import QUEUES, utilisation_view
from maar.whatif.why import why

CONFIG = default_config(catalog())
NOW = 100.0
MINE = Sight({"mine"})


def tally(scene: Cluster) -> Tally:
    snapshot = Snapshot(scene)
    return Tally(snapshot, decide(snapshot, CONFIG, NOW), NOW)


def scene() -> Cluster:
    return cluster(
        node("n1", gpu=8, labels={"topology.kubernetes.io/rack": "r1", "other": "x"}),
        node("n2", gpu=8, unschedulable=True),
        node("n3", gpu=8, taints=[Taint("node.kubernetes.io/unreachable", "", "NoExecute")]),
        Queue("red", weight=2, capability={GPU: 12}),
        gang("mine/runs", 2, gpu=2, on=["n1", "n1"], queue="red"),
        gang("theirs/runs", 2, gpu=2, on=["n1", "n1"], queue="red", priority=5),
        gang("mine/waits", 2, gpu=8, queue="red", created=5.0),
        gang("theirs/waits", 1, gpu=8, queue="red", created=1.0),
        elastic("mine/sleeps", 1, 4, gpu=8),
    )


def elected() -> Cluster:
    """The same, with a node locked for the elected job."""
    return msgspec.structs.replace(scene(), elect=Elect("theirs/waits", 3.0), locks=(Lock("n1", "theirs/waits", 3.0),))


def jobs(seen: Sight) -> dict[str, JobView]:
    return {f"{view.namespace}/{view.name}": view for view in job_views(tally(scene()), seen)}


def test_a_viewer_sees_the_jobs_of_her_namespaces() -> None:
    assert {"mine/runs", "mine/waits", "mine/sleeps", "theirs/runs", "theirs/waits"} == jobs(ALL).keys()
    assert {"mine/runs", "mine/waits", "mine/sleeps"} == jobs(MINE).keys()
    assert {} == jobs(Sight())


def test_a_job_has_its_state_its_pods_and_its_amounts() -> None:
    runs, waits, sleeps = (jobs(MINE)[f"mine/{name}"] for name in ("runs", "waits", "sleeps"))
    assert (State.RUNNING, {"bound": 2}, ("n1",)) == (runs.state, runs.pods, runs.nodes)
    assert (4, 4) == (runs.requests[GPU], runs.allocated[GPU])
    assert (State.WAITING, {"pending": 2}, ()) == (waits.state, waits.pods, waits.nodes)
    assert (16, {}) == (waits.requests[GPU], waits.allocated)
    assert (State.WAITING, 4) == (sleeps.state, sleeps.elastic.max if sleeps.elastic else 0)
    assert 8 == sleeps.requests[GPU], "what it needs at least"
    assert "" == runs.why
    assert waits.condition
    assert waits.why


def test_a_node_names_only_jobs_that_may_be_seen() -> None:
    def n1(sight: Sight) -> NodeView:
        return next(view for view in node_views(tally(scene()), sight) if view.name == "n1")

    assert {"mine/runs": 4, "theirs/runs": 4} == {job.job: job.amounts[GPU] for job in n1(ALL).jobs}
    assert ["mine/runs"] == [job.job for job in n1(MINE).jobs]
    assert (2, 4) == (n1(MINE).others.pods, n1(MINE).others.amounts[GPU])
    assert Others() == n1(ALL).others
    assert 8 == n1(MINE).used[GPU]
    assert {"topology.kubernetes.io/rack": "r1"} == n1(MINE).domains


def test_a_node_has_its_state() -> None:
    states = {view.name: view.state for view in node_views(tally(scene()), MINE)}
    assert {"n1": "ready", "n2": "cordoned", "n3": "failed"} == states


def test_a_reservation_is_seen_and_its_job_only_by_some() -> None:
    reserved = elected()
    for sight, name in ((ALL, "theirs/waits"), (MINE, None)):
        (first, *_), whole = node_views(tally(reserved), sight), cluster_view(tally(reserved), sight)
        assert ("locked", True, name) == (first.state, first.locked, first.locked_for)
        assert whole.reserved is not None
        assert (name, 1) == (whole.reserved.job, whole.reserved.nodes)


def test_queues_have_their_totals_for_everybody() -> None:
    def red(sight: Sight) -> QueueView:
        return next(view for view in queue_views(tally(scene()), sight) if view.name == "red")

    assert red(ALL) == red(Sight())
    assert (8, 24, 12) == (red(ALL).allocated[GPU], red(ALL).waiting[GPU], red(ALL).capability[GPU])
    assert {"running": 2, "waiting": 2} == {state: n for state, n in red(ALL).jobs.items() if n}
    assert "root" == red(ALL).parent


def test_what_is_above_the_share_is_borrowed() -> None:
    found = tally(
        cluster(
            node("n1", gpu=8),
            Queue("red"),
            Queue("blue"),
            gang("a/r", 6, gpu=1, on=["n1"] * 6, queue="red"),
            gang("a/b", 6, gpu=1, queue="blue"),
        )
    )
    red = next(view for view in queue_views(found, ALL) if view.name == "red")
    assert 6 == red.allocated[GPU]
    assert 6 - red.deserved[GPU] == red.borrowed[GPU] > 0


def test_the_whole_counts_everything_and_says_what_is_seen() -> None:
    whole = cluster_view(tally(scene()), MINE)
    assert {"ready": 1, "cordoned": 1, "failed": 1} == whole.nodes
    assert (24, 8) == (whole.allocatable[GPU], whole.used[GPU])
    assert (2, 1) == (whole.jobs["running"], whole.visible["running"])
    assert (2, 4) == (whole.others.pods, whole.others.amounts[GPU])
    assert (GPU,) == whole.accelerators


def test_jobs_ahead_have_a_name_only_if_they_may_be_seen() -> None:
    made = elected()
    found = why(made, CONFIG, NOW, "mine/waits")
    assert found.place is not None
    for sight, name in ((ALL, "theirs/waits"), (MINE, None)):
        detail = job_detail(tally(made), found, sight)
        assert detail.place is not None
        assert (2, 2) == (detail.place.number, detail.place.waiting)
        assert [name] == [ahead.name for ahead in detail.place.ahead]
        assert all(ahead.words for ahead in detail.place.ahead)
        assert b"theirs" not in msgspec.json.encode(detail) or sight is ALL
        says = [(r.plugin, sight.said(r.words)) for r in found.reasons]
        assert says == [(r.plugin, r.message) for r in detail.reasons]
        assert "locked for" in says[0][1], "a sentence that names another job"


def test_an_elastic_job_has_the_speed_up_that_was_measured() -> None:
    learnt = ((1, 1.0), (2, 1.8), (4, 3.0), (8, 4.0))
    for measured, expected in ((2, [True, True, False]), (0, [True, True, True])):
        made = elastic("mine/grows", 1, 4, speedup=learnt, measured=measured)
        scene = cluster(node("n1", gpu=8), made)
        detail = job_detail(tally(scene), why(scene, CONFIG, NOW, "mine/grows"), MINE)
        assert [1, 2, 4] == [one.workers for one in detail.speeds], "sizes that it may have"
        assert [1.0, 1.8, 3.0] == [one.speed for one in detail.speeds]
        assert expected == [one.measured for one in detail.speeds], measured
    assert () == job_detail(tally(scene), why(scene, CONFIG, NOW, "mine/grows"), MINE).story_without


def test_a_job_is_found_by_its_name_or_that_of_its_object() -> None:
    owners = {f"mine/sweep-{i}": OwnerView(api_version="batch/v1", kind="Job", name="sweep") for i in range(7)}
    owners |= {"mine/only-x": OwnerView(api_version="batch/v1", kind="Job", name="only")}
    made = cluster(node("n1"), [gang(key, 1) for key in (*owners, "theirs/only")])
    found = Tally(Snapshot(made), Plan(), NOW, owners=owners)
    assert "mine/sweep-3" == job_named(found, "mine/sweep-3", MINE)
    assert "mine/only-x" == job_named(found, "mine/only", MINE)
    assert "theirs/only" == job_named(found, "theirs/only", ALL)
    for name, problem in (
        ("theirs/only", "no such job that you may see"),
        ("mine/nothing", "no such job that you may see"),
        ("mine/sweep", "this object stands for 7 jobs: name one of mine/sweep-0, .* and 2 more"),
    ):
        with pytest.raises(NoJob, match=problem):
            job_named(found, name, MINE)


class Later:
    """Everything has happened as decided."""

    def node_of(self, pod: str) -> str | None:
        return None if pod.startswith("theirs/low") else "n2"

    def size_of(self, job: str) -> int | None:
        return 3

    def is_admitted(self, job: str) -> bool:
        return job == "mine/g"


def test_a_decision_has_what_happened_then_beside_it() -> None:
    plan = Plan(
        bind=(Bind("mine/a", "n2"), Bind("mine/b", "n1")),
        nominate=(Nominate("mine/n", "n2"),),
        admit=(Admit("mine/g"), Admit("mine/h"), Admit("theirs/g")),
        evict=(Evict("theirs/low-0", "mine/a", "x"), Evict("mine/c", "mine/a", "x")),
        resize=(Resize("mine/e", 1, 3, "x"), Resize("mine/f", 1, 2, "x")),
    )
    happened = decision_view(ShownCycle(1, NOW, 0.1, plan, {}), ALL, Later()).happened
    counts = {"same_node": 2, "other_node": 1, "admitted": 1, "not_admitted": 2, "evicted": 1, "stayed": 1}
    assert Happened(**counts, resized=1, other_size=1) == happened
    mine = decision_view(ShownCycle(1, NOW, 0.1, plan, {}), MINE, Later()).happened
    assert (0, 1, 1) == (mine.evicted, mine.stayed, mine.not_admitted)


def test_a_decision_counts_what_may_not_be_seen() -> None:
    made = tally(
        cluster(
            node("n1", gpu=8),
            gang("theirs/low", 1, gpu=8, on=["n1"], priority=1),
            gang("mine/high", 1, gpu=8, priority=10),
            node("n2", gpu=2),
            gang("theirs/other", 1, gpu=2),
        )
    )
    assert made.plan.bind
    owners = {task.key: task.job for task in made.snapshot.tasks.tasks}
    cycle = ShownCycle(1, NOW, 0.1, made.plan, owners)
    whole, part = (decision_view(cycle, sight, Later()) for sight in (ALL, MINE))
    assert ["theirs/other"] == [move.job for move in whole.bind]
    assert (1, {}) == (whole.happened.same_node, whole.others)
    assert () == part.bind
    assert 1 == part.others["bind"]
    assert b"theirs" not in msgspec.json.encode(part)
    assert part.shadow


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("waits for `theirs/job-1`", f"waits for {ANOTHER}"),
        ("room goes to theirs/x, mine/y", f"room goes to {ANOTHER}, mine/y"),
        ("pod `theirs/a%0b%12@2` and `mine/a%0b`", f"pod {ANOTHER} and `mine/a%0b`"),
        ("pods/theirs/job, -theirs/x", f"{ANOTHER}, {ANOTHER}"),
        ("gang `theirs/-secret`, `theirs/_s.` and mine/-s", f"gang {ANOTHER}, {ANOTHER} and mine/-s"),
        ("312 short of nvidia.com/gpu", "312 short of nvidia.com/gpu"),
        ("0/500 nodes fit", "0/500 nodes fit"),
        ("see 7/8", f"see {ANOTHER}"),
        ("the namespace `theirs` and queue `red`", "the namespace another namespace and queue `red`"),
    ],
)
def test_sentences_lose_the_names_of_others(said: str, heard: str) -> None:
    assert said == ALL.said(said)
    assert heard == MINE.said(said, frozenset({"theirs", "mine", "7"}))


def test_utilisation_is_counted_by_top_level_queue() -> None:
    made = cluster(
        [node(f"n{i}", gpu=8) for i in range(2)],
        Queue("red", weight=2),
        Queue("pale", parent="red"),
        Queue("blue"),
        gang("a/one", 1, gpu=2, on=["n0"], queue="red"),
        gang("a/two", 1, gpu=3, on=["n0"], queue="pale"),
        gang("a/three", 1, gpu=4, on=["n1"], queue="blue"),
        gang("a/waits", 3, gpu=8, queue="blue"),
    )
    expected = UtilisationView(at=NOW, total=16, used=9, waiting=24, queues={"red": 5, "blue": 4}, others=0)
    assert expected == utilisation_view(tally(made))
    cpu = cluster(node("n0", cpu="4"), gang("a/one", 1, gpu=0, cpu="1", on=["n0"]))
    found = utilisation_view(tally(cpu))
    assert (4000, 1000, {"default": 1000}) == (found.total, found.used, found.queues)


def test_utilisation_names_few_queues() -> None:
    many = QUEUES + 3
    made = cluster(
        [node(f"n{i}", gpu=16) for i in range(many)],
        [Queue(f"q{i:02}") for i in range(many)],
        [gang(f"a/j{i}", 1, gpu=i + 1, on=[f"n{i}"], queue=f"q{i:02}") for i in range(many)],
    )
    found = utilisation_view(tally(made))
    assert {f"q{i:02}": i + 1 for i in range(3, many)} == found.queues
    assert (1 + 2 + 3, found.used) == (found.others, sum(found.queues.values()) + found.others)


SHARDS = replace(ShardMap.new(2), queues={"red": 1}, epochs={0: 2, 1: 5}, holders={0: "maar-0", 1: "maar-1"})


def shared(**fields: Any) -> Tally:
    """The scene on a cluster with two shards: `n1` was lent to the other shard, which wants it for a waiting job."""
    home = SHARDS.owner_of("n1")
    owners = SHARDS.lent("n1", 1 - home)
    want = Want(home, "mine/waits", "", 0, 0.0, ("n1", "n2"), NOW + 10.0)
    made, snapshot = replace(want, **fields), Snapshot(scene())
    return Tally(snapshot, decide(snapshot, CONFIG, NOW), NOW, sharing=Sharing(owners, (made,)))


def test_the_whole_has_the_shards_and_their_holders_are_for_some() -> None:
    home = SHARDS.owner_of("n1")
    shards = {view.shard: view for view in cluster_view(shared(), ALL).shards}
    assert {0: ("maar-0", 2, True), 1: ("maar-1", 5, True)} == {
        shard: (view.holder, view.epoch, view.wanted) for shard, view in shards.items()
    }
    assert 3 == sum(view.nodes for view in shards.values())
    assert (1, 0, 1) == (shards[home].lent, shards[home].borrowed, shards[home].wants)
    assert (0, 1, 0) == (shards[1 - home].lent, shards[1 - home].borrowed, shards[1 - home].wants)
    states = cluster_view(shared(), ALL).jobs
    waiting = sum(states[state] for state in ("waiting", "starting", "suspended", "invalid"))
    assert waiting == sum(view.waiting for view in shards.values()) > 0
    assert {None} == {view.holder for view in cluster_view(shared(), MINE).shards}
    assert () == cluster_view(tally(scene()), ALL).shards, "one Maar leads"


def test_jobs_and_nodes_name_their_shard_and_a_job_says_that_it_borrows() -> None:
    found = {f"{job.namespace}/{job.name}": job for job in job_views(shared(), MINE)}
    assert {1} == {job.shard for job in found.values() if job.queue == "red"}
    assert "its pods fit, and 1 of their nodes are being borrowed from other shards" in found["mine/waits"].why
    assert "Borrowing" == found["mine/waits"].condition
    assert "shards" not in found["mine/runs"].why
    asks = {job.name: job.why for job in job_views(shared(asks=True), MINE)}
    assert "its pods fit when 0 pods of other shards have left" in asks["waits"]
    for over in (shared(deadline=NOW), shared(uid="an earlier one")):
        assert not any("shards" in job.why for job in job_views(over, MINE))
    nodes = {view.name: view.shard for view in node_views(shared(), MINE)}
    assert 1 - SHARDS.owner_of("n1") == nodes["n1"]
    assert SHARDS.owner_of("n2") == nodes["n2"]
    assert {None} == {view.shard for view in node_views(tally(scene()), MINE)}
    assert {None} == {view.shard for view in jobs(MINE).values()}


def test_the_answer_about_a_job_says_that_it_borrows() -> None:
    of = shared()
    detail = job_detail(of, why(scene(), CONFIG, NOW, "mine/waits", lambda effort: False), MINE)
    assert ("shards", "Borrowing") == (detail.reasons[0].plugin, detail.reasons[0].code)


def test_a_gang_runs_with_its_roles_and_subgroups_only() -> None:
    seen = tally(
        cluster(
            node("n1", gpu=8),
            gang("roles", roles={"w": 2, "ps": 1}, minimum=2, role_min={"ps": 1}, on=["n1"] * 2),
            divided("parts", [2, 2], size=2, least=2, minimum=2, on=["n1"] * 3),
            gang("ignored", roles={"w": 2, "ps": 1}, minimum=2, role_min={"ps": 1, "w": 2}, on=["n1"] * 2),
        )
    )
    states = {job.key: seen.state(job.index) for job in seen.snapshot.jobs.jobs}
    assert {"ns/roles": State.WAITING, "ns/parts": State.WAITING, "ns/ignored": State.RUNNING} == states


@pytest.mark.parametrize(("kept", "expected"), [(1, State.WAITING), (2, State.STARTING)])
def test_a_job_starts_in_reserved_room_with_the_minimums_of_its_roles(kept: int, expected: State) -> None:
    """Its parameter server runs, and it lacks two workers: with room for one it has two pods, but not two workers."""
    made = gang("a", roles={"ps": 1, "w": 2}, on=["n1"], minimum=2, role_min={"w": 2}, uid="u")
    value = msgspec.to_builtins(Reserved(NOW + 50.0, (ReservedPlace("n1", kept, made.tasks[0].shape.requests),)))
    fact = Fact(OWNER, NAME, NOW, value, About.JOB, "ns/a", "u")
    scene = replace(cluster(node("n1", cpu=9), made), facts=(fact,))
    assert expected is Tally(Snapshot(scene), Plan(), NOW).state(0)
