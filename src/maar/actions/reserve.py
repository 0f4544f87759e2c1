"""reserve: the last action: lock one more node for the elected job, or unlock all if it has started.

An elected job with promised room needs no further node: preempt and reclaim run before.
"""

from __future__ import annotations

from maar.actions.elect import target_of
from maar.config.config import NoArguments
from maar.session.session import Session

NAME = "reserve"
Arguments = NoArguments


class Reserve:
    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        target = target_of(session)
        if target is not None:
            for entry in session.hooks.reserved_nodes:
                entry.call(target)
