"""One place knows what fits: no other module reads the columns of taken room or divides amounts by requests."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import maar

ROOT = Path(maar.__file__).parent
COLUMNS = {"used", "releasing", "nominated"}
OWNERS = {"state", "_state", "snapshot", "_snapshot", "was", "before"}
ASKED = {"request", "requests", "asks", "wants", "needs", "_wants", "per_pod"}

HOME = {
    "model/fitting.py": "the arithmetic",
    "model/snapshot.py": "counts the columns",
    "session/state.py": "writes the columns",
    "session/capacity.py": "binds the arithmetic to the state",
}
READERS = {
    "views/cluster.py": "reports amounts to people",
    "views/nodes.py": "reports amounts to people",
    "views/utilisation.py": "reports amounts to people",
    "cli/reports/plan_text.py": "reports amounts to people",
    "web/pool_metrics.py": "reports amounts as metrics",
    "testing/scenario.py": "checks in tests that no node is over-committed",
}
DIVIDERS = {
    "plugins/volcano/rescheduling.py": "divides measured loads, which are no amounts of nodes",
    "plugins/resourcequota.py": "the part of a declared need that missing pods have",
    "plugins/support/shares.py": "shares out amounts by weight",
    "forecast/start.py": "the part of a declared need that one pod has",
    "whatif/changes.py": "steps of a search",
    "whatif/job_edits.py": "the part of a declared need that one pod has",
    "session/subgroups.py": "steps of growth",
    "session/eviction/making_room.py": "tries for each part",
    "actions/allocate.py": "steps of growth",
    "model/resources.py": "units of quantities",
    "model/devices/capacity.py": "units and steps of the capacity of one device",
    "model/devices/table.py": "the arithmetic of devices, which are not in the columns of nodes",
    "kube/read/claims/slices.py": "units of quantities",
    "controller/snapshots/isolation.py": "steps of a search",
    "elastic/ffdl.py": "shares out the GPUs of a pool, whatever its nodes",
    "elastic/market.py": "shares out the GPUs of a pool, whatever its nodes",
    "elastic/order.py": "shares out the GPUs of a pool, whatever its nodes",
    "elastic/price.py": "shares out the GPUs of a pool, whatever its nodes",
    "elastic/steps.py": "steps of a search",
    "kube/kinds/jobset.py": "the pods of one of several equal jobs",
    "kube/kinds/voda.py": "workers with several slots each",
    "controller/history/knowledge.py": "the GPUs of one worker, by those of a job",
    "lengths/runtimes.py": "the workers of an earlier run, by its GPUs",
    "sim/draws.py": "random bits",
    "sim/generate.py": "the workers of a job of a trace, by its GPUs",
}
FAR = ("cli", "web", "embedded", "demo", "sim/report", "report.py")
"""What shows things to people, or stands for other programs: no amounts of nodes are divided there."""


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    files = sorted(ROOT.rglob("*.py"))
    return tuple((file.relative_to(ROOT).as_posix(), ast.parse(file.read_text())) for file in files)


def last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def names_in(node: ast.AST) -> set[str]:
    return {last_name(part) for part in ast.walk(node) if isinstance(part, ast.expr)}


def test_only_the_state_and_the_capacity_read_what_is_taken_of_nodes() -> None:
    found = {
        path
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in COLUMNS and last_name(node.value) in OWNERS
    }
    assert found - HOME.keys() == READERS.keys()


def test_only_the_capacity_reads_how_many_tasks_the_resources_of_nodes_take() -> None:
    """All others ask the capacity, which knows counters and shared room too.

    Openings compare with what fitted when their search began.
    """
    found = {
        path
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "fits" and _is_view(node.value)
    }
    assert found == {"session/capacity.py", "session/eviction/alone.py", "session/eviction/openings.py"}


def _is_view(node: ast.expr) -> bool:
    return last_name(node.func if isinstance(node, ast.Call) else node) in ("view", "_view")


def test_nothing_else_subtracts_from_what_nodes_have() -> None:
    found = {
        path
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and "allocatable" in names_in(node.left)
    }
    assert not found - HOME.keys()


def test_nothing_else_divides_amounts_by_requests() -> None:
    found = {
        path
        for path, tree in modules()
        if not path.startswith(FAR)
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp | ast.AugAssign)
        and isinstance(node.op, ast.FloorDiv | ast.Div)
        and _may_divide_by_requests(node)
    }
    assert found - HOME.keys() == DIVIDERS.keys()


def _may_divide_by_requests(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether whole numbers are divided, not by a constant, or anything by what is asked for."""
    by = node.right if isinstance(node, ast.BinOp) else node.value
    if isinstance(node.op, ast.FloorDiv):
        return not isinstance(by, ast.Constant)
    return bool(ASKED & names_in(by))


def test_only_the_state_writes_what_queues_have() -> None:
    writes = {
        path
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and last_name(node.func) in ("add", "put", "assign")
        and any("queue_allocated" in names_in(argument) for argument in node.args[:1])
    }
    assert writes == {"session/state.py"}
