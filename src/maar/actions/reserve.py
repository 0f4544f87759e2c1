"""reserve: the last action: lock one more node for the elected job, or unlock all if it has started.

An elected job with nominated room needs no further node: preempt and reclaim run before. A job of higher priority that
could not be placed takes the election here, where it is known that it waits.
"""

from __future__ import annotations

from maar.actions.elect import checked_target, demand_of, lock_for, outranking
from maar.config.config import WithoutArguments
from maar.session.session import Session

NAME = "reserve"


class ReserveAction(WithoutArguments):
    def execute(self, session: Session) -> None:
        target = checked_target(session)
        if target is not None and (higher := outranking(session, target)) is not None:
            session.clear_target()
            session.set_target(higher, demand_of(session, higher))
            target = higher
        if target is None:
            session.give_back_target()
        else:
            lock_for(session, target)
