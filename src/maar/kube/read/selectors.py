"""Selectors from the wire to the model: plain, hashable, one object for equal selectors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from maar.kube.wire.base import Expression, LabelSelector
from maar.kube.wire.pods import NodeSelectorTerm
from maar.model.selectors import NodeTerm, Requirement, Selector

NOTHING = Selector((Requirement("", "In"),))
"""What a missing label selector matches."""


@lru_cache(maxsize=65536)
def requirement(expression: Expression) -> Requirement:
    return Requirement(expression.key, expression.operator, expression.values)


@lru_cache(maxsize=65536)
def has(key: str, value: str) -> Requirement:
    """The requirement that a label has one value."""
    return Requirement(key, "In", (value,))


def selector(wire: LabelSelector | None, more: tuple[Requirement, ...] = ()) -> Selector:
    """A label selector with further requirements (of matchLabelKeys); a missing selector matches nothing."""
    if wire is None:
        return NOTHING
    wanted = {has(key, value) for key, value in wire.match_labels.items()}
    wanted.update(map(requirement, wire.match_expressions))
    wanted.update(more)
    return Selector(tuple(sorted(wanted)))


def same_labels(keys: tuple[str, ...], unlike: tuple[str, ...], labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """The requirements that matchLabelKeys and mismatchLabelKeys add for these pod labels; missing keys add none."""
    if not keys and not unlike:
        return ()
    alike = [has(key, labels[key]) for key in keys if key in labels]
    return (*alike, *(Requirement(key, "NotIn", (labels[key],)) for key in unlike if key in labels))


def node_term(wire: NodeSelectorTerm) -> NodeTerm:
    return NodeTerm(tuple(map(requirement, wire.match_expressions)), tuple(map(requirement, wire.match_fields)))
