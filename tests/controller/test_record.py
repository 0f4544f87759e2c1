"""Recordings: each recorded cycle, decided again, gives its plan."""

from __future__ import annotations

import os
import resource
import signal
import zlib
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.facts import facts

from maar.config.file import default_config
from maar.controller.record import MAGIC, PAUSE, Frame, Recorder, RecordingError, is_recording, length, read_recording
from maar.decide import decide
from maar.model.facts import Lost
from maar.model.outcome import carry_out
from maar.model.plan import Plan
from maar.model.snapshot import Changed, Cluster, Snapshot
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node

CONFIG = default_config(catalog())


def changes(before: Cluster, after: Cluster) -> dict[str, Changed]:
    """The jobs that differ."""

    def by_job(of: Cluster) -> dict[str, Changed]:
        return {j.key: (j, tuple(t for t in of.tasks if t.job == j.key)) for j in of.jobs}

    old, new = by_job(before), by_job(after)
    return {key: new.get(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def test_a_recording_gives_its_plans_again(tmp_path: Path) -> None:
    path = tmp_path / "week.rec"
    recorder = Recorder(path)
    now = cluster(
        [node(f"n{i}", gpu=8) for i in range(2)],
        gang("low", 2, gpu=8, on=["n0", "n1"], priority=1),
        gang("high", 1, gpu=8, priority=9),
    )
    before, plans = now, []
    for i in range(4):
        plan = decide(Snapshot(now), CONFIG, 100.0 + i)
        text = "actions: x" if i < 2 else "actions: y"
        around = replace(now, tasks=(), jobs=())
        frame = Frame(100.0 + i, plan, around=around, changed=changes(before, now), config=text)
        recorder.write(frame if i else Frame(100.0, plan, cluster=now, config=text))
        plans.append(plan)
        before, now = now, carry_out(now, plan, 100.0 + i)
    recorder.close()
    assert is_recording(path)
    cycles = list(read_recording(path))
    assert len(plans) == length(path)
    assert plans == [c.plan for c in cycles]
    assert plans == [decide(Snapshot(c.cluster), CONFIG, c.now) for c in cycles]
    assert ["actions: x", "actions: x", "actions: y", "actions: y"] == [c.config for c in cycles]


def test_a_last_frame_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "cut.rec"
    recorder = Recorder(path)
    scene = cluster(node("n0"))
    for i in range(2):
        plan = decide(Snapshot(scene), CONFIG, float(i))
        recorder.write(Frame(float(i), plan, cluster=scene))
    recorder.close()
    path.write_bytes(path.read_bytes()[:-3])
    assert [0.0] == [c.now for c in read_recording(path)]
    assert 1 == length(path)


def test_a_file_that_is_not_a_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text("kind: Pod")
    assert not is_recording(path)
    with pytest.raises(RecordingError, match="not a recording"):
        list(read_recording(path))
    path.write_bytes(MAGIC + b"\x00\x00\x00\x03abc")
    with pytest.raises(RecordingError, match="cycle 1: damaged"):
        list(read_recording(path))


def test_a_pipe_is_refused_at_the_start_and_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Opening it, or writing to it while it is full, would wait for its reader, and no decision would be made."""
    path, pipe = tmp_path / "file.rec", tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="expected a regular file, got a FIFO"):
        Recorder(pipe)
    recorder, now = Recorder(path), cluster(node("n1"))
    recorder.close()  # as after a failure
    pipe.replace(path)
    for _ in range(2):
        recorder.write(Frame(0.0, decide(Snapshot(now), CONFIG, 0.0), cluster=now))
    assert [f"recording stopped, decisions continue: {path}: expected a regular file, got a FIFO"] == caplog.messages


def test_a_recording_continues_after_a_failure_with_the_whole_cluster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit on the size of files stands for a full disk: a frame is cut off in the middle."""
    path = tmp_path / "full.rec"
    recorder = Recorder(path)
    now = cluster(*(node(f"n{i}") for i in range(50)))
    plan = decide(Snapshot(now), CONFIG, 0.0)

    def write(at: float) -> None:
        whole = at == 0.0 or recorder.needs_all(at)
        around, of = (None, now) if whole else (now, None)
        recorder.write(Frame(at, plan, cluster=of, around=around, config="actions: x"))

    write(0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, hard))
    try:
        for at in (1.0, 2.0, 1.0 + PAUSE):
            write(at)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert 0 == recorder.restarts
    for at in (40.0, 2.0 + 2 * PAUSE, 3.0 + 2 * PAUSE):
        write(at)
    recorder.close()
    assert [0.0, 2.0 + 2 * PAUSE, 3.0 + 2 * PAUSE] == [c.now for c in read_recording(path)]
    assert {"actions: x"} == {c.config for c in read_recording(path)}
    assert 1 == recorder.restarts
    told = ["recording stopped, decisions continue: {}: File too large", "recording continues: {}"]
    caplog.set_level("INFO")
    assert [told[0].format(path)] == [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]


def test_a_recording_that_was_removed_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "gone.rec"
    recorder = Recorder(path)
    now = cluster(node("n1"))
    recorder.close()  # as after a failed write
    path.unlink()
    recorder.write(Frame(1.0, decide(Snapshot(now), CONFIG, 1.0), cluster=now))
    recorder.close()
    assert [1.0] == [c.now for c in read_recording(path)]


def test_a_recording_of_the_version_before_facts_is_read(tmp_path: Path) -> None:
    lost, rounds = [{"job": "ns/a", "at": 2.0, "uid": "u"}], {"tdm": 1.0}
    old = msgspec.to_builtins(Frame(now=3.0, plan=Plan(), cluster=Cluster()))
    for part in (old["plan"], old["cluster"]):
        del part["facts"]
        part.update(expired=lost, rounds=rounds)
    data = zlib.compress(msgspec.msgpack.encode(old))
    (tmp_path / "old").write_bytes(MAGIC + len(data).to_bytes(4, "big") + data)
    (cycle,) = read_recording(tmp_path / "old")
    expected = facts(Lost("ns/a", 2.0, "u"), rounds=rounds)
    assert (expected, expected) == (cycle.cluster.facts, cycle.plan.facts)
