"""shuffle: evict the running pods that plugins want to leave their nodes.

Plugins name them (the hook `victim_tasks`): `tdm` at the end of a window, `rescheduling` on busy nodes. No other job
gets the room at once, so the brakes count such evictions for the job itself, all or nothing. The action never evicts
part of a gang, nor a protected pod, whatever a plugin names. If the plugin proved room for what leaves, it is reserved.
"""

from __future__ import annotations

from collections.abc import Sequence

from maar.config.config import WithoutArguments
from maar.model.plan import Cause
from maar.session.eviction.departures import unit_for
from maar.session.hooks import Departure, Departures, Entry
from maar.session.reserving import reserve
from maar.session.session import Session

NAME = "shuffle"


class Shuffle(WithoutArguments):
    def execute(self, session: Session) -> None:
        evict_named(session, session.hooks.victim_tasks)


def evict_named(session: Session, entries: Sequence[Entry[Departures]]) -> None:
    """Evict what the plugins of the first tier with a departure name; each of them has then begun a round."""
    tier: int | None = None
    for entry in entries:
        if tier is not None and entry.tier != tier:
            return
        gone = [_leave(session, departure) for departure in entry.call()]
        if any(gone):
            tier = entry.tier
            session.begin_round(entry.plugin)


def _leave(session: Session, departure: Departure) -> bool:
    """Evict the tasks of a departure, if they are all of a gang or its surplus, and none is protected."""
    tasks = departure.tasks
    if not tasks or set(unit_for(session, tasks)) != set(tasks):
        return False
    job = session.job(int(session.snapshot.tasks.job[tasks[0]]))
    for task in sorted(tasks):
        session.evict(task, job, departure.reason, Cause.SHUFFLED)
    reserve(session, job, departure.room, departure.until)
    return True
