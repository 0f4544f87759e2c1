"""Selectors from the wire to the model: plain, hashable, one object for equal selectors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from maar.kube.wire.base import Expression, LabelSelector
from maar.kube.wire.pods import NodeSelectorTerm
from maar.model.selectors import Labels, NodeTerm, Requirement, Selector

NOTHING = Selector((Requirement("", "In"),))
"""What a missing label selector matches."""

LONGEST_KEY, LONGEST_VALUE = 317, 63
"""Characters of a label in Kubernetes; what is longer matches no label, and is not kept."""


FEW = 4
"""Values of an expression that is kept as one object; tuned by hand. Expressions with more are rare, and each can be as
large as its pod: tens of thousands of kept ones would be gigabytes."""


def requirement(expression: Expression) -> Requirement:
    """The requirement of an expression."""
    return (_requirement if _is_small(expression.key, *expression.values) else _requirement.__wrapped__)(expression)


def has(key: str, value: str) -> Requirement:
    """The requirement that a label has one value."""
    return (_has if _is_small(key, value) else _has.__wrapped__)(key, value)


def _is_small(key: str, *values: str) -> bool:
    return len(values) <= FEW and len(key) <= LONGEST_KEY and all(len(value) <= LONGEST_VALUE for value in values)


@lru_cache(maxsize=16384)
def _requirement(expression: Expression) -> Requirement:
    return Requirement(expression.key, expression.operator, expression.values)


@lru_cache(maxsize=16384)
def _has(key: str, value: str) -> Requirement:
    return Requirement(key, "In", (value,))


class Test:
    """A selector that is compared with many maps of labels: the cost of each is that of the smaller of the two."""

    __slots__ = ("_absent", "_among", "_outside", "_present", "_rest")

    def __init__(self, wanted: Selector) -> None:
        absent, present, rest = set(), set(), []
        self._among: dict[str, frozenset[str]] = {}
        self._outside: dict[str, frozenset[str]] = {}
        for one in wanted.requirements:
            values = frozenset(one.values)
            match one.operator:
                case "In":
                    self._among[one.key] = self._among.get(one.key, values) & values
                case "NotIn":
                    self._outside[one.key] = self._outside.get(one.key, values) | values
                case "Exists":
                    present.add(one.key)
                case "DoesNotExist":
                    absent.add(one.key)
                case _:
                    rest.append(one)
        self._absent, self._present, self._rest = frozenset(absent), frozenset(present), tuple(rest)

    def matches(self, labels: Labels) -> bool:
        """Whether a pod or namespace with these labels is selected."""
        most = len(labels)
        if len(self._among) > most or len(self._present) > most:
            return False
        for key, values in self._among.items():
            if labels.get(key) not in values:
                return False
        if not all(key in labels for key in self._present):
            return False
        fewer = labels if most < len(self._absent) else self._absent
        if self._absent and any(key in labels and key in self._absent for key in fewer):
            return False
        keys = labels if most < len(self._outside) else self._outside
        if self._outside and any(labels.get(key) in self._outside.get(key, ()) for key in keys):
            return False
        return all(r.matches(labels) for r in self._rest)


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
