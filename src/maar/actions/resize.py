"""resize: decide how many workers each elastic job has, pool by pool.

It runs after allocate, so that gangs that fit get their room before elastic jobs grow, and before preempt and reclaim,
which see the room of shrinking jobs as releasing. Sizes go into the plan as resize, suspend and resume; room for
future workers is kept (`hold`).
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.session.resizing.pool_sizes import PoolSizes
from maar.session.resizing.pools import pools_of
from maar.session.session import Session

NAME = "resize"
Arguments = NoArguments


class Resize:
    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        for pool in pools_of(session):
            PoolSizes(session, pool).run()
