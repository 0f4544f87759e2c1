"""The cycle as numbered steps: the pure half's only entrance.

No network, no clock, no threads, no randomness, no memory: the same snapshot, configuration and time give the same
plan, to the byte.
"""

from __future__ import annotations

from maar.config.config import Config
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.session.plan import plan_of
from maar.session.release import release
from maar.session.resizing.holds import take_up_holds
from maar.session.session import Session


def decide(snapshot: Snapshot, config: Config, now: float) -> Plan:
    """One cycle: what to do with this cluster at this moment."""
    # 1 the snapshot is the caller's
    session = Session(snapshot, config, now)
    # 2 open: plugins register their hooks; room that is kept for workers to come is taken up again
    session.open()
    take_up_holds(session)
    # 3 act: actions in the configured order; then gangs that cannot be finished let go of what they have
    for option in config.actions:
        option.build().execute(session)
    release(session)
    # 4 plan: what was committed
    plan = plan_of(session)
    for entry in session.hooks.close:
        entry.call()
    return plan
