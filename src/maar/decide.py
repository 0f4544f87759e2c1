"""The cycle as numbered steps: the only entry point of the pure half.

No network, no clock, no threads, no randomness, no memory: the same snapshot, configuration and time give the same
plan, byte for byte.
"""

from __future__ import annotations

from maar.config.config import Config
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.session.gates import open_gates
from maar.session.long_deletions import count_lingering
from maar.session.plan import plan_of
from maar.session.release import release
from maar.session.resizing.restoring import restore_room
from maar.session.scoping import confine, grant
from maar.session.session import Session


def decide(snapshot: Snapshot, config: Config, now: float) -> Plan:
    """Run one cycle: the plan for this cluster at this time."""
    # 1 snapshot: made by the caller
    # 2 open
    session = opened(snapshot, config, now)
    # 3 act: actions in the configured order; then gangs that cannot be completed release their room, and pods
    #   that their queue admits lose its gate
    for option in config.actions:
        option.build().execute(session)
    release(session)
    open_gates(session)
    # 4 plan: everything that was committed
    plan = plan_of(session)
    session.close()
    return plan


def opened(snapshot: Snapshot, config: Config, now: float) -> Session:
    """A session at the beginning of a cycle; the caller closes it.

    Plugins have registered their hooks, and room reserved for future workers is taken up again. One of several shards
    has a scope, and evicts what other shards ask for.
    """
    session = Session(snapshot, config, now)
    confine(session)
    session.open()
    count_lingering(session)
    restore_room(session)
    grant(session)
    return session
