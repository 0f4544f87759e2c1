"""The cost of a resize in seconds, computed from the first epoch that ends after it.

Trainings take a new size in one of two ways:

- All processes restart from the last checkpoint (torchrun), and the next reported epoch begins after the resize. The
  cost is the time until it begins, plus the excess over the usual epoch time on that many workers.
- The processes continue within the epoch (Horovod), and the epoch contains the resize. The cost is the time from the
  resize to the end of the epoch, minus the rest of the epoch at the new size. Both sizes must be measured.

Repeated work since the last checkpoint is not included: it depends on the moment, not on the job.
"""

from __future__ import annotations

from collections.abc import Mapping

from maar.history.records import Event, Measurement

LONGEST = 3600.0
"""A longer pause has another cause (no room, no image). Tuned by hand."""


def took_effect(resize: Event, epoch: Measurement) -> bool:
    """Whether the epoch shows the new size; an epoch that ended at the old size does not."""
    return epoch.end > resize.at and (epoch.resized or epoch.workers == resize.after)


def restart_seconds(resize: Event, epoch: Measurement, times: Mapping[int, float]) -> float | None:
    """The cost, given the measured epoch times by workers; None if unknown."""
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
