"""Counters: what limits how many pods fit besides resources is counted, and freed on purpose by evictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support import cards
from tests.support.confs import HELM_PREEMPT, HELM_RECLAIM, RESERVE
from tests.support.session_contents import contents

from maar.cli.reports.plan_json import plan_data
from maar.config.config import Config, PluginOption
from maar.config.file import default_config
from maar.decide import decide
from maar.model.jobs import Closeness
from maar.model.nodes import Node
from maar.model.outcome import carry_out
from maar.model.plan import Elect, Lock, Plan
from maar.model.queues import Queue
from maar.model.selectors import PodSelector, PodTerm, Port, Requirement, Selector, Spread
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status
from maar.model.volumes import LIMIT, VolumeNeed, VolumeRoom
from maar.registry import catalog
from maar.session.placement import Terms, groups_of, place_tasks
from maar.session.session import Session
from maar.testing.builders import Gang, Part, cluster, elastic, gang, node
from maar.testing.scenario import configured, scene

CONFIGS = {"default": default_config(catalog()), "helm": configured(HELM_PREEMPT)}
PREEMPTING = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
RECLAIMING = pytest.mark.parametrize("config", [CONFIGS["default"], configured(HELM_RECLAIM)], ids=["default", "helm"])


def evicted(plans: list[Plan]) -> list[str]:
    return sorted(e.task for plan in plans for e in plan.evict)


def bound(plans: list[Plan]) -> dict[str, str]:
    return {bind.task: bind.node for plan in plans for bind in plan.bind}


def codes(plan: Plan) -> set[str]:
    return {reason.code for wait in plan.waiting for reason in wait.reasons}


# -- volumes


def disks(count: int = 1) -> dict[str, Any]:
    return {"volume_needs": (VolumeNeed("disk", "disk", count),)}


def attached(parts: list[Any], **limits: int) -> Cluster:
    return cluster(*parts, rooms=(VolumeRoom("disk", LIMIT, "at their limit of disk", nodes=limits),))


def low(name: str, on: str, volumes: int = 0, **fields: Any) -> Gang:
    return gang(name, on=[on], constraints=disks(volumes) if volumes else None, **{"priority": 1, **fields})


def high(count: int = 1, volumes: int = 1, **fields: Any) -> Gang:
    return gang("high", count, constraints=disks(volumes), priority=9, **fields)


@PREEMPTING
def test_a_gang_gets_the_attach_limits_of_victims(config: Config) -> None:
    """Both nodes have CPU; each attaches one disk, and a pod of lower priority has it. The others stay."""
    nodes = [node("n1"), node("n2")]
    running = [low("a", "n1", 1), low("b", "n2", 1), low("c", "n1"), low("d", "n2")]
    plans = scene(attached([*nodes, *running, high(2)], n1=1, n2=1), config)
    assert ["ns/a-0", "ns/b-0"] == evicted(plans)
    assert {"ns/high-0": "n1", "ns/high-1": "n2"} == {t: n for t, n in bound(plans).items() if "high" in t}


@PREEMPTING
def test_amounts_count(config: Config) -> None:
    """Two disks are needed, and each victim has one: both go, and not the one that has none."""
    running = [low("a", "n1", 1), low("b", "n1", 1), low("c", "n1", 1), low("none", "n1")]
    plans = scene(attached([node("n1"), *running, high(volumes=2)], n1=3), config)
    assert 2 == len(evicted(plans))
    assert "ns/none-0" not in evicted(plans)
    assert "n1" == bound(plans)["ns/high-0"]


@PREEMPTING
def test_a_victim_with_the_resources_but_without_the_slot_is_not_evicted_in_vain(config: Config) -> None:
    """On n1 the cheapest victim has the CPU, and a pod that stays has the disk. On n2 the victim has both."""
    running = [
        low("cheap", "n1", cpu=4),
        low("stays", "n1", 1, task={"preemptable": False}),
        low("dear", "n2", 1, cpu=4, priority=5),
    ]
    nodes = [node("n1", cpu=5), node("n2", cpu=4)]
    plans = scene(attached([*nodes, *running, high(cpu=4)], n1=1, n2=1), config)
    assert ["ns/dear-0"] == evicted(plans)
    assert "n2" == bound(plans)["ns/high-0"]


@PREEMPTING
def test_nothing_is_evicted_if_no_victim_has_the_slot(config: Config) -> None:
    running = [low("cheap", "n1", cpu=4), low("stays", "n1", 1, task={"preemptable": False})]
    plans = scene(attached([node("n1", cpu=5), *running, high(cpu=4)], n1=1), config)
    assert [] == evicted(plans)
    assert "NotEnoughVictims" in codes(plans[0])


@PREEMPTING
def test_a_shared_volume_is_gone_when_all_its_pods_are(config: Config) -> None:
    """Two pods share the only disk of n1, of which one must stay: only n2 can be freed, by one eviction."""
    shared = {"volume_needs": (VolumeNeed("disk", "disk", 0, ("x",)),)}
    running = [
        gang("a", on=["n1"], constraints=shared, priority=1),
        gang("b", on=["n1"], constraints=shared, priority=1, task={"preemptable": False}),
        gang("c", on=["n2"], constraints=disks(1), priority=5),
    ]
    plans = scene(attached([node("n1"), node("n2"), *running, high()], n1=1, n2=1), config)
    assert ["ns/c-0"] == evicted(plans)
    assert "n2" == bound(plans)["ns/high-0"]


# -- claims for one pod

CLAIM = {"volume_needs": (VolumeNeed("claim", "claim", 1),)}


def contested(*parts: Any) -> Cluster:
    return cluster(*parts, rooms=(VolumeRoom("claim", "ReadWriteOncePod", "are closed to it", total=1),))


@PREEMPTING
def test_a_claim_for_one_pod_is_preempted_wherever_its_pod_runs(config: Config) -> None:
    """Both nodes have room, and the other pod of lower priority stays."""
    nodes, other = [node("n1"), node("n2")], low("other", "n1")
    holder, new = gang("holder", on=["n2"], priority=1, constraints=CLAIM), gang("high", priority=9, constraints=CLAIM)
    plans = scene(contested(nodes, other, holder, new), config)
    assert ["ns/holder-0"] == evicted(plans)
    assert ["ns/high-0"] == [task for task in bound(plans) if "high" in task]


@PREEMPTING
def test_a_claim_for_one_pod_is_not_taken_from_equal_priority(config: Config) -> None:
    holder, new = (gang(name, constraints=CLAIM, on=on) for name, on in (("holder", ["n1"]), ("new", [])))
    plans = scene(contested(node("n1"), holder, new), config)
    assert [] == evicted(plans)
    assert "ReadWriteOncePod" in codes(plans[0])


# -- topology spread

ZONE = "zone"
WEB = PodSelector(Selector((Requirement("app", "In", ("web",)),)), ("ns",))


def zoned(name: str, zone: str, **fields: Any) -> Node:
    return node(name, labels={ZONE: zone}, **fields)


def spread(skew: int = 1) -> dict[str, Any]:
    return {"matches": (WEB,), "spread": (Spread(WEB, ZONE, skew, hard=True),)}


@PREEMPTING
def test_a_spread_that_only_an_eviction_satisfies(config: Config) -> None:
    """Zone b is full of pods that stay. A third pod in zone a exceeds the skew, unless one of the two there goes."""
    nodes = [zoned("a1", "a"), zoned("b1", "b", cpu=1)]
    of = {"matches": (WEB,)}
    running = [
        gang("x", on=["a1"], constraints=of, priority=1),
        gang("y", on=["a1"], constraints=of, priority=2),
        gang("other", on=["a1"], priority=1),
        gang("z", on=["b1"], constraints=of, priority=1, task={"preemptable": False}),
    ]
    plans = scene(cluster(*nodes, *running, gang("high", constraints=spread(), priority=9)), config)
    assert ["ns/x-0"] == evicted(plans)
    assert "a1" == bound(plans)["ns/high-0"]


@PREEMPTING
def test_matching_pods_keep_out_of_the_domain_of_a_nominated_pod(config: Config) -> None:
    """While its room is being freed. Another pod there would break its spread, and more would have to leave."""
    nodes = [node("n1", gpu=1, labels={ZONE: "a"}), node("n2", cpu=1, labels={ZONE: "b"})]
    leaving = gang("leaving", on=["n1"], gpu=1, task={"status": Status.RELEASING})
    waits = gang("waits", gpu=1, constraints=spread(), task={"status": Status.NOMINATED, "node": "n1"}, created=2.0)
    other = gang("other", constraints={"matches": (WEB,)}, created=1.0)
    made = cluster(*nodes, leaving, waits, other, gang("full", on=["n2"]))
    plan = decide(Snapshot(made), config, 10.0)
    (why,) = next(wait.reasons for wait in plan.waiting if wait.job == "ns/other")
    assert ({}, 1) == (bound([plan]), why.nodes["PodTopologySpread"])
    assert {"ns/waits-0": "n1", "ns/other-0": "n1"} == bound(scene(made, config))


@PREEMPTING
def test_no_pod_goes_for_a_spread_that_it_does_not_satisfy(config: Config) -> None:
    """Both pods of the zone would have to go, and one stays."""
    nodes = [zoned("a1", "a"), zoned("b1", "b", cpu=1)]
    of = {"matches": (WEB,)}
    running = [
        gang("x", on=["a1"], constraints=of, priority=1),
        gang("y", on=["a1"], constraints=of, priority=1, task={"preemptable": False}),
        gang("z", on=["b1"], priority=1, task={"preemptable": False}),
    ]
    plans = scene(cluster(*nodes, *running, gang("high", constraints=spread(), priority=9)), config)
    assert [] == evicted(plans)


# -- reclaim: queue `a` has more than it deserves, `b` nothing

STUCK = gang("b9", 6, gpu=1, queue="b", constraints={"node_terms": ()})
"""A gang that no node takes: by its request, `b` deserves all that its weight gives it."""


def theirs(name: str, on: str, constraints: dict[str, Any] | None = None, **fields: Any) -> Gang:
    return gang(name, on=[on], queue="a", constraints=constraints, **{"gpu": 1, **fields})


def ours(constraints: dict[str, Any], **fields: Any) -> list[Any]:
    waits = gang("b1", queue="b", constraints=constraints, **{"gpu": 1, **fields})
    return [Queue("a"), Queue("b"), waits, STUCK]


@RECLAIMING
def test_a_gang_reclaims_an_attach_limit(config: Config) -> None:
    """The node has GPUs. Of six pods of queue `a`, only the one that has the disk goes."""
    running = [theirs(f"a{i}", "n1", disks() if i == 3 else None) for i in range(6)]
    plans = scene(attached([node("n1", gpu=8), *running, *ours(disks())], n1=1), config)
    assert (["ns/a3-0"], "n1") == (evicted(plans), bound(plans)["ns/b1-0"])


@RECLAIMING
def test_a_spread_that_only_a_reclaim_satisfies(config: Config) -> None:
    nodes = [zoned("a1", "a", gpu=8), zoned("b1", "b", cpu=1)]
    of = {"matches": (WEB,)}
    running = [theirs(f"a{i}", "a1", of if i in (2, 4) else None) for i in range(6)]
    stays = theirs("z", "b1", of, gpu=0, task={"preemptable": False})
    plans = scene(cluster(nodes, running, stays, ours(spread())), config)
    assert [1, {"ns/a2-0", "ns/a4-0"}] == [len(evicted(plans)), {*evicted(plans), "ns/a2-0", "ns/a4-0"}]
    assert "a1" == bound(plans)["ns/b1-0"]


@RECLAIMING
@pytest.mark.parametrize("elsewhere", [False, True])
def test_nothing_is_reclaimed_in_vain(config: Config, elsewhere: bool) -> None:
    """The victims on n1 have the GPUs, and a pod that stays has the disk. On n2 the victim has both."""
    running = [theirs(f"a{i}", "n1", gpu=2) for i in range(4)]
    stays = theirs("stays", "n1", disks(), gpu=0, task={"preemptable": False})
    nodes = [node("n1", gpu=8), *([node("n2", gpu=2)] if elsewhere else [])]
    both = [theirs("both", "n2", disks(), gpu=2, priority=5)] if elsewhere else []
    plans = scene(attached([*nodes, *running, stays, *both, *ours(disks(), gpu=2)], n1=1, n2=1), config)
    assert (["ns/both-0"] if elsewhere else []) == evicted(plans)
    assert ("n2" if elsewhere else None) == bound(plans).get("ns/b1-0")


# -- nodes that are locked for the elected job


@pytest.mark.parametrize(("limits", "expected"), [({"n1": 0, "n2": 1}, {"n2"}), ({"n1": 0, "n2": 0}, set())])
def test_only_nodes_whose_counters_take_the_elected_job_are_locked(limits: dict[str, int], expected: set[str]) -> None:
    """By their GPUs n1 would do, and is idler. Where no node ever attaches its disk, the job is not elected."""
    running = [gang("x", on=["n1"], gpu=1), gang("y", on=["n2"], gpu=4)]
    made = attached([node("n1", gpu=8), node("n2", gpu=8), *running, high(gpu=8)], **limits)
    plan = decide(Snapshot(made), configured(RESERVE), 10.0)
    assert expected == {lock.node for lock in plan.locks}


def test_a_short_job_may_use_locked_nodes_until_the_disk_of_the_elected_job_is_free() -> None:
    """A GPU is free soon, the disk much later: a job that ends between the two does not delay the elected one."""
    running = [
        gang("soon", on=["n1"], gpu=7, task={"promise": 100.0, "started": 0.0}),
        gang("disk", on=["n1"], constraints=disks(), task={"promise": 1000.0, "started": 0.0}),
    ]
    locks = [Elect("ns/high", 0.0), Lock("n1", "ns/high", 0.0)]
    short = gang("short", gpu=1, promise=500.0, created=9.0)
    made = attached([node("n1", gpu=8), *running, high(gpu=8), short, *locks], n1=1)
    plan = decide(Snapshot(made), configured(RESERVE), 10.0)
    assert {"ns/short-0": "n1"} == bound([plan])


# -- the first pod of a gang decides its domain


def test_the_domains_of_a_first_pod_are_looked_for_where_it_may_be() -> None:
    """40 larger hosts are closed to the job: the one that is open is tried all the same."""
    host = "kubernetes.io/hostname"
    near = {"matches": (WEB,), "affinity": (PodTerm(WEB, host),)}
    nodes = [node(f"n{i:02}", cpu=2 if i == 40 else 9, labels={host: f"n{i:02}"}) for i in range(41)]
    session = Session(Snapshot(cluster(nodes, gang("pair", 2, constraints=near))), CONFIGS["default"], 0.0)
    session.open()
    (job,) = session.snapshot.jobs.jobs
    (group,) = groups_of(session, job)
    assert 2 == place_tasks(session, job, group, 2, Terms(within=np.arange(41) == 40))


# -- a counter of one's own


def sharing(**of: int) -> Config:
    """The default configuration with the counter of cards. `of`: the cards of running pods."""
    arguments = cards.Arguments({f"ns/{name}-0": card for name, card in of.items()})
    base = CONFIGS["default"]
    return replace(base, tiers=(*base.tiers, (PluginOption(cards.cards, arguments),)))


def halves(name: str, count: int, pods: int = 1, **fields: Any) -> Gang:
    return gang(name, pods, constraints={"resources": {cards.HALVES: count}}, **fields)


def with_halves(name: str, count: int) -> Node:
    amounts: dict[str, Any] = {cards.HALVES: count}
    return node(name, **amounts)


def with_cards(name: str, count: int) -> Node:
    return with_halves(name, 2 * count)


def test_half_a_card_on_each_of_two_cards_is_not_one_card() -> None:
    running = [halves("a", 1, on=["n1"], priority=9), halves("b", 1, on=["n1"], priority=9)]
    parts: tuple[Part, ...] = (with_cards("n1", 2), *running, halves("whole", 2))
    apart = scene(cluster(*parts), sharing(a=0, b=1))
    assert {} == bound(apart)
    reasons = [r for wait in apart[0].waiting for r in wait.reasons]
    assert ["0/1 nodes fit: 1 have no card with enough of it free"] == [r.message for r in reasons]
    assert "NoCard" in reasons[0].nodes
    assert {"ns/whole-0": "n1"} == bound(scene(cluster(*parts), sharing(a=0, b=0)))


def test_evictions_free_a_card_and_not_two_halves() -> None:
    """The sums would be enough with either pod gone, or without any eviction; only the whole card helps."""
    running = [
        halves("a", 1, on=["n1"], priority=1),
        halves("b", 1, on=["n1"], priority=9),
        halves("c", 1, on=["n1"], priority=3),
        halves("d", 1, on=["n1"], priority=4),
    ]
    parts: tuple[Part, ...] = (with_cards("n1", 3), *running, halves("whole", 2, priority=9))
    plans = scene(cluster(*parts), sharing(a=0, b=0, c=1, d=2))
    assert ["ns/c-0"] == evicted(plans), "a is cheaper, but b stays on its card"
    assert "n1" == bound(plans)["ns/whole-0"]


def test_the_choice_travels_in_the_bind() -> None:
    parts: tuple[Part, ...] = (with_cards("n1", 2), halves("a", 1, on=["n1"]), halves("whole", 2), gang("plain"))
    binds = {bind.task: bind.chosen for bind in scene(cluster(*parts), sharing(a=0))[0].bind}
    assert {"ns/whole-0": (("cards", "1"),), "ns/plain-0": ()} == binds


def test_the_next_cycle_knows_the_choice() -> None:
    """The second gang comes when the first runs, and gets the other card."""
    nodes, first, second = with_cards("n1", 2), halves("a", 2), halves("b", 2)
    one, two = cluster(nodes, first), cluster(nodes, first, second)
    plan = decide(Snapshot(one), sharing(), 10.0)
    after = carry_out(one, plan, 10.0)
    then = decide(Snapshot(replace(two, tasks=(*after.tasks, *two.tasks[1:]))), sharing(), 20.0)
    assert [(("cards", "0"),), (("cards", "1"),)] == [bind.chosen for bind in (*plan.bind, *then.bind)]


def test_a_plan_as_json_has_the_choice() -> None:
    (plan, *_) = scene(cluster(with_cards("n1", 2), halves("whole", 2), gang("plain")), sharing())
    data = plan_data(plan)
    assert ({"ns/plain-0": "n1", "ns/whole-0": "n1"}, {"ns/whole-0": {"cards": "0"}}) == (data["bind"], data["chosen"])
    assert "chosen" not in plan_data(replace(plan, bind=()))


def test_a_statement_undoes_what_a_counter_took() -> None:
    snapshot = Snapshot(cluster(with_cards("n1", 2), halves("a", 1, on=["n1"]), halves("whole", 2)))
    session = Session(snapshot, sharing(a=0), 0.0)
    session.open()
    counter = next(c for plugin, c in session.hooks.counters if plugin == "cards")
    assert isinstance(counter, cards.Cards)
    before, taken = contents(session), counter.taken.tolist()
    task = snapshot.tasks.number["ns/whole-0"]
    with session.statement():
        shape = int(snapshot.tasks.shape[task])
        session.state.nominate(1, shape, np.array([task]), np.array([0]), np.array([1]))
        session.state.evict(snapshot.tasks.number["ns/a-0"])
        assert taken != counter.taken.tolist()
        assert 1 == counter.leaving.sum()
        session.state.withdraw(task)
        assert (taken, {0: 0}) == (counter.taken.tolist(), counter.card)
    assert (before, taken, 0) == (contents(session), counter.taken.tolist(), counter.leaving.sum())


# -- empty nodes: what can never start, and how large elastic jobs can be


def never(made: Cluster, config: Config) -> list[tuple[str, str]]:
    """The proofs that the only job that waits can never start."""
    reasons = [reason for wait in decide(Snapshot(made), config, 10.0).waiting for reason in wait.reasons]
    return [(reason.never.code, reason.never.message) for reason in reasons if reason.never is not None]


TOGETHER = (
    "LargerThanCluster",
    "never on today's nodes: needs 3 pods together, all nodes hold 2 if nothing else runs: "
    "add nodes, or lower its minimum",
)
NODES = [node("n1", cpu=9), node("n2", cpu=9)]


@pytest.mark.parametrize(
    "constraints",
    [
        disks(),
        {"ports": (Port(80),)},
        {"matches": (WEB,), "anti_affinity": (PodTerm(WEB, "kubernetes.io/hostname"),)},
    ],
    ids=["attach limit", "host port", "anti-affinity"],
)
def test_a_gang_of_which_each_node_takes_one_pod_never_starts_on_fewer_nodes(constraints: dict[str, Any]) -> None:
    labelled = [replace(n, labels={"kubernetes.io/hostname": n.name}) for n in NODES]
    busy = gang("busy", on=["n1"], constraints=constraints)
    for count, expected in ((2, []), (3, [TOGETHER])):
        waits = gang("waits", count, constraints=constraints)
        assert expected == never(attached([*labelled, busy, waits], n1=1, n2=1), CONFIGS["default"])


def test_a_pod_with_more_volumes_than_any_node_attaches_never_starts() -> None:
    made = attached([*NODES, node("n3", unschedulable=True), high(volumes=2)], n1=1, n2=1, n3=1)
    words = "none of them takes 1 pod if nothing else runs: 3 at their limit of disk"
    expected = f"never on today's nodes: {words}: add larger nodes, or ask for less per pod"
    assert [("LargerThanAnyNode", expected)] == never(made, CONFIGS["default"])


def test_free_volumes_come_and_go() -> None:
    room = VolumeRoom("disk", "NoFreeVolume", "have no free volume", others=0, total=0)
    made = cluster(*NODES, high(volumes=2), rooms=(room,))
    assert [] == never(made, CONFIGS["default"])
    assert {"NoFreeVolume"} == codes(decide(Snapshot(made), CONFIGS["default"], 10.0))


def test_a_gang_that_waits_for_cards_that_no_node_has_never_starts() -> None:
    """5 halves are two cards, and a pod of 3 halves would need more than one card: by the sums, all would fit."""
    nodes = [with_halves("n1", 5), with_halves("n2", 5)]
    ((code, message),) = never(cluster(nodes, halves("waits", 1, 9)), sharing())
    assert ("LargerThanCluster", "needs 9 pods together, all nodes hold 8" in message) == (code, True)
    (proof,) = never(cluster(nodes, halves("waits", 3)), sharing())
    assert "none of them takes 1 pod if nothing else runs: 2 have no card with enough of it free" in proof[1]


def test_a_domain_holds_what_its_counters_take() -> None:
    """Rack a has CPU for the gang, and attaches one disk: the gang is only offered rack b."""
    nodes = [node("n1", cpu=9, labels={"rack": "a"}), node("n2", cpu=4, labels={"rack": "b"})]
    made = attached([*nodes, high(2, closeness=Closeness(key="rack"))], n1=1, n2=2)
    assert {"ns/high-0": "n2", "ns/high-1": "n2"} == bound(scene(made, CONFIGS["default"]))
    none = attached([*nodes, high(3, closeness=Closeness(key="rack"))], n1=2, n2=2)
    ((code, message),) = never(none, CONFIGS["default"])
    assert "LargerThanAnyDomain" == code
    assert "the largest holds 2 if nothing else runs" in message


def elastic_halves(name: str, low: int, high: int) -> Gang:
    return elastic(name, low, high, gpu=0, constraints={"resources": {cards.HALVES: 1}})


def test_an_elastic_job_is_planned_with_no_more_workers_than_cards_take() -> None:
    """5 halves are two cards: by the sums, the algorithm would give it 10 workers, of which 2 find no card."""
    made = cluster(with_halves("n1", 5), with_halves("n2", 5), elastic_halves("grows", 1, 10))
    (target,) = decide(Snapshot(made), sharing(), 10.0).targets
    assert (8, 8) == (target.size, target.planned)


def test_the_pool_of_an_elastic_job_says_that_it_has_too_few_cards() -> None:
    made = cluster(with_halves("n1", 5), with_halves("n2", 5), elastic_halves("grows", 9, 10))
    ((code, message),) = never(made, sharing())
    assert "LargerThanPool" == code
    assert "needs at least 9 workers, its nodes hold 8 if nothing else runs" in message


def test_a_gang_that_the_counters_never_take_stops_no_growth() -> None:
    """The gang comes first, and its CPU would fit: without the attach limit, the elastic job would wait for it."""
    waits = high(3, cpu=3)
    parts: list[Any] = [*NODES, waits, elastic("grows", 1, 4, gpu=0)]
    plan = decide(Snapshot(attached(parts, n1=1, n2=1)), CONFIGS["default"], 10.0)
    assert ["ns/grows"] == [resume.job for resume in plan.resume]
