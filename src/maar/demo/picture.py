"""A picture of a cluster as text: a column for each node, a cell for each GPU, a letter for each job.

Pure: from objects of the API server to lines of text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

GPU = "nvidia.com/gpu"
FREE, DEAD = ".", "x"
UNKNOWN = "?"

Obj = dict[str, Any]


class Column(NamedTuple):
    """One node."""

    name: str
    size: int
    """Number of its GPUs."""
    ready: bool
    cells: str
    """A letter for each GPU in use; lower case if the pod is being deleted."""


def picture(columns: Iterable[Column]) -> list[str]:
    """The lines of the picture: node names, then a row for each GPU."""
    shown = list(columns)
    rows = max((column.size for column in shown), default=0)
    lines = [" ".join(f"{column.name[-2:]:>2}" for column in shown)]
    for row in range(rows):
        lines.append(" ".join(f"{_cell(column, row):>2}" for column in shown))
    return [line.rstrip() for line in lines]


def _cell(column: Column, row: int) -> str:
    if row >= column.size:
        return ""
    if row < len(column.cells):
        return column.cells[row]
    return FREE if column.ready else DEAD


def columns(nodes: Iterable[Obj], pods: Iterable[Obj], letters: Mapping[str, str]) -> list[Column]:
    """The columns of nodes with their pods; `letters` is by the name of the job."""
    cells: dict[str, list[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            letter = letters.get(owner(pod), UNKNOWN)
            if pod["metadata"].get("deletionTimestamp"):
                letter = letter.lower()
            cells.setdefault(node, []).extend([letter] * gpus(pod))
    return [
        Column(name, size, is_ready(node), "".join(sorted(cells.get(name, ()))))
        for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
        for name, size in [(node["metadata"]["name"], int(node["status"]["allocatable"].get(GPU, 0)))]
    ]


def letter(job: str) -> str:
    """What stands for a job in the picture."""
    return job[0].upper()


def owner(pod: Obj) -> str:
    """The name of the job of a pod, or the pod's own name."""
    owners = pod["metadata"].get("ownerReferences") or [pod["metadata"]]
    return str(owners[0]["name"])


def gpus(pod: Obj) -> int:
    return sum(int((c.get("resources") or {}).get("limits", {}).get(GPU, 0)) for c in pod["spec"]["containers"])


def is_ready(node: Obj) -> bool:
    conditions = node["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
