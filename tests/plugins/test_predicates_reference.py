"""predicates compared with a plain implementation of Kubernetes' rules, on random small clusters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maar.config.config import Config, PluginOption, Registration
from maar.model.fitting import Mode
from maar.model.nodes import Node
from maar.model.selectors import PodSelector, PodTerm, Port, Requirement, Selector, Spread
from maar.model.shapes import Shape
from maar.model.snapshot import Snapshot
from maar.model.tasks import Status, Task
from maar.plugins import predicates
from maar.session.session import Session
from maar.testing.builders import cluster, node, shape

CONFIG = Config((), ((PluginOption(Registration(predicates.NAME, predicates.Predicates), predicates.Arguments()),),))
SELECTORS = tuple(PodSelector(Selector((Requirement("app", "In", (app,)),)), ("ns",)) for app in "xyz")
PORTS = (Port(80), Port(80, address="10.0.0.1"), Port(80, address="10.0.0.2"), Port(81))

selectors = st.sampled_from(SELECTORS)
keys = st.sampled_from(("zone", "rack", "kubernetes.io/hostname"))
terms = st.lists(st.builds(PodTerm, selectors, keys), max_size=2, unique=True).map(tuple)
spreads = st.builds(
    Spread,
    selectors,
    keys,
    st.integers(1, 2),
    st.just(True),
    min_domains=st.integers(1, 3),
    honor_affinity=st.booleans(),
)
shapes = st.builds(
    lambda **fields: shape(**fields),
    matches=st.lists(selectors, max_size=3, unique=True).map(lambda s: tuple(sorted(s))),
    affinity=terms,
    anti_affinity=terms,
    ports=st.lists(st.sampled_from(PORTS), max_size=2, unique=True).map(tuple),
    spread=st.lists(spreads, max_size=2).map(tuple),
    node_selector=st.sampled_from(((), (Requirement("zone", "In", ("a", "b")),))),
)
labels = st.fixed_dictionaries({}, optional={"zone": st.sampled_from("abc"), "rack": st.sampled_from("pq")})
nodes = st.lists(labels, min_size=1, max_size=5).map(
    lambda found: [node(f"n{i}", labels=one) for i, one in enumerate(found)]
)
placed = st.lists(st.tuples(shapes, st.integers(0, 4), st.booleans()), max_size=5)


@given(nodes, placed, shapes, st.booleans())
def test_safety_the_same_nodes_are_refused(
    machines: list[Node], pods: list[tuple[Shape, int, bool]], new: Shape, later: bool
) -> None:
    tasks = [
        Task(
            f"ns/p{i}", f"ns/p{i}", of, Status.RELEASING if leaves else Status.BOUND, machines[at % len(machines)].name
        )
        for i, (of, at, leaves) in enumerate(pods)
    ]
    session = Session(Snapshot(cluster(machines, tasks, Task("ns/new", "ns/new", new))), CONFIG, 0.0)
    session.open()
    number = session.snapshot.shapes.number[new]
    refused = [refusal.nodes for refusal in session.refusals(number)]
    limits = [limit.room for _, limit in session.capacity.limits(number, Mode.LATER if later else Mode.NOW)]
    actual = {
        name
        for row, name in enumerate(session.snapshot.nodes.names)
        if not any(r[row] for r in refused) and all(room[row] > 0 for room in limits)
    }
    world = World(machines, tasks, later)
    assert {n.name for n in machines if world.accepts(new, n)} == actual


class World:
    """The filters of Kubernetes, as its documentation describes them."""

    def __init__(self, machines: list[Node], tasks: list[Task], later: bool) -> None:
        self.nodes = machines
        by_name = {n.name: n for n in machines}
        self.everybody = [(t.shape, by_name[t.node]) for t in tasks if not later or t.status is Status.BOUND]
        self.staying = [(t.shape, by_name[t.node]) for t in tasks if t.status is Status.BOUND]

    def accepts(self, new: Shape, here: Node) -> bool:
        return (
            all(r.matches(here.labels) for r in new.node_selector)
            and self.ports_free(new, here)
            and self.affinity(new, here)
            and self.anti_affinity(new, here)
            and all(self.spread(new, constraint, here) for constraint in new.spread)
        )

    def ports_free(self, new: Shape, here: Node) -> bool:
        return not any(
            mine.conflicts(other)
            for of, where in self.everybody
            if where is here
            for other in of.ports
            for mine in new.ports
        )

    def affinity(self, new: Shape, here: Node) -> bool:
        if not new.affinity:
            return True
        if any(value(here, term.topology_key) is None for term in new.affinity):
            return False
        meant = [where for of, where in self.everybody if all(t.pods in of.matches for t in new.affinity)]
        found = {(t.topology_key, value(w, t.topology_key)) for w in meant for t in new.affinity}
        found = {(key, domain) for key, domain in found if domain is not None}
        if not found and all(t.pods in new.matches for t in new.affinity):
            return True
        return all((t.topology_key, value(here, t.topology_key)) in found for t in new.affinity)

    def anti_affinity(self, new: Shape, here: Node) -> bool:
        for of, where in self.everybody:
            repelled = [t.topology_key for t in new.anti_affinity if t.pods in of.matches]
            repelled += [t.topology_key for t in of.anti_affinity if t.pods in new.matches]
            if any(value(here, key) is not None and value(here, key) == value(where, key) for key in repelled):
                return False
        return True

    def spread(self, new: Shape, constraint: Spread, here: Node) -> bool:
        key = constraint.topology_key
        if value(here, key) is None:
            return False
        counted = [
            n
            for n in self.nodes
            if all(value(n, c.topology_key) is not None for c in new.spread)
            and (not constraint.honor_affinity or all(r.matches(n.labels) for r in new.node_selector))
        ]
        counts = {value(n, key): 0 for n in counted}
        for of, where in self.staying:
            if constraint.pods in of.matches and any(where is n for n in counted):
                counts[value(where, key)] += 1
        smallest = min(counts.values()) if len(counts) >= constraint.min_domains else 0
        after = counts.get(value(here, key), 0) + (constraint.pods in new.matches)
        return after - smallest <= constraint.max_skew


def value(at: Node, key: str) -> str | None:
    return at.labels.get(key, at.name if key == "kubernetes.io/hostname" else None)
