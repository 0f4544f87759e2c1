"""resize: decide how many workers each elastic job has, pool by pool.

Comes after allocate, so that gangs which fit have their room before anything grows, and before preempt and reclaim,
which find what shrinks as room that is coming. The sizes leave in the plan as resize, suspend and resume; room for
workers that do not exist yet is kept (`hold`).
"""

from __future__ import annotations

from maar.config.config import NoArguments
from maar.session.resizing.pool_sizes import PoolSizes
from maar.session.resizing.pools import pools_of
from maar.session.session import Session

NAME = "resize"
Arguments = NoArguments


class Resize:
    """Gives elastic jobs their sizes."""

    def __init__(self, arguments: NoArguments) -> None:
        del arguments

    def execute(self, session: Session) -> None:
        """Act."""
        for pool in pools_of(session):
            PoolSizes(session, pool).run()
