"""reserve: the last action: lock one more node for the elected job, or unlock all if it has started.

An elected job with promised room needs no further node: preempt and reclaim run before. A job of higher priority that
could not be placed takes the election here, where it is known that it waits.
"""

from __future__ import annotations

from maar.actions.elect import demand_of, outranking, target_of
from maar.config.config import NoArguments
from maar.session.session import Session

NAME = "reserve"
Arguments = NoArguments


class Reserve:
    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        target = target_of(session)
        if target is not None and (higher := outranking(session, target)) is not None:
            session.clear_target()
            session.set_target(higher, demand_of(session, higher))
            target = higher
        if target is None:
            session.give_back_target()
        else:
            for entry in session.hooks.reserved_nodes:
                entry.call(target)
