"""How little Maar writes while many jobs wait: on the embedded server, and as a property of one job."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.live import NAMESPACE, OUR_CRDS, connected, scheduling

from maar.controller.reporting.job_reports import AT_ONCE, PER_SECOND, PlannedJob, Record, Waiting, report
from maar.controller.scheduler import Scheduler
from maar.embedded.server import EmbeddedServer
from maar.kube.kinds import volcano_podgroup
from maar.kube.picture.job_objects import OwnerNote, Subject
from maar.kube.picture.picture import PodGroup
from maar.kube.wire.api_resources import PODS
from maar.kube.wire.references import Reference, pod_reference
from maar.model.codes import Code
from maar.model.jobs import Job, Phase
from maar.model.plan import Wait
from maar.model.reasons import Never, Reason
from maar.registry import catalog, codes_of

NODES, GPUS, GANG = 16, 8, 4
PER_BIND, EACH_SECOND = 5, 2
"""The writes that are allowed: for each bound pod, and per second."""


def writes(scheduler: Scheduler) -> int:
    counts = scheduler.executor.counts
    return counts.done + counts.failed + scheduler.events.counts.written


@pytest.mark.slow
def test_500_waiting_gangs_on_full_nodes_cause_few_writes(box: EmbeddedServer, tmp_path: Path) -> None:
    waiting, ends = 500, 10

    async def story() -> None:
        async with connected(box.kubeconfig(tmp_path / "kubeconfig")) as cluster:
            await cluster.crds(OUR_CRDS)
            await cluster.nodes(NODES, gpu=GPUS, cpu=64)
            async with scheduling(cluster) as scheduler:
                running = NODES * GPUS // GANG
                for i in range(running + waiting):
                    await cluster.gang(f"g{i}", GANG, gpu=1)
                await cluster.until(
                    lambda ps: (
                        all(p.node or p.reason == "Unschedulable" for p in ps)
                        and sum(bool(p.node) for p in ps) == NODES * GPUS
                    ),
                    "all nodes are full, and all other pods have their condition",
                )
                events = running + waiting
                await cluster.eventually(lambda: scheduler.events.counts.written >= events, "all have their event")
                await cluster.eventually(lambda: scheduler.executor.pending == 0, "everything is written")
                first = writes(scheduler)
                assert first <= NODES * GPUS * PER_BIND + waiting * (GANG + 3), "each object was written about once"
                begun, binds = time.monotonic(), scheduler.outbox.counts["done:Bind"]
                run = sorted({pod.name.rpartition("-")[0] for pod in await cluster.pods() if pod.node})
                for i, gang in enumerate(run[:ends]):
                    for k in range(GANG):
                        await cluster.delete(f"{gang}-{k}")
                    wanted = binds + (i + 1) * GANG
                    await cluster.eventually(
                        lambda: scheduler.outbox.counts["done:Bind"] >= wanted,  # noqa: B023
                        "the next gang runs",
                    )
                await cluster.eventually(lambda: scheduler.executor.pending == 0, "everything is written")
                seconds, bound = time.monotonic() - begun, scheduler.outbox.counts["done:Bind"] - binds
                assert ends * GANG == bound
                assert writes(scheduler) - first <= PER_BIND * bound + EACH_SECOND * seconds

    asyncio.run(story())


HOUR = 3600.0
PODS_OF_IT = 3
CODE: st.SearchStrategy[Code] = st.sampled_from(codes_of(catalog()))
NODE = st.sampled_from(["", "n1", "n2"])
REASON = st.builds(
    lambda code, text, never: Reason(
        "test",
        code.name,
        text,
        never=Never("LargerThanAnyNode", text) if never else None,
        lasting=text,
        meaning=code.meaning,
    ),
    CODE,
    st.sampled_from(["a", "b", "c"]),
    st.booleans(),
)
STEP = st.tuples(
    st.floats(0.05, 60.0), st.lists(REASON, min_size=1, max_size=3), st.tuples(*[NODE] * PODS_OF_IT), st.booleans()
)
GROUP = volcano_podgroup.KIND
ITEM = msgspec.convert({"metadata": {"namespace": "ns", "name": "train", "uid": "g"}}, GROUP.resource.struct)
SUBJECTS = {
    "group": Subject(GROUP.resource, Reference.to(GROUP.resource, ITEM), PodGroup(GROUP, ITEM)),
    "job": Subject(
        PODS,
        pod_reference("ns/train-0", "u0"),
        submitted=Reference("batch/v1", "Job", "ns", "j"),
        note=OwnerNote("/job", ""),
    ),
}


@given(st.lists(STEP, min_size=1, max_size=300), st.sampled_from(sorted(SUBJECTS)))
def test_safety_the_writes_about_a_waiting_job_are_bounded_whatever_happens_around_it(
    steps: list[tuple[float, list[Reason], tuple[str, ...], bool]], about: str
) -> None:
    pods = tuple(Waiting(f"{NAMESPACE}/train-{i}", f"u{i}", 1.0) for i in range(PODS_OF_IT))
    record, now, sent, events, rounds = Record(), 0.0, 0, 0, 0
    for pause, reasons, nodes, looked_at in steps:
        now += pause
        if now > HOUR:
            break
        waiting = tuple(msgspec.structs.replace(pod, node=node) for pod, node in zip(pods, nodes, strict=True))
        wait = Wait(f"{NAMESPACE}/train", tuple(reasons)) if looked_at else None
        job = Job(f"{NAMESPACE}/train", min_member=2, phase=Phase.INQUEUE)
        seen = PlannedJob(job, Phase.INQUEUE, SUBJECTS[about], wait, looked_at=looked_at, waiting=waiting)
        found, record = report(seen, record, now)
        sent += len(found.patches)
        events += bool(found.event)
        rounds += bool(found.patches)
    changes = AT_ONCE + now * PER_SECOND
    assert rounds <= changes + PODS_OF_IT, "besides the first condition of each pod"
    assert sent <= (changes + 1) * (PODS_OF_IT + 2)
    assert events <= rounds
