"""conformance: system pods and pods bound to their node are never victims."""

from __future__ import annotations

import numpy as np
import pytest

from maar.config.config import Config, NoArguments, PluginOption, Registration
from maar.model.snapshot import Snapshot
from maar.plugins import conformance
from maar.session.hooks import Claim
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node

CONFIG = Config((), ((PluginOption(Registration(conformance.NAME, conformance.Conformance), NoArguments()),),))


@pytest.mark.parametrize("across_queues", [False, True])
def test_critical_and_resident_pods_stay(across_queues: bool) -> None:
    snapshot = Snapshot(
        cluster(
            node("n1"),
            gang("critical", on=["n1"], task={"critical": True}),
            gang("daemon", on=["n1"], task={"resident": True}),
            gang("plain", on=["n1"]),
            gang("claimant"),
        )
    )
    session = Session(snapshot, CONFIG, 0.0)
    session.open()
    claim = Claim(snapshot.jobs.jobs[snapshot.jobs.number["ns/claimant"]], 0, across_queues)
    keys = ["ns/critical-0", "ns/daemon-0", "ns/plain-0"]
    tasks = np.array([snapshot.tasks.number[key] for key in keys])
    assert [False, False, True] == session.hooks.victims(claim, tasks).tolist()
