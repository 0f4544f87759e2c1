"""reserve: last in the cycle, lock one more node for the elected job, or let all go if it has started.

A target that has been promised its room by now (preempt and reclaim come before) needs no further node.
"""

from __future__ import annotations

from maar.actions.elect import target_of
from maar.config.config import NoArguments
from maar.session.session import Session

NAME = "reserve"
Arguments = NoArguments


class Reserve:
    """Locks nodes."""

    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        """Act."""
        target = target_of(session)
        if target is None:
            session.clear_target()
            return
        for entry in session.hooks.reserved_nodes:
            entry.call(target)
