"""Every field of plain data is read somewhere in Maar, or is listed here with the reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src" / "maar"
DATA = re.compile(r"dataclass|Struct|NamedTuple|Wire")
JSON = re.compile(r"View\b")
"""Answers: clients read them."""
UNREAD = {
    ("Account", "suspensions"): "in the JSON of history",
    ("Job", "suspensions"): "read as a column of a table",
    ("Cost", "pod_priority"): "costs are compared as tuples",
    ("LostWork", "cpu_seconds"): "likewise",
    ("EventCounts", "repeated"): "tests count it",
    ("InformerCounts", "errors"): "likewise",
    ("WriteCounts", "retries"): "likewise",
    ("WriteCounts", "superseded"): "likewise",
    ("_Metadata", "generate_name"): "only its type is checked",
    ("LowNodeUtilization", "threshold_priority_class_name"): "accepted without effect, as in Volcano",
    ("LowNodeUtilization", "threshold_priority"): "likewise",
    ("LowNodeUtilization", "node_fit"): "likewise",
    ("LowNodeUtilization", "number_of_nodes"): "likewise",
}


def fields(node: ast.ClassDef) -> list[str]:
    """The fields of a class of plain data, other than answers."""
    heads = " ".join(map(ast.unparse, [*node.decorator_list, *node.bases]))
    if not DATA.search(heads) or JSON.search(heads):
        return []
    lines = (line for line in node.body if isinstance(line, ast.AnnAssign))
    return [line.target.id for line in lines if isinstance(line.target, ast.Name)]


def test_every_field_is_read() -> None:
    nodes = [node for file in SOURCES.rglob("*.py") for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    # also by name: as a key, with getattr, in a pattern
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    read |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    read |= {name for node in nodes if isinstance(node, ast.MatchClass) for name in node.kwd_attrs}
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    found = {(node.name, name) for node in classes for name in fields(node) if name not in read}
    assert UNREAD.keys() == found
