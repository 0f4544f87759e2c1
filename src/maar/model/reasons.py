"""Reasons: why a job waits, as data that becomes one line for a person.

Every refusal names the plugin that refused, a code that scripts can rely on, and what stood in the way: a resource,
the nodes counted by cause, a quota or a share, and since when. The message is made from the same facts.
"""

from __future__ import annotations

import msgspec


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """One refusal."""

    plugin: str
    code: str
    message: str
    resource: str = ""
    needs: int | None = None
    has: int | None = None
    """What there is of the resource where it is most: on the best node, left under the quota."""
    limit: int | None = None
    """The quota or share that refused it."""
    nodes: dict[str, int] = {}
    """How many nodes were refused, by cause."""
    queue: str = ""
    since: float | None = None
    """When the job began to wait."""


def in_one_line(reasons: tuple[Reason, ...]) -> str:
    """All reasons of one job as one line."""
    return "; ".join(dict.fromkeys(r.message for r in reasons))
