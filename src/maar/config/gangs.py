"""What Volcano's `gangpreempt` and `gangreclaim` say of whole gangs, in the words of the gang plugin.

Both are other names of `preempt` and `reclaim`, which go by gangs anyway. What they add is a permission: whole gangs
may go, unless `allowWholeBundle: false`. That is the gang plugin's `gang.eviction`, which a file may give by itself;
if it does, that counts.
"""

from __future__ import annotations

from maar.config.flags import as_bool
from maar.config.problems import Findings, shown

GANG = "gang"
EVICTION = "gang.eviction"
WHOLE_BUNDLE = "allowWholeBundle"
VERBS = {"gangpreempt": ("preempt", "preemptable"), "gangreclaim": ("reclaim", "reclaimable")}
"""Volcano's name to Maar's, and the flag by which the gang plugin protects minimums from it."""


def take_whole_bundle(raw: dict[str, object], path: str, findings: Findings) -> bool:
    """Whether an action's arguments let whole gangs go; takes the argument out of them."""
    value = raw.pop(WHOLE_BUNDLE, None)
    if value is None:
        return True
    allowed = as_bool(value)
    if allowed is None:
        findings.problem(f"{path}.{WHOLE_BUNDLE}", f"expected `true` or `false`, got {shown(value)}")
    return allowed is not False


def permit_whole(
    whole: dict[str, bool], actions: set[str], arguments: dict[str, object], flags: dict[str, bool]
) -> None:
    """Write to the gang plugin's arguments or flags what the actions ask for (`gangpreempt` to yes or no).

    The argument speaks for both verbs. If only one of the two was asked for by Volcano's gang name, the flag of
    that verb says it, which the gang plugin reads where there is no argument: off means whole.
    """
    if not whole or EVICTION in arguments:
        return
    evicting = {verb for verb, _ in VERBS.values()} & actions
    asked = {VERBS[name][0] for name in whole}
    if asked == evicting and len(set(whole.values())) == 1:
        arguments[EVICTION] = "whole" if all(whole.values()) else "surplus"
        return
    for name, allowed in whole.items():
        flags[VERBS[name][1]] = not allowed
