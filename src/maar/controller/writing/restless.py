"""Jobs that change again and again while Maar starts them: each waits a growing time, and others get its room.

A bind, or a job that grows or starts, carries the version of its object, so an owner who changes the object all the
time makes the server refuse it. The outbox reports that here. A decision that does not hold any more, because of one
change that matters, is made again at once; only a second one in a row is restless. The memory is that of this process:
a successor begins again.
"""

from __future__ import annotations

from dataclasses import dataclass

from maar.controller.snapshots.cache import Cache

FIRST, MOST = 1.0, 60.0
"""Seconds; tuned by hand."""
MANY = 1000
"""At this size, entries of deleted jobs are dropped; tuned by hand."""


@dataclass(slots=True)
class _Strikes:
    uid: str
    changes: int = 0
    rests: int = 0


class Restless:
    """Lets jobs rest."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._strikes: dict[str, _Strikes] = {}

    def refused(self, job: str, *, often: bool) -> None:
        """The server refused to start a job, or a pod of it, because it had changed; `often`: several times in a row.

        One rest counts once, however many pods of the job were refused.
        """
        row = self._cache.latest.jobs.number.get(job)
        if row is None or self._cache.rests(job):
            return
        uid = self._cache.latest.jobs.jobs[row].uid
        strikes = self._strikes.get(job)
        if strikes is None or strikes.uid != uid:
            self._tidy()
            strikes = self._strikes[job] = _Strikes(uid)
        strikes.changes += 1
        if often or strikes.changes > 1:
            self._cache.rest(job, uid, min(FIRST * 2.0 ** min(strikes.rests, 60), MOST))
            strikes.rests += 1

    def started(self, job: str) -> None:
        """A job was bound, or written as decided."""
        self._strikes.pop(job, None)

    def _tidy(self) -> None:
        if len(self._strikes) >= MANY:
            known = self._cache.latest.jobs.number
            self._strikes = {job: strikes for job, strikes in self._strikes.items() if job in known}
