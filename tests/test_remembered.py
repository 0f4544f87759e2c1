"""A plugin of one's own that remembers: one file outside of Maar, live, simulated and forecast."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.live import Live, bound, scheduling, tell
from tests.support.memory import facts
from tests.support.packages import install

from maar.config.config import Config
from maar.config.file import read_config
from maar.controller.settings.settings import Settings
from maar.decide import decide
from maar.embedded.server import EmbeddedServer
from maar.forecast.rollout import Rollout
from maar.forecast.start import begin, settled
from maar.kube.kinds import volcano_podgroup
from maar.kube.read.facts import MOST_ON_AN_OBJECT
from maar.kube.wire.annotations import FACTS
from maar.kube.wire.api_resources import NODES, PODS, QUEUES
from maar.model.facts import About, Fact
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.sim.virtual import Virtual
from maar.testing.builders import cluster, gang, node

SEEN = """
    import msgspec
    from maar.config.config import Registration
    from maar.model.facts import About
    from maar.model.tasks import Status
    from maar.session.memory import Remember

    class Seen(msgspec.Struct, frozen=True):
        names: tuple[str, ...] = ()

        def __or__(self, other):
            return Seen(tuple(sorted({*self.names, *other.names})))

    EVER = [Remember(f"on-{about}", about, Seen, Seen.__or__) for about in About]

    class Historian:
        '''Remembers which jobs ever ran: in the cluster, a queue and a node, and where each job ran.'''

        def __init__(self, arguments): ...

        def open(self, session, on):
            tasks, names = session.snapshot.tasks, session.snapshot.nodes.names
            ever = {what.about: on.remember(what) for what in EVER}
            for task in (tasks.status == int(Status.BOUND)).nonzero()[0].tolist():
                job, place = session.job(int(tasks.job[task])), names[tasks.node[task]]
                for about, key, name in (
                    (About.CLUSTER, "", job.key),
                    (About.QUEUE, session.queue_of(job).name, job.key),
                    (About.NODE, place, job.key),
                    (About.JOB, job.key, place),
                ):
                    ever[about].set((ever[about].get(key) or Seen()) | Seen((name,)), key)

    HISTORIAN = Registration("historian", Historian)
"""
HOARD = """
    import msgspec
    from maar.config.config import Registration
    from maar.model.facts import About
    from maar.session.memory import Remember

    class Much(msgspec.Struct, frozen=True):
        text: str

    PLACES = {About.NODE: "n0", About.QUEUE: "default"}
    ALL = [Remember(f"{number}-of-{about}", about, Much, max) for about in PLACES for number in range(4)]

    class Hoarder:
        def __init__(self, arguments): ...

        def open(self, session, on):
            for what in ALL:
                on.remember(what).set(Much("x" * 1500), PLACES[what.about])

    HOARDER = Registration("hoarder", Hoarder)
