"""Volcano's `gangpreempt` and `gangreclaim`, translated to the gang plugin.

Both are aliases of `preempt` and `reclaim`, which evict by gangs anyway. They add a permission: whole gangs may be
evicted, unless `allowWholeBundle: false`. This is the gang plugin's argument `gang.eviction`; if the file sets that
argument, the argument counts.

It also knows which plugins name the victims of `reclaim`, because the gang plugin's protection depends on their tier.
"""

from __future__ import annotations

from maar.config.config import Config
from maar.config.flags import HIERARCHY, as_bool
from maar.config.problems import Findings, shown

GANG = "gang"
EVICTION = "gang.eviction"
WHOLE_BUNDLE = "allowWholeBundle"
NO_BUNDLE = f"has no effect here: the argument `{EVICTION}` of the `{GANG}` plugin says whether whole gangs are evicted"
VERBS = {"gangpreempt": ("preempt", "preemptable"), "gangreclaim": ("reclaim", "reclaimable")}
"""Volcano's name, Maar's name, and the flag by which the gang plugin protects minimums from that action."""

SHARING = ("proportion", "capacity")
"""Plugins that define what each queue deserves, and so which queues lose resources to `reclaim`."""


def names_victims(plugin: str, flags: dict[str, bool]) -> bool:
    """Whether a plugin with these flags decides which queues lose pods to `reclaim`."""
    shares = plugin in SHARING or (plugin == "drf" and flags.get(HIERARCHY) is True)
    return shares and flags.get("reclaimable", True)


def unstated_reclaim(config: Config) -> str:
    """A note if `reclaim` evicts whole gangs although the file does not say so; empty if it does not.

    An unset `enableReclaimable` of the gang plugin means that, if the plugin that names victims is in another tier.
    """
    if not config.has_action("reclaim"):
        return ""
    for tier, options in enumerate(config.tiers):
        gang = next((option for option in options if option.name == GANG), None)
        if gang is not None and getattr(gang.arguments, "eviction", None) is None and "reclaimable" not in gang.flags:
            sharing = victims_named_outside(config, tier)
            if sharing:
                cause = f"`enableReclaimable` of `{GANG}` is not set, and `{sharing}` is in another tier"
                what = "`reclaim` may evict whole gangs, and jobs of one pod, of queues that have more than their share"
                return f"{what}: {cause}. As in Volcano; `enableReclaimable: true` protects the minimum of every gang"
    return ""


def victims_named_outside(config: Config, tier: int) -> str:
    """The first plugin of another tier that names the victims of `reclaim`; empty if there is none."""
    others = (options for number, options in enumerate(config.tiers) if number != tier)
    names = (option.name for options in others for option in options if names_victims(option.name, option.flags))
    return next(names, "")


def take_whole_bundle(raw: dict[str, object], path: str, findings: Findings) -> bool:
    """Whether an action's arguments permit to evict whole gangs; removes the argument from `raw`."""
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
    """Set the gang plugin's argument or flags from `whole`: for each gang action, whether it may evict whole gangs.

    The argument covers both actions. If the file names only one by its gang name, the flag of that action is set
    instead. The gang plugin reads the flag if there is no argument; off permits whole gangs.
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
