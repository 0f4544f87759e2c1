"""What a resize cost a job, in seconds, read off the first epoch that ended after it.

Two ways in which trainings take a new size:

- All processes start again from the last checkpoint (torchrun): the next epoch that is told of began after the resize.
  Cost is the time until it began, and by how much it took longer than epochs on that many workers do.
- The processes go on within the epoch (Horovod): the epoch holds the resize. Cost is what is left of the time from the
  resize to its end when the rest of the epoch, on the new size, is taken off. It needs both sizes measured.

The work since the last checkpoint that is done again is not in it: it depends on the moment, not on the job.
"""

from __future__ import annotations

from collections.abc import Mapping

from maar.history.records import Event, Measurement

LONGEST = 3600.0
"""A longer pause had another reason (no room, no image); by taste."""


def took_effect(resize: Event, epoch: Measurement) -> bool:
    """Whether the epoch is the first that shows the new size; one that ended on the old size came before it."""
    return epoch.end > resize.at and (epoch.resized or epoch.workers == resize.after)


def restart_seconds(resize: Event, epoch: Measurement, times: Mapping[int, float]) -> float | None:
    """The cost, given the epoch times by workers that were measured before; None if it cannot be told."""
    usual = times.get(resize.after)
    if epoch.begin >= resize.at:
        late = max(0.0, epoch.seconds - usual) if usual is not None and epoch.workers == resize.after else 0.0
        cost = epoch.begin - resize.at + late
    else:
        before = times.get(resize.before)
        if before is None or usual is None:
            return None
        done = min(1.0, (resize.at - epoch.begin) / before)
        cost = max(0.0, epoch.end - resize.at - (1.0 - done) * usual)
    return cost if cost <= LONGEST else None
