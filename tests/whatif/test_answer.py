"""What if: the difference that edits make to the plan."""

from __future__ import annotations

import pytest
from tests.support import confs

from maar.config.file import default_config
from maar.model.queues import Queue
from maar.registry import catalog
from maar.testing.builders import GPU, cluster, elastic, gang, node
from maar.testing.scenario import configured
from maar.whatif.answer import Sizes, what_if
from maar.whatif.config_edits import SetAlgorithm, UseConfig
from maar.whatif.edit import EditError
from maar.whatif.job_edits import AddJobs, EndJobs, SetPriority
from maar.whatif.node_edits import Cordon
from maar.whatif.queue_edits import SetAmounts

DEFAULT = default_config(catalog())
PREEMPT = configured(confs.PREEMPT)


def test_no_edit_makes_no_difference() -> None:
    answer = what_if(cluster(node("n1", gpu=4), gang("a", gpu=4), gang("b", gpu=4)), DEFAULT, 0.0, [])
    assert ((),) * 4 == (answer.starts, answer.stays, answer.evicted, answer.spared)
    assert ((), ()) == (answer.resized, answer.reasons)
    assert answer.before == answer.after


def test_who_starts_and_who_no_longer_starts() -> None:
    scene = cluster(node("n1", gpu=4), gang("a", gpu=4), gang("b", gpu=4, created=1.0))
    answer = what_if(scene, DEFAULT, 5.0, [SetPriority("ns/b", 9)])
    assert (("ns/b",), ("ns/a",)) == (answer.starts, answer.stays)
    assert ["ns/b-0"] == [bind.task for bind in answer.after.bind]
    assert ("raise the priority of `ns/b` from 0 to 9",) == answer.edits
    changed = {other.job: (len(other.before) > 0, len(other.after) > 0) for other in answer.reasons}
    assert {"ns/a": (False, True), "ns/b": (True, False)} == changed


def test_who_would_be_evicted_for_a_new_job() -> None:
    scene = cluster(node("n1", gpu=4), gang("low", 2, gpu=2, on=["n1", "n1"]))
    new = gang("new", gpu=4, priority=9)
    answer = what_if(scene, PREEMPT, 5.0, [AddJobs((new.job,), new.tasks)])
    (evicted,) = answer.evicted
    assert ("ns/low", ("ns/low-0", "ns/low-1"), "ns/new") == (evicted.job, evicted.pods, evicted.beneficiary)
    assert (("ns/new",), ("ns/low",)) == (answer.starts, answer.stays)


def test_who_is_spared() -> None:
    scene = cluster(node("n1", gpu=4), gang("low", gpu=4, on=["n1"]), gang("high", gpu=4, priority=9))
    answer = what_if(scene, PREEMPT, 5.0, [EndJobs(("ns/high",))])
    assert [("ns/low", "ns/high")] == [(e.job, e.beneficiary) for e in answer.spared]
    assert (("ns/low",), ()) == (answer.starts, answer.stays), "the job that ended is not said to wait"


def test_elastic_jobs_that_get_other_sizes() -> None:
    scene = cluster(node("n1", gpu=4), node("n2", gpu=4), elastic("train", 1, 8, on=["n1"]))
    answer = what_if(scene, DEFAULT, 1000.0, [Cordon(("n2",))])
    assert (Sizes("ns/train", now=1, before=8, after=4),) == answer.resized


def test_another_algorithm() -> None:
    jobs = [elastic(f"j{i}", 1, 8, job={"created": float(i)}) for i in range(2)]
    answer = what_if(cluster(node("n1", gpu=8), jobs), DEFAULT, 1000.0, [SetAlgorithm("default", "fifo")])
    assert {"ns/j0": (4, 1), "ns/j1": (4, 1)} == {s.job: (s.before, s.after) for s in answer.resized}


def test_reasons_that_change() -> None:
    scene = cluster(node("n1", gpu=4), Queue("q", capability={GPU: 1}), gang("a", gpu=8, queue="q"))
    config = configured(confs.CAPACITY_GUIDE)
    answer = what_if(scene, config, 5.0, [SetAmounts("q", "capability", {GPU: 8})])
    (other,) = answer.reasons
    assert other.before != other.after
    assert any(r.queue == "q" for r in other.before)
    assert not any(r.queue == "q" for r in other.after)


def test_another_configuration() -> None:
    scene = cluster(node("n1", gpu=4), gang("low", gpu=4, on=["n1"]), gang("high", gpu=4, priority=9))
    answer = what_if(scene, configured(confs.ALLOCATE), 5.0, [UseConfig(confs.PREEMPT)])
    assert ["ns/low"] == [evicted.job for evicted in answer.evicted]


def test_a_bad_edit_is_named() -> None:
    with pytest.raises(EditError, match=r"^edits\[0\].job: unknown job"):
        what_if(cluster(), DEFAULT, 0.0, [SetPriority("ns/x", 1)])
