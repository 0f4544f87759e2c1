"""Elastic jobs on the embedded server with the simulated operator, in separate scenes; tests/real/test_elastic.py plays
them on real operators in one story. A witness sees every write and checks all of them at the end.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.elastic_story import CONFIG, Play, playing
from tests.support.elastic_witness import GPU, MPI, PYTORCH
from tests.support.live import NAMESPACE, OUR_CRDS, bound, connected, scheduling
from tests.support.memory import state
from tests.support.patience import PATIENCE

from maar.controller.scheduler import Scheduler
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import volcano_podgroup
from maar.kube.wire.api_resources import NODES

Scene = Callable[[Play], Awaitable[None]]
WITHOUT_HOLD: dict[str, Any] = {"metadata": {"annotations": {"maar.dev/hold": None}}}


@pytest.fixture
def operator_delay() -> float:
    """Seconds that the operator takes by default."""
    return 0.0


@pytest.fixture
def server(operator_delay: float) -> Iterator[EmbeddedServer]:
    """A cluster with an operator, in which pods start and stop quickly."""
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), TrainingOperator(operator_delay)])
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kubeconfig(server: EmbeddedServer, tmp_path: Path) -> Path:
    return server.kubeconfig(tmp_path / "kubeconfig")


def tell(kubeconfig: Path, scene: Scene, *, nodes: int = 2, config: str = CONFIG, **more: Any) -> None:
    """Play a scene on a cluster, with Maar running from the start."""

    async def started(play: Play) -> None:
        async with at_work(play, kubeconfig, config, **more):
            await scene(play)

    tell_alone(kubeconfig, started, nodes=nodes)


def tell_alone(kubeconfig: Path, scene: Scene, *, nodes: int = 2) -> None:
    """Play a scene that starts its schedulers itself."""

    async def main() -> None:
        async with connected(kubeconfig) as live:
            await live.crds(OUR_CRDS)
            async with playing(live, patience=PATIENCE) as play:
                await play.add_nodes(nodes)
                await scene(play)

    asyncio.run(main())


@asynccontextmanager
async def at_work(play: Play, kubeconfig: Path, config: str = CONFIG, **more: Any) -> AsyncIterator[Scheduler]:
    file = kubeconfig.parent / "maar.yaml"
    file.write_text(config)
    async with scheduling(play.live, config=file, **more) as scheduler:
        yield scheduler


async def job(play: Play, name: str) -> dict[str, Any]:
    return await play.live.get(PYTORCH.path(NAMESPACE, name))


async def notes(play: Play, name: str) -> dict[str, str]:
    found: dict[str, str] = (await job(play, name))["metadata"]["annotations"]
    return found


def test_jobs_arrive_share_and_end(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 12)
        assert {"a": 12} == await play.settles("one job takes what it can use")
        await play.mpi("b", 2, 8)
        assert {"a": 8, "b": 8} == await play.settles("it shrinks for a newcomer")
        await play.pytorch("c", 4, 6)
        assert {"a": 5, "b": 5, "c": 6} == await play.settles("and again")
        await play.finish("a")
        assert {"b": 8, "c": 6} == await play.settles("one has ended")
        await play.delete("b")
        assert {"c": 6} == await play.settles("one was deleted")

    tell(kubeconfig, scene)


def test_a_job_is_suspended_for_a_more_important_one_and_comes_back(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 4, 8)
        await play.pytorch("b", 6, 6, priority=5)
        assert {"a": 0, "b": 6} == await play.settles("only the important one runs")
        await play.finish("b")
        assert {"a": 8} == await play.settles("the other one comes back")

    tell(kubeconfig, scene, nodes=1)


def test_a_change_of_priority_changes_who_runs(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 4, 8)
        await play.settles("the first one runs")
        await play.mpi("b", 6, 6)
        assert {"a": 8, "b": 0} == await play.settles("the second one waits")
        await play.prefer("b", 5)
        assert {"a": 0, "b": 6} == await play.settles("it became important")
        await play.prefer("a", 5)
        assert {"a": 8, "b": 0} == await play.settles("so did the first one")

    tell(kubeconfig, scene, nodes=1)


@pytest.mark.parametrize("operator_delay", [0.3])
def test_what_was_decided_stays_decided_while_the_operator_takes_its_time(kubeconfig: Path) -> None:
    """No job is stopped and started again because the room for it is not free yet."""

    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 12)
        await play.mpi("b", 2, 8)
        await play.pytorch("c", 4, 4)
        assert {"a": 6, "b": 6, "c": 4} == await play.settles("three share")
        await play.pytorch("d", 10, 10)
        assert 0 == (await play.settles("the fourth one waits"))["d"]
        before = play.witness.history()
        await play.prefer("d", 5)
        await play.live.eventually(lambda: play.witness.sizes()["d"], "d is started")
        await play.live.pod("other")  # an event while pods are still being deleted
        await play.live.until(lambda pods: any(p.name == "other" and p.node for p in pods), "the pod is bound")
        assert {"a": 3, "b": 3, "c": 0, "d": 10} == await play.settles("it became important")
        after = play.witness.history()
        assert {"a": [3], "b": [3], "c": [0], "d": [10]} == {job: after[job][len(before[job]) :] for job in after}
        await play.gang("rigid", 2, 1, priority=5)
        await play.live.until(bound("rigid", 2), "the gang has its room")
        assert {"a": 2, "b": 2, "c": 0, "d": 10} == await play.settles("the others have the rest")
        assert [] == play.witness.evicted()

    tell(kubeconfig, scene)


def test_nodes_come_and_go(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 12)
        await play.pytorch("b", 3, 16)
        assert {"a": 4, "b": 4} == await play.settles("one node")
        await play.add_nodes(2)
        assert {"a": 12, "b": 12} == await play.settles("three nodes")
        await play.remove_node()
        assert {"a": 8, "b": 8} == await play.settles("two nodes")

    tell(kubeconfig, scene, nodes=1)


def test_what_nodes_offer_is_read_whenever_it_changes(kubeconfig: Path) -> None:
    """Voda read it once, and missed cordons and device plugins that started after their node."""

    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 40)
        assert {"a": 8} == await play.settles("one node")
        await play.live.nodes(1, gpu=0, first=1)
        await play.pytorch("b", 2, 4)
        assert {"a": 4, "b": 4} == await play.settles("a second one, whose device plugin is late")
        await play.live.node_status("n1", allocatable={GPU: "6"}, capacity={GPU: "6"})
        await play.becomes({"a": 10, "b": 4}, "its GPUs are there now")
        await play.live.node_status("n1", allocatable={GPU: "4"})
        await play.becomes({"a": 8, "b": 4}, "two of them are out of order")
        await play.live.api.patch(NODES.path(None, "n1"), {"spec": {"unschedulable": True}})
        await play.becomes({"a": 4, "b": 4}, "it is cordoned")
        await play.live.api.patch(NODES.path(None, "n1"), {"spec": {"unschedulable": None}})
        await play.becomes({"a": 8, "b": 4}, "and open again")

    tell(kubeconfig, scene, nodes=1)


def test_a_temporary_failure_is_no_end_and_a_final_one_is(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 8)
        await play.pytorch("b", 2, 8, restart="Never")
        assert {"a": 4, "b": 4} == await play.settles("both run")
        await play.stumble("a")
        assert {"a": 4, "b": 4} == await play.settles("a worker was created again")
        await play.finish("b", "Failed")
        assert {"a": 8} == await play.settles("the other one failed for good: its room is free")

    tell(kubeconfig, scene, nodes=1)


def test_a_restart_in_the_middle_changes_nothing(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        async with at_work(play, kubeconfig):
            await play.pytorch("a", 2, 12)
            await play.mpi("b", 2, 8)
            await play.pytorch("c", 6, 6)
            before = await play.settles("all is settled")
            written = play.witness.resizes()
            past = (await notes(play, "a"))["maar.dev/elastic"]
        async with at_work(play, kubeconfig) as scheduler:
            await play.live.eventually(lambda: scheduler.loop.cycles, "the new scheduler has decided")
            await play.live.eventually(lambda: not scheduler.executor.pending, "and has written everything")
            assert before == play.witness.sizes()
            assert written == play.witness.resizes(), "nothing moved"
            assert past == (await notes(play, "a"))["maar.dev/elastic"], "the recorded past is unchanged"
            # It knows which job waited: that job gets the next free room.
            await play.delete("a")
            await play.settles("it continues")

    tell_alone(kubeconfig, scene)


SLOW = CONFIG.replace("rate-limit: 0", "rate-limit: 1h")


def test_a_restart_does_not_end_the_rate_limit_of_a_pool(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        async with at_work(play, kubeconfig, SLOW):
            await play.pytorch("a", 2, 2)
            assert {"a": 2} == await play.settles("the first one starts at once")
        before = (await state(play.live))["resized"]
        await play.pytorch("b", 2, 2)
        async with at_work(play, kubeconfig, SLOW):
            await play.live.eventually(lambda: waits(play, "b"), "the second one is told when sizes change again")
            assert before == (await state(play.live))["resized"]
            assert 0 == play.witness.sizes().get("b", 0)

    tell_alone(kubeconfig, scene)


async def waits(play: Play, name: str) -> bool:
    annotations = (await job(play, name))["metadata"].get("annotations", {})
    return "change at most every 3600 s" in annotations.get("maar.dev/why", "")


def test_what_an_owner_writes_on_her_job_does_not_stop_the_pool(kubeconfig: Path) -> None:
    """She renews `last_resize` before every start of Maar and while it runs; others start and grow."""
    forged = {"metadata": {"annotations": {"maar.dev/elastic": f'{{"last_resize": {time.time()}, "requested": 2}}'}}}

    async def scene(play: Play) -> None:
        await play.pytorch("forged", 2, 2)
        await play.live.api.patch(PYTORCH.path(NAMESPACE, "forged"), forged)
        await play.pytorch("a", 2, 6)
        async with at_work(play, kubeconfig, SLOW):
            assert {"forged": 2, "a": 6} == await play.settles("both start at once")

    tell_alone(kubeconfig, scene)


def test_jobs_that_were_created_while_no_maar_ran_are_started(kubeconfig: Path) -> None:
    """Voda used the keys of its old plan: after a restart, waiting jobs that were given GPUs never started."""

    async def scene(play: Play) -> None:
        async with at_work(play, kubeconfig):
            await play.pytorch("a", 8, 8)
            await play.pytorch("b", 10, 10)
            assert {"a": 8, "b": 0} == await play.settles("one runs, one waits")
        await play.delete("a")
        await play.pytorch("c", 2, 8)
        async with at_work(play, kubeconfig):
            assert {"b": 10, "c": 6} == await play.settles("who waited and who came run")

    tell_alone(kubeconfig, scene)


def test_events_during_a_lost_connection_are_not_lost(server: EmbeddedServer, kubeconfig: Path) -> None:
    """Voda received jobs from a message broker, and lost them when it restarted. Here they are in the API server."""

    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 12)
        await play.settles("one job takes what it can use")
        server.faults.cut_watches_every = 0.05
        server.faults.watch_lag = 0.1
        await play.mpi("b", 2, 8)
        await play.pytorch("c", 2, 8)
        await play.delete("a")
        server.faults.clear()
        assert {"b": 8, "c": 8} == await play.settles("created jobs run, deleted jobs are gone")

    tell(kubeconfig, scene)


def test_a_mistyped_algorithm_is_refused_and_no_job_is_halted(kubeconfig: Path) -> None:
    """In Voda it became a failed allocation, and so a plan in which no job runs."""

    async def scene(play: Play) -> None:
        async with at_work(play, kubeconfig) as scheduler:
            await play.pytorch("a", 2, 12)
            before = await play.settles("one job takes what it can use")
            written = play.witness.resizes()
            (kubeconfig.parent / "maar.yaml").write_text(CONFIG.replace("elastic-fifo", "elastic-fivo"))
            await play.live.eventually(lambda: scheduler.config.problems, "the typo is refused")
            assert ["did you mean `elastic-fifo`" in p for p in scheduler.config.problems] == [True]
            cycles = scheduler.loop.cycles
            scheduler.look_again()
            await play.live.eventually(lambda: scheduler.loop.cycles > cycles, "it decides again")
            assert (before, written) == (play.witness.sizes(), play.witness.resizes())
            await play.pytorch("b", 2, 12)
            assert {"a": 8, "b": 8} == await play.settles("by the rules before")

    tell_alone(kubeconfig, scene)


def test_a_rigid_gang_takes_its_room_from_elastic_jobs_and_nothing_is_evicted(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 12)
        await play.mpi("b", 2, 8)
        assert {"a": 8, "b": 8} == await play.settles("elastic jobs have everything")
        await play.gang("rigid", 3, 2, priority=5)
        await play.live.until(bound("rigid", 3), "the gang has its room")
        assert {"a": 5, "b": 5} == await play.settles("elastic jobs have the rest")
        assert [] == play.witness.evicted()
        for number in range(3):
            await play.live.delete(f"rigid-{number}")
        play.rigid = 0
        assert {"a": 8, "b": 8} == await play.settles("they have it back")

    tell(kubeconfig, scene)


def test_workers_of_several_gpus_lie_whole_on_nodes(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 1, 8, gpus=3)
        # Two workers of 3 GPUs fit on each node of 8; the sum of all GPUs would allow five.
        await play.becomes({"a": 4}, "whole workers on nodes")

    tell(kubeconfig, scene)


def test_a_job_that_an_autoscaler_owns_is_left_alone(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 12)
        await play.settles("one job takes what it can use")
        template = (await job(play, "a"))["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
        owned = {
            "apiVersion": PYTORCH.api_version,
            "kind": PYTORCH.kind,
            "metadata": {"name": "h", "namespace": NAMESPACE},
            "spec": {
                "elasticPolicy": {"minReplicas": 1, "maxReplicas": 8, "metrics": [{"type": "Resource"}]},
                "pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": template}},
            },
        }
        await play.live.api.create(PYTORCH.path(NAMESPACE), owned)
        await play.live.until(lambda pods: _run(pods, "h") == 3, "its pods run")
        play.rigid = 3
        await play.pytorch("b", 2, 12)
        assert {"a": 7, "b": 6} == await play.settles("the others share the rest")
        scale = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}}}
        await play.live.api.patch(PYTORCH.path(NAMESPACE, "h"), scale)
        play.rigid = 2
        assert {"a": 7, "b": 7} == await play.settles("its autoscaler gave something back")
        found = await job(play, "h")
        assert 2 == found["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]
        assert {} == found["metadata"].get("annotations", {}), "nothing is written to it"

    tell(kubeconfig, scene)


def _run(pods: list[Any], name: str) -> int:
    return sum(p.name.startswith(f"{name}-worker-") and p.phase == "Running" for p in pods)


def test_vodas_manifests_run(kubeconfig: Path) -> None:
    """The manifest of docs/from-voda.md: its bounds are in the launcher's environment, and no pool has its name."""
    page = (Path(__file__).parents[2] / "docs" / "from-voda.md").read_text()
    manifest = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    name, path = manifest["metadata"]["name"], MPI.path(NAMESPACE, manifest["metadata"]["name"])

    async def scene(play: Play) -> None:
        await play.live.nodes(1, gpu=8, first=1, labels={"vodascheduler/accelerator": "v100"})
        await play.live.api.create(MPI.path(NAMESPACE), manifest)
        pods = await play.live.until(lambda pods: _run(pods, name) == 4, "it runs with its maximum")
        assert {"n1"} == {p.node for p in pods if "-worker-" in p.name}
        assert 4 == (await play.live.get(path))["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]

    tell(kubeconfig, scene, nodes=1)


def test_the_owner_sees_how_many_how_many_are_planned_and_why(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        await play.pytorch("a", 2, 4)
        await play.pytorch("b", 7, 7)
        await play.settles("one runs, one waits")

        async def says(name: str, size: str, planned: str, why: str) -> bool:
            annotations = await notes(play, name)
            found = [annotations.get(f"maar.dev/{key}", "") for key in ("workers", "planned-workers", "why")]
            return found[:2] == [size, planned] and why in found[2]

        await play.live.eventually(
            lambda: says("a", "4", "4", "elastic-fifo in pool `default`"), "the notes of the first job"
        )
        await play.live.eventually(
            lambda: says("b", "0", "0", "elastic-fifo in pool `default`"), "the notes of the second job"
        )

    tell(kubeconfig, scene, nodes=1)


def test_while_resizes_are_paused_sizes_stay(kubeconfig: Path) -> None:
    brakes = Brakes()

    async def scene(play: Play) -> None:
        async with at_work(play, kubeconfig, brakes=brakes) as scheduler:
            await play.pytorch("a", 2, 12)
            before = await play.settles("one job takes what it can use")
            brakes.settings = BrakeSettings(resizes_paused=True)
            held = brakes.held_sizes
            await play.pytorch("b", 2, 8)
            await play.live.eventually(lambda: brakes.held_sizes > held, "a resize is blocked")
            assert {**before, "b": 0} == play.witness.sizes()
            brakes.settings = BrakeSettings()
            scheduler.look_again()
            assert {"a": 8, "b": 8} == await play.settles("let go, it comes to what it should")

    tell_alone(kubeconfig, scene)


@pytest.mark.parametrize(("seed", "operator_delay"), [(0, 0.0), (1, 0.0), (2, 0.1), (3, 0.1)])
def test_whatever_happens_in_whatever_order_it_comes_to_what_the_algorithm_says(kubeconfig: Path, seed: int) -> None:
    """Events come in bursts, so that many are in progress at once; the witness sees every write."""
    dice = random.Random(seed)

    async def burst(play: Play, number: int) -> None:
        for event in range(dice.randint(1, 4)):
            low = dice.randint(1, 4)
            match dice.choice(["pytorch", "pytorch", "mpi", "finish", "delete", "prefer", "add", "remove"]):
                case "pytorch":
                    await play.pytorch(
                        f"p{number}-{event}", low, low + dice.randint(0, 8), priority=dice.choice([0, 5])
                    )
                case "mpi":
                    await play.mpi(f"m{number}-{event}", low, low + dice.randint(0, 8))
                case "finish" if not event and (running := [n for n, count in (await play.running()).items() if count]):
                    await play.finish(dice.choice(running))  # the first of a burst: its pods stay until they have ended
                case "delete" if play.names:
                    await play.delete(dice.choice(play.names))
                case "prefer" if play.names:
                    await play.prefer(dice.choice(play.names), dice.choice([0, 5]))
                case "add" if play.nodes < 4:
                    await play.add_nodes(1)
                case "remove" if not event and play.nodes > 1:
                    return await play.remove_node()  # by itself: an earlier decision did not know about it

    async def scene(play: Play) -> None:
        for number in range(4):
            async with at_work(play, kubeconfig):
                for part in range(2):
                    await burst(play, 2 * number + part)
                    await play.settles(f"burst {2 * number + part} of seed {seed}")

    tell_alone(kubeconfig, scene)


def test_an_owner_holds_stops_and_releases_her_job(kubeconfig: Path) -> None:
    async def scene(play: Play) -> None:
        live = play.live

        async def hold(name: str, value: str | None) -> None:
            await live.api.patch(PYTORCH.path(NAMESPACE, name), {"metadata": {"annotations": {"maar.dev/hold": value}}})

        async def says(name: str, workers: str, why: str) -> None:
            async def check() -> bool:
                found = await notes(play, name)
                return (workers, True) == (found.get("maar.dev/workers"), why in found.get("maar.dev/why", ""))

            await live.eventually(check, f"{name} has {workers} workers: {why}")

        await live.group("g", 2, annotations={"maar.dev/hold": "true"})
        for i in range(2):
            await live.pod(f"g-{i}", gpu=1, metadata={"annotations": {"scheduling.k8s.io/group-name": "g"}})
        seen = await live.until(lambda pods: {"Held"} == {p.reason for p in pods}, "its pods say so")
        held = f"held by its owner with `maar.dev/hold`: it does not start before `maar release {NAMESPACE}/g`"
        assert {held} == {p.message for p in seen}
        await live.api.patch(volcano_podgroup.KIND.resource.path(NAMESPACE, "g"), WITHOUT_HOLD)
        await live.until(bound("g", 2), "it starts once it is released")
        play.rigid += 2
        await play.pytorch("a", 2, 12)
        assert {"a": 6} == await play.settles("it takes the rest")
        await hold("a", "true")
        await play.pytorch("b", 1, 1)
        assert {"a": 5, "b": 1} == await play.settles("a job that runs goes on, and still gives room")
        await hold("a", "stop")
        await says("a", "0", "held by its owner")
        assert (await job(play, "a"))["spec"]["runPolicy"]["suspend"]
        await hold("a", None)
        assert {"a": 5, "b": 1} == await play.settles("it starts again")

    tell(kubeconfig, scene, nodes=1)
