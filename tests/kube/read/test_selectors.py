"""Selectors that are compared with many pods: the answer is that of the model, and what is kept of them is small."""

from __future__ import annotations

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from maar.kube.read.neighbours import MOST_FOUND, Matcher, Namespaces
from maar.kube.read.selectors import Test as Compiled
from maar.kube.read.selectors import has, requirement
from maar.kube.wire.base import Expression, LabelSelector
from maar.kube.wire.pods import PodAffinityTerm
from maar.model.selectors import PodSelector, Requirement, Selector

WORDS = st.sampled_from(["a", "b", "c"])
LABELS = st.dictionaries(WORDS, WORDS)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Other"])
REQUIREMENTS = st.builds(Requirement, WORDS, OPERATORS, st.lists(WORDS, max_size=3).map(tuple))
SELECTORS = st.builds(Selector, st.lists(REQUIREMENTS, max_size=4).map(tuple))
SPACES = st.none() | st.lists(WORDS, max_size=2, unique=True).map(tuple)
CHOSEN = st.lists(st.builds(PodSelector, SELECTORS, SPACES), max_size=5)


@given(SELECTORS, LABELS)
def test_safety_a_selector_made_ready_selects_what_it_selects(wanted: Selector, labels: dict[str, str]) -> None:
    assert wanted.matches(labels) == Compiled(wanted).matches(labels)


@settings(max_examples=50)
@given(CHOSEN, CHOSEN, WORDS, LABELS)
def test_safety_a_matcher_that_changed_is_as_good_as_a_new_one(
    before: list[PodSelector], after: list[PodSelector], namespace: str, labels: dict[str, str]
) -> None:
    matcher = Matcher(before)
    matcher.change(set(before) - set(after), set(after) - set(before))
    assert {s for s in after if s.matches(namespace, labels)} == set(matcher.matches(namespace, labels))
    assert Matcher(after).matches(namespace, labels) == matcher.matches(namespace, labels)
    assert (not after) == matcher.empty


def test_large_expressions_are_not_kept() -> None:
    tracemalloc.start()
    try:
        for i in range(30):
            requirement(Expression(f"key-{i}", "In", tuple(f"{i}-{n}" for n in range(1000))))
            requirement(Expression(f"key-{i}" * 10_000, "Exists"))
            has(f"key-{i}", f"value-{i}" * 10_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 300_000


def test_small_expressions_are_one_object() -> None:
    one, other = (requirement(Expression("app", "In", ("a", "b"))) for _ in range(2))
    assert one is other
    assert has("app", "a") is has("app", "a")


def test_selectors_of_namespaces_that_nothing_uses_any_more_are_forgotten() -> None:
    spaces = Namespaces((), ["ns"])
    tracemalloc.start()
    try:
        for i in range(5 * MOST_FOUND):
            wanted = LabelSelector(match_expressions=(Expression("a", "In", tuple(f"{i}-{n}" for n in range(100))),))
            assert () == spaces.of(PodAffinityTerm(topology_key="zone", namespace_selector=wanted), "ns")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_500_000
