"""Reasons: why a job waits, as data and as one line of text.

Every refusal names the plugin that refused, a code that scripts can rely on, and the obstacle: a resource, the nodes
counted by cause, a quota or a share, and since when. The message is made from the same facts.
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
    """The most that is available of the resource: on the best node, or left under the quota."""
    limit: int | None = None
    """The quota or share that refused the job."""
    nodes: dict[str, int] = {}
    """The number of refused nodes by cause."""
    queue: str = ""
    since: float | None = None
    """When the job began to wait."""


def in_one_line(reasons: tuple[Reason, ...]) -> str:
    """All reasons of one job in one line, without repetitions."""
    return "; ".join(dict.fromkeys(r.message for r in reasons))
