"""How long a job waits before `preempt` or `reclaim` evict others for it.

Both actions take the argument `evictAfter`. Without it nothing waits. The time counts from when the job began to wait.
Room that is free, being freed or passed on is not affected.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from maar.model.durations import Duration, parse_duration, written
from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.session.session import Session


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`evictAfter`: how long a job waits before others are evicted for it, such as `5m`.

    Volcano's arguments have no effect: they tune its search, and Maar searches differently.
    """

    evict_after: Duration = msgspec.field(name="evictAfter", default="0s")

    def seconds(self) -> float:
        return parse_duration(self.evict_after)

    def notes(self) -> list[str]:
        if not self.seconds():
            return []
        return [f"`evictAfter`: no pod is evicted for a job before the job has waited for {written(self.evict_after)}"]


def may_evict(session: Session, action: str, job: Job, after: float) -> bool:
    """Whether a job has waited long enough; if not, the reason is noted, and the session wakes when it has."""
    since = job.waits_since
    if not after or session.now >= since + after:
        return True  # without the argument also for a job whose creation a fast clock dated ahead
    session.wake(since + after)
    at = datetime.fromtimestamp(since + after, UTC)
    what = f"no pod is evicted for it before {at:%Y-%m-%d %H:%M:%S} UTC (`evictAfter` of `{action}`)"
    session.note(job, Reason(action, "NotYetEvicting", what, since=since))
    return False
