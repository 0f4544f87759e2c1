"""The profile `services`: it can be used, and says line by line what it changes."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

from maar.config.file import default_text, profile_text, read_config
from maar.registry import catalog
from maar.testing.builders import cluster, gang, node
from maar.testing.scenario import scene

CHANGED = "# changed"
TEXT = profile_text("services")
SERVICES = read_config(TEXT, "services", catalog())


def code(text: str) -> list[str]:
    """The lines without comments."""
    return [line for each in text.splitlines() if (line := each.partition("#")[0].rstrip())]


def test_it_is_read_without_a_warning() -> None:
    assert [] == SERVICES.warnings
    assert SERVICES.config.pod_events


def test_every_changed_line_says_so_and_no_other_does() -> None:
    """At its end, or in the comment above it."""
    said, above = set(), False
    for line in TEXT.splitlines():
        above |= line.startswith(CHANGED)
        if not line.startswith("#"):
            if above or CHANGED in line:
                said.add(line.partition("#")[0].rstrip())
            above = False
    new = {line[2:] for line in difflib.ndiff(code(default_text()), code(TEXT)) if line.startswith("+ ")}
    assert {*new, "  - name: cooldown"} == said, "`reservation` is left out after `cooldown`"


def test_the_default_value_of_every_changed_argument_is_named() -> None:
    before = dict(line.split(": ") for line in code(default_text()) if line.startswith("      "))
    after = dict(line.split(": ") for line in code(TEXT) if line.startswith("      "))
    changed = {name for name in after if after[name] != before[name]}
    lines = {line.partition(":")[0]: line for line in TEXT.splitlines()}
    assert dict.fromkeys(changed, True) == {name: f"# changed from {before[name]}:" in lines[name] for name in changed}


def test_gangs_with_gpus_are_packed_and_other_pods_go_to_the_emptiest_nodes() -> None:
    nodes = [node(f"n{i}", gpu=8) for i in range(4)]
    gangs = [gang(f"train{i}", 2, gpu=2, cpu=8, memory="32Gi", created=i) for i in range(2)]
    plan = scene(cluster(nodes, gangs), SERVICES.config)[0]
    assert {"n0": 4} == Counter(bind.node for bind in plan.bind)
    pods = [gang(f"web{i}", created=10 + i) for i in range(3)]
    plan = scene(cluster(nodes, gang("old", 2, gpu=2, on=["n0", "n0"]), pods), SERVICES.config)[0]
    assert {"n1": 1, "n2": 1, "n3": 1} == Counter(bind.node for bind in plan.bind)


def test_replicas_with_gpus_get_different_nodes() -> None:
    """Among the nodes without a sibling the fullest one."""
    web: dict[str, Any] = {"siblings": ("ReplicaSet ns/web",), "gpu": 1}
    old = gang("old", on=["n0"], **web), gang("train", 4, gpu=1, on=["n2"] * 4)
    plan = scene(cluster([node(f"n{i}", gpu=8) for i in range(3)], old, gang("new", **web)), SERVICES.config)[0]
    assert ["n2"] == [bind.node for bind in plan.bind]


def test_a_large_job_that_waits_keeps_no_node_from_others() -> None:
    large = gang("large", 2, gpu=8, created=0)
    running = gang("running", gpu=8, on=["n0"])
    small = gang("small", gpu=1, created=100)
    plans = scene(cluster([node("n0", gpu=8), node("n1", gpu=8)], running, large, small), SERVICES.config, now=200)
    assert ["ns/small-0"] == [bind.task for plan in plans for bind in plan.bind]
    assert [None] * len(plans) == [plan.elect for plan in plans]
