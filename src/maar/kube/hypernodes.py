"""HyperNodes: domains of the network, with who belongs to each."""

from __future__ import annotations

import re

from maar.kube.errors import FieldError
from maar.kube.selectors import selector
from maar.kube.wire import HyperNode as WireHyperNode
from maar.kube.wire import HyperNodeMember
from maar.model.topology import HyperNode, Member


def hypernode(wire: WireHyperNode) -> HyperNode:
    """One domain."""
    return HyperNode(
        name=wire.name,
        tier=wire.spec.tier,
        members=tuple(_member(m, i) for i, m in enumerate(wire.spec.members)),
        tier_name=wire.spec.tier_name,
    )


def _member(wire: HyperNodeMember, i: int) -> Member:
    chosen = wire.selector
    if chosen.exact_match is not None:
        return Member(wire.type, name=chosen.exact_match.name)
    if chosen.regex_match is not None:
        return Member(wire.type, pattern=_anywhere(chosen.regex_match.pattern, i))
    if chosen.label_match is not None:
        return Member(wire.type, labels=selector(chosen.label_match))
    return Member(wire.type)


def _anywhere(pattern: str, i: int) -> str:
    """Volcano looks for the pattern anywhere in the name; the model matches names whole."""
    field = f"spec.members[{i}].selector.regexMatch.pattern"
    if not pattern:
        return pattern
    try:
        re.compile(f".*(?:{pattern}).*")
    except re.error as error:
        raise FieldError(field, f"not a regular expression: `{pattern}` ({error.msg})") from None
    return f".*(?:{pattern}).*"