"""
CONFIG = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: historian}]}]\n"
SLEEPY = Settings(resync=3600.0, discover_again=3600.0)


@pytest.fixture
def historian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """A configuration with the plugin, which is installed."""
    install(tmp_path / "site", "acme_history", SEEN, {"historian": "HISTORIAN"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    catalog.cache_clear()
    yield read_config(CONFIG, "scene", catalog()).config
    catalog.cache_clear()
    sys.modules.pop("acme_history", None)


def known(of: Any) -> dict[tuple[str, str], list[str]]:
    """What is known of each object."""
    return {(fact.about.value, fact.key): list(fact.value["names"]) for fact in of.facts}


EXPECTED = {
    ("cluster", ""): ["ns/a"],
    ("job", "ns/a"): ["n1"],
    ("node", "n1"): ["ns/a"],
    ("queue", "default"): ["ns/a"],
}


def test_it_is_remembered_in_the_simulator_and_in_a_forecast(historian: Config) -> None:
    world = cluster(node("n1", gpu=1), gang("a", gpu=1, uid="uid-a"), gang("b", gpu=1, uid="uid-b"))
    virtual = Virtual.of(world)
    for now in (1.0, 2.0):
        virtual.carry_out(decide(virtual.snapshot(), historian, now), now)
    assert EXPECTED == known(virtual.cluster())
    virtual.remove("ns/a")
    for now in (3.0, 4.0):
        virtual.carry_out(decide(virtual.snapshot(), historian, now), now)
    both = {("cluster", ""): ["ns/a", "ns/b"], ("job", "ns/b"): ["n1"]}
    both |= {("node", "n1"): ["ns/a", "ns/b"], ("queue", "default"): ["ns/a", "ns/b"]}
    assert both == known(virtual.cluster()), "of a job that is gone nothing is known"

    begun = settled(virtual.cluster(), 5.0)
    begins = {job.key: begin(job, tuple(t for t in begun.tasks if t.job == job.key), 5.0) for job in begun.jobs}
    rolled = Rollout(begun, historian, 5.0, begins, {}).prelude().cluster
    assert both == known(rolled)


def test_what_two_writers_left_is_merged_and_foreign_fields_are_ignored(historian: Config) -> None:
    world = cluster(node("n1", gpu=1), gang("a", gpu=1, uid="uid-a"))

    def fact(at: float, uid: str = "", about: About = About.CLUSTER, key: str = "", **value: Any) -> Fact:
        return Fact("historian", f"on-{about}", at, value, about, key, uid)

    left = (
        fact(1.0, names=["ns/x"], unknown=3),
        fact(2.0, names=["ns/y"]),
        fact(3.0, names=7),
        fact(1.0, "uid-a", About.JOB, "ns/a", names=["n9"]),
        fact(1.0, "uid-of-an-older-one", About.JOB, "ns/a", names=["n8"]),
        fact(1.0, "", About.NODE, "n7", names=["ns/x"]),
        Fact("unknown", "x", 1.0, {"a": 1}),
    )
    plan = decide(Snapshot(msgspec.structs.replace(world, facts=left)), historian, 5.0)
    assert {("cluster", ""): ["ns/x", "ns/y"], ("job", "ns/a"): ["n9"]} == known(plan)
    assert [2.0, 1.0] == [f.at for f in plan.facts], "what has not changed is not written again"


def test_it_survives_a_restart(historian: Config, box: EmbeddedServer, tmp_path: Path) -> None:
    file = tmp_path / "maar.yaml"
    file.write_text(CONFIG)

    async def names(live: Live) -> dict[tuple[str, str], list[str]]:
        found = {(f.get("about", "cluster"), f.get("key", "")): f["value"]["names"] for f in await facts(live)}
        for about, path in (("node", NODES.path(name="n0")), ("queue", QUEUES.path(name="default"))):
            for fact in msgspec.json.decode((await live.get(path))["metadata"].get("annotations", {}).get(FACTS, "[]")):
                found[about, path.rpartition("/")[2]] = fact["value"]["names"]
        return found

    def expected(*jobs: str) -> dict[tuple[str, str], list[str]]:
        ever = [f"default/{job}" for job in jobs]
        about_all = {("cluster", ""): ever, ("node", "n0"): ever, ("queue", "default"): ever}
        return {**about_all, ("job", f"default/{jobs[-1]}"): ["n0"]}

    async def story(live: Live) -> None:
        async def is_known(*jobs: str) -> None:
            async def there() -> bool:
                return await names(live) == expected(*jobs)

            await live.eventually(there, f"{jobs} are remembered")

        async with scheduling(live, SLEEPY, file) as scheduler:
            await live.gang("a", 1, gpu=8)
            await live.until(bound("a", 1), "the first job runs")
            await is_known("a")
            await live.eventually(lambda: scheduler.outbox.memory.due() is None, "everything is written")
        await live.api.delete(PODS.path("default", "a-0"))
        await live.api.delete(volcano_podgroup.KIND.resource.path("default", "a"))
        async with scheduling(live, SLEEPY, file):
            await live.gang("b", 1, gpu=8)
            await live.until(bound("b", 1), "the second job runs")
            await is_known("a", "b")

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=1)


def test_a_queue_and_a_node_have_4_kb_of_facts_and_a_warning_tells_of_the_others(
    box: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(tmp_path / "site", "acme_hoard", HOARD, {"hoarder": "HOARDER"})
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    catalog.cache_clear()
    file = tmp_path / "maar.yaml"
    file.write_text(CONFIG.replace("historian", "hoarder"))

    async def story(live: Live) -> None:
        async def written() -> bool:
            found = [await live.get(path) for path in (NODES.path(name="n0"), QUEUES.path(name="default"))]
            texts = [thing["metadata"].get("annotations", {}).get(FACTS, "") for thing in found]
            return all(2 * 1500 < len(text) <= MOST_ON_AN_OBJECT for text in texts)

        async with scheduling(live, SLEEPY, file):
            await live.eventually(written, "two of four facts are written")

    tell(box.kubeconfig(tmp_path / "kubeconfig"), story, nodes=1)
    catalog.cache_clear()
    sys.modules.pop("acme_hoard", None)
    assert {
        f"too much to remember in {where}: 2 facts are forgotten with the next restart"
        for where in ("node `n0`", "queue `default`")
    } == {record.message for record in caplog.records if record.name == "maar.memory"}
