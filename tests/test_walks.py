"""The four walks of docs/architecture.md: a trace of a running Maar passes their functions in this order."""

from __future__ import annotations

import asyncio
import re

import pytest
from tools import walks
from tools.traced_run import ROOT

SECTIONS = {"pod": "A pod", "reason": "A reason", "question": "A question", "resize": "A resize"}


@pytest.fixture(scope="module")
def traced() -> dict[str, walks.Walk]:
    return asyncio.run(walks.walks(ROOT / "src"))


def described(walk: str) -> list[str]:
    """The functions that a section names, in order; modules are not among them."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Four walks")[2]
    (section,) = re.findall(rf"^### {SECTIONS[walk]}\b.*?(?=^##)", text, re.MULTILINE | re.DOTALL)
    return [name for name in re.findall(r"`(maar(?:\.\w+)+)`", section) if name != "maar.web.api.routes"]


@pytest.mark.slow
@pytest.mark.parametrize("walk", SECTIONS)
def test_a_running_maar_passes_the_functions_of_the_walk_in_this_order(
    walk: str, traced: dict[str, walks.Walk]
) -> None:
    names, at = traced[walk].names, 0
    for name in described(walk):
        assert name in names, "not passed at all"
        assert name in names[at:], "not passed after the functions before it"
        at = names.index(name, at) + 1
    assert 7 <= len(described(walk))


@pytest.mark.slow
def test_a_walk_is_counted_without_the_pure_half(traced: dict[str, walks.Walk]) -> None:
    for walk in traced.values():
        assert 10 < len(walk.files) < walk.hops < len(walk.names)
        assert not any(file.startswith(("session/", "plugins/", "actions/")) for file in walk.files)
    assert {"decide.py", "kube/write/executor.py"} <= set(traced["pod"].files) - set(traced["question"].files)
