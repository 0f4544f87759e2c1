"""Recordings as traces: the jobs of a live cluster can be simulated again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from maar.cli.support.trace_file import load_trace
from maar.controller.record import Frame, Recorder
from maar.model.jobs import Phase
from maar.model.plan import Bind, Plan
from maar.model.snapshot import Changed, Cluster
from maar.model.tasks import Status
from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.problems import TraceError
from maar.sim.traces.recorded import of_cycles
from maar.testing.builders import Gang, cluster, elastic, gang, node

BEGIN = 1_000_000.0


class Seen(NamedTuple):
    now: float
    cluster: Cluster
    plan: Plan = Plan()


def seen(*cycles: tuple[float, list[Gang]], bind: dict[float, str] | None = None) -> Trace:
    """The trace of a recording; times count from its beginning. In some cycles a job gets nodes."""
    made = []
    for at, gangs in cycles:
        given = [t.key for g in gangs for t in g.tasks if t.job == (bind or {}).get(at)]
        plan = Plan(bind=tuple(Bind(task, "n1") for task in given))
        made.append(Seen(BEGIN + at, cluster(node("n1", gpu=64), *gangs), plan))
    return of_cycles(made, "week")


def waits(name: str, created: float, count: int = 2, **fields: Any) -> Gang:
    return gang(name, count, gpu=4, created=BEGIN + created, uid=f"{name}-{created}", **fields)


def runs(name: str, created: float, count: int = 2, started: float | None = None, **fields: Any) -> Gang:
    task = {"started": None if started is None else BEGIN + started, **fields.pop("task", {})}
    return waits(name, created, count, on=["n1"] * count, task=task, **fields)


def stretches(size: int, **fields: Any) -> Gang:
    """An elastic job of 1 to 4 workers, with that many on nodes, and no start times."""
    made = elastic("a", 1, 4, on=["n1"] * size, requested=2, job={"created": BEGIN, "uid": "u"}, **fields)
    return Gang(made.job, tuple(msgspec.structs.replace(task, started=None) for task in made.tasks))


def times(job: TraceJob) -> tuple[float, float]:
    return job.submit - BEGIN, job.duration


def test_a_job_is_what_it_was_from_submission_to_end() -> None:
    trace = seen(
        (0, []),
        (12, [waits("a", 10, queue="research", priority=7)]),
        (20, [runs("a", 10, queue="research", priority=7)]),
        (50, [runs("a", 10, queue="research", priority=7)]),
        (120, []),
    )
    (job,) = trace.jobs
    assert (10.0, 100.0) == times(job)
    assert ("ns/a", 8, 2, 4, 2, 2, "research", 7) == (
        *(job.name, job.gpus, job.workers, job.gpus_per_worker),
        *(job.min, job.max, job.queue, job.priority),
    )
    assert (1.0, 2**30) == (job.cpu, job.memory)
    assert () == trace.notes


def test_pods_say_when_they_started() -> None:
    trace = seen((0, []), (12, [waits("a", 10)]), (60, [runs("a", 10, started=15)]), (115, []))
    assert [(10.0, 100.0)] == [times(job) for job in trace.jobs]


def test_a_job_that_was_too_short_to_be_seen_running_ran_from_its_plan_on() -> None:
    cycles: tuple[tuple[float, list[Gang]], ...] = ((0, []), (10, [waits("a", 10)]), (13, []))
    assert [3.0] == [job.duration for job in seen(*cycles, bind={10: "ns/a"}).jobs]
    with pytest.raises(TraceError, match="1 job never ran"):
        seen(*cycles)


def test_what_shadow_mode_would_have_started_did_not_run_for_that() -> None:
    trace = seen(
        (0, []), (10, [waits("a", 10)]), (60, [waits("a", 10)]), (90, [runs("a", 10)]), (100, []), bind={10: "ns/a"}
    )
    assert [10.0] == [job.duration for job in trace.jobs]
    live = seen((0, []), (10, [waits("a", 10)]), (90, [runs("a", 10)]), (100, []), bind={10: "ns/a"})
    assert [90.0] == [job.duration for job in live.jobs]


def test_what_it_was_stopped_for_is_not_its_own() -> None:
    trace = seen((0, [waits("a", 0)]), (10, [runs("a", 0)]), (40, [waits("a", 0)]), (100, [runs("a", 0)]), (120, []))
    assert [30.0 + 20.0] == [job.duration for job in trace.jobs]


def test_half_a_gang_does_not_run() -> None:
    trace = seen((0, []), (10, [waits("a", 0, on=["n1"])]), (50, [runs("a", 0)]), (60, []))
    assert [10.0] == [job.duration for job in trace.jobs]


def test_it_ends_when_all_its_pods_have() -> None:
    over = waits("a", 0, task={"status": Status.SUCCEEDED, "node": "n1"})
    trace = seen((0, []), (10, [runs("a", 0)]), (40, [over]), (500, [over]))
    assert ([30.0], ()) == ([job.duration for job in trace.jobs], trace.notes)
    completed = runs("a", 0, phase=Phase.COMPLETED)
    assert () == seen((0, []), (10, [runs("a", 0)]), (40, [completed])).notes


def test_one_that_failed_and_was_made_anew_runs_on() -> None:
    failed = waits("a", 0, task={"status": Status.FAILED, "node": "n1"})
    trace = seen((0, []), (10, [runs("a", 0)]), (40, [failed]), (100, [runs("a", 0)]), (120, []))
    assert [30.0 + 20.0] == [job.duration for job in trace.jobs]


def test_the_recordings_beginning_is_the_traces() -> None:
    trace = seen((0, [runs("old", -500, started=-400)]), (60, []))
    assert [(0.0, 60.0)] == [times(job) for job in trace.jobs]
    assert ("1 job existed before the recording: counted from its beginning",) == trace.notes


def test_what_the_recording_cannot_know_is_said() -> None:
    trace = seen(
        (0, []),
        (10, [runs("a", 5), runs("b", 6, promise=1000.0), waits("c", 7), gang("web", 1, on=["n1"], created=BEGIN)]),
        (110, [runs("a", 5), runs("b", 6, promise=1000.0), waits("c", 7), gang("web", 1, on=["n1"], created=BEGIN)]),
    )
    assert {"ns/a": 100.0, "ns/b": 1000.0} == {job.name: job.duration for job in trace.jobs}
    assert (
        "2 jobs had not ended when the recording ended: counted as far as recorded or estimated",
        "1 job never ran: left out",
        "1 job requested no GPUs: left out",
    ) == trace.notes


def test_an_elastic_jobs_work_is_counted() -> None:
    speedup = ((1, 1.0), (2, 1.5), (4, 2.0))
    sizes = ((10, 1), (20, 4), (50, 0), (100, 2))
    trace = seen((0, []), *((at, [stretches(size, gpu=2, speedup=speedup)]) for at, size in sizes), (110, []))
    (job,) = trace.jobs
    work = 10 * 1.0 + 30 * 2.0 + 10 * 1.5
    assert (0.0, work / 1.5) == times(job)
    assert (4, 2, 2, 1, 4, speedup) == (job.gpus, job.workers, job.gpus_per_worker, job.min, job.max, job.speedup)


def test_an_elastic_job_that_goes_on_has_what_was_measured_to_be_left() -> None:
    running = stretches(2, remaining=300.0)
    (job,) = seen((0, []), (10, [running]), (60, [running])).jobs
    assert (50 * 2 + 300) / 2 == job.duration


def test_a_name_that_was_used_again_gets_a_number() -> None:
    trace = seen((0, []), (5, [runs("a", 1)]), (10, []), (20, [runs("a", 15)]), (40, []))
    assert [("ns/a", 1.0, 5.0), ("ns/a (2)", 15.0, 20.0)] == [(job.name, *times(job)) for job in trace.jobs]


def test_a_gang_that_is_seen_for_a_moment_without_its_group_is_one_job() -> None:
    pods = {"uid": "pod"}
    alone = gang("a", 1, gpu=4, on=["n1"], created=BEGIN + 5, uid="", task={"started": None, **pods})
    whole = runs("a", 5, task=pods)
    trace = seen((0, []), (6, [alone]), (10, [whole]), (50, [alone]), (60, []))
    assert [("ns/a", 5.0, 54.0, 2)] == [(job.name, *times(job), job.workers) for job in trace.jobs]


def test_a_name_that_was_used_again_between_two_looks_is_another_job() -> None:
    trace = seen((0, []), (10, [runs("a", 5, task={"uid": "x"})]), (20, [runs("a", 15, task={"uid": "y"})]), (40, []))
    assert [("ns/a", 10.0), ("ns/a (2)", 20.0)] == [(job.name, job.duration) for job in trace.jobs]


def test_pods_that_belong_to_their_nodes_are_no_jobs() -> None:
    resident = gang("agent", 1, gpu=1, on=["n1"], declared=False, task={"resident": True})
    assert ["ns/a"] == [job.name for job in seen((0, []), (5, [runs("a", 1), resident]), (10, [resident])).jobs]


def test_worker_slots_count_where_nobody_has_gpus() -> None:
    web = gang("web", 2, on=["n1", "n1"], created=BEGIN)
    (job,) = seen((0, []), (5, [web]), (10, [])).jobs
    assert (0, 2) == (job.gpus, job.workers)


def test_a_recording_in_which_nothing_ran_is_no_trace() -> None:
    with pytest.raises(TraceError, match=r"^week: contains no job that ran; 1 job never ran: left out$"):
        seen((0, [waits("a", 0)]))
    with pytest.raises(TraceError, match=r"^week: contains no job that ran$"):
        seen()


def test_what_was_recorded_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "week.rec"
    recorder = Recorder(file)
    rest = cluster(node("n1", gpu=64))
    running = runs("a", 0)
    cycles: list[tuple[float, dict[str, Changed]]] = [
        (0.0, {}),
        (10.0, {running.job.key: (running.job, running.tasks)}),
        (70.0, {running.job.key: None}),
    ]
    for at, changed in cycles:
        recorder.write(Frame(BEGIN + at, Plan(), cluster=None if at else rest, around=rest, changed=changed))
    recorder.close()
    trace = load_trace(str(file))
    assert [("ns/a", 0.0, 60.0)] == [(job.name, *times(job)) for job in trace.jobs]
    assert trace == load_trace(str(file), "recorded")
    file.write_bytes(file.read_bytes()[:-30] + b"x" * 30)
    with pytest.raises(TraceError, match=r"week\.rec: cycle 3: damaged"):
        load_trace(str(file))


def test_a_gang_runs_from_the_pod_on_without_which_its_role_is_short() -> None:
    def made(*on: str) -> Gang:
        task = {"started": None}
        return gang(
            "a", roles={"w": 2, "ps": 1}, minimum=2, role_min={"ps": 1}, gpu=4, on=on, created=BEGIN, uid="u", task=task
        )

    trace = seen((0.0, [made()]), (10.0, [made("n1", "n1")]), (30.0, [made("n1", "n1", "n1")]), (50.0, []))
    assert [(0.0, 20.0)] == [times(job) for job in trace.jobs]
