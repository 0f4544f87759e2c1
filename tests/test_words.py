"""A public class name means one thing: within `kube`, `controller` and `web`, and within the pure half."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src" / "maar"
HALVES = {
    "live": ("kube", "controller", "web"),
    "pure": (
        *("actions", "config", "elastic", "forecast", "history", "lengths", "model", "plugins", "session", "shards"),
        *("sim", "views", "whatif"),
    ),
}
CONVENTIONS = {
    "Arguments",  # what a plugin, an action or an algorithm is configured by
    "Spec",  # the fields of Kubernetes' objects
    "Status",
}


@pytest.mark.parametrize("half", HALVES)
def test_a_public_name_of_a_class_means_one_thing(half: str) -> None:
    found = defaultdict[str, list[str]](list)
    for folder in HALVES[half]:
        for file in (SOURCES / folder).rglob("*.py"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(file.relative_to(SOURCES)))
    twice = {name: files for name, files in found.items() if len(files) > 1 and name not in CONVENTIONS}
    assert {} == twice
