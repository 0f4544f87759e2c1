"""What a command learns from a history for a forecast that it makes itself: run times, and how good forecasts were."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from maar.forecast.arrivals import Submission
from maar.history.address import NONE, read_address
from maar.history.errors import BadAddress, HistoryError
from maar.history.forecasts import JUDGED
from maar.history.store import Store
from maar.lengths.runtimes import RunSample
from maar.model.words import count
from maar.web.forecasting.judging import Verdicts, judged
from maar.web.forecasting.keeper import SAMPLES, submission_of

NOTHING = "forecast here: no history (--history), only declared run times count"


class Learned(msgspec.Struct, frozen=True):
    samples: Sequence[RunSample] = ()
    past: Sequence[Submission] = ()
    verdicts: Verdicts = Verdicts()
    note: str = NOTHING


def learned_from(address: str | None, now: float) -> Learned:
    """The knowledge of a history; without one, nothing. Raises `BadAddress`."""
    if address is None or address == NONE:
        return Learned()
    store = Store(read_address(address), write=False)
    try:
        if not store.open():
            return Learned(note=f"forecast here: {store.name}: no history, only declared run times count")
        runs = store.runs(newest=SAMPLES)
        samples = tuple(run.sample for run in runs)
        past = tuple(one for run in runs if (one := submission_of(run)) is not None)
        verdicts = judged(store.predictions(newest=JUDGED), now)
    except BadAddress:
        raise
    except HistoryError as error:
        return Learned(note=f"forecast here: {error}: only declared run times count")
    finally:
        store.close()
    return Learned(
        samples, past, verdicts, f"forecast here, from the run times of {count(len(samples), 'finished job')}"
    )
