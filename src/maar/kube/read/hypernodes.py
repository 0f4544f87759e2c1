"""HyperNodes: network domains with their members.

API servers accept patterns that Python does not: invalid ones, and features of Go's regular expressions (`\\z`). In a
file such a pattern is an error. Live, it selects no node, is logged once, and everything else continues.
"""

from __future__ import annotations

import re

from maar.kube.read.selectors import selector
from maar.kube.wire.cluster import HyperNode as WireHyperNode
from maar.kube.wire.cluster import HyperNodeMember
from maar.kube.wire.errors import FieldError
from maar.model.topology import HyperNode, Member


def checked(wire: WireHyperNode) -> HyperNode:
    """One domain; an invalid pattern is a `FieldError`."""
    for i, member in enumerate(wire.spec.members):
        if problem := _problem(member):
            raise FieldError(f"spec.members[{i}].selector.regexMatch.pattern", problem)
    return hypernode(wire)


def hypernode(wire: WireHyperNode) -> HyperNode:
    """One domain; an invalid pattern selects no node."""
    return HyperNode(
        name=wire.name,
        tier=wire.spec.tier,
        members=tuple(map(_member, wire.spec.members)),
        tier_name=wire.spec.tier_name,
    )


def _member(wire: HyperNodeMember) -> Member:
    chosen = wire.selector
    if _problem(wire):
        return Member(wire.type)
    if chosen.exact_match is not None:
        return Member(wire.type, name=chosen.exact_match.name)
    if chosen.regex_match is not None:
        return Member(wire.type, pattern=_anywhere(chosen.regex_match.pattern))
    if chosen.label_match is not None:
        return Member(wire.type, labels=selector(chosen.label_match))
    return Member(wire.type)


def _problem(wire: HyperNodeMember) -> str:
    """What is wrong with the pattern of a member, if it has one."""
    chosen = wire.selector
    if chosen.exact_match is not None or chosen.regex_match is None:
        return ""
    try:
        re.compile(_anywhere(chosen.regex_match.pattern))
    except re.error as error:
        return f"not a regular expression: `{chosen.regex_match.pattern}` ({error.msg})"
    return ""


def _anywhere(pattern: str) -> str:
    """Volcano searches the pattern anywhere in the name; the model matches whole names."""
    return f".*(?:{pattern}).*" if pattern else pattern
