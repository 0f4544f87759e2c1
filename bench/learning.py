"""The real loop: jobs with hidden speeds report, Maar learns, and `price` sizes them. `make bench-learning`.

    python -m bench.learning [--jobs 100] [--seed 1] [--rounds 1]

The same jobs run twice on the embedded cluster, four nodes of 4 GPUs, with the real scheduler over real sockets, on a
clock that passes only while nothing is left to do: once Maar knows the true speeds and lengths from the start, once it
learns both from reports. The mean completion with learnt speeds must be within 10 % of that with true ones.

The truth about a size is the speed on the fewest nodes. It is the truth only if jobs are placed so: the pool has
`pack`, and the share of the work that was done so is printed. A round takes about four CPU minutes. The last line is
JSON. `bench.learning_node` does the same on a real node.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from tests.support import quick_time
from tests.support.live import GPU, NAMESPACE
from tests.support.trainings import KINDS, Training, mean_completion, play, workload

from maar.elastic.speedup import curve
from maar.history.estimates import Estimates
from maar.history.history import History

LIMIT = 1.10
SECONDS = 100.0
"""Seconds per job in which jobs arrive: about as much as 16 GPUs can do."""
WORK = 1000.0
"""Median seconds of a job on one worker."""


def run(folder: Path, seed: int, jobs: int, *, learns: bool) -> tuple[list[Training], History]:
    """The trainings, all ended, and the history."""
    trainings = workload(seed, jobs, SECONDS * jobs, WORK)
    history = quick_time.run(play(folder, trainings, learns=learns))
    return trainings, history


def told() -> float:
    """The largest relative error with which Maar knows a true speed that it is told: its curves are concave."""
    worst = 0.0
    for truth in (kind.truth() for kind in KINDS):
        known = curve(truth).values(max(truth))
        worst = max(worst, *(abs(float(known[n]) / true - 1.0) for n, true in truth.items()))
    return worst


def show(history: History) -> None:
    """What was learnt about each kind, beside the truth."""
    estimates = Estimates(history.model)
    for kind in KINDS:
        key = (f"{NAMESPACE}/{kind.category}", GPU)
        speeds, steps = estimates.speeds(key), history.model.steps(key)
        values = estimates.curve(key).values(max(kind.truth()))
        points = ", ".join(f"{n}: {values[n]:.2f} ({true:.2f})" for n, true in kind.truth().items())
        about = "" if steps is None else f", {steps.settings} settings, error {steps.error:.0%}"
        print(f"  {kind.category}: {speeds.basis}{about}; learnt (true) speed-up {points}")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--jobs", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--rounds", type=int, default=1)
    asked = options.parse_args()
    logging.getLogger("maar").setLevel(logging.ERROR)  # time jumps, so watches end and begin again
    means: dict[str, list[float]] = {"true": [], "learnt": []}
    print(f"true speeds are known to {told():.1%}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.rounds):
            for name in means:
                trainings, history = run(
                    Path(folder) / f"{name}-{number}", asked.seed + number, asked.jobs, learns=name == "learnt"
                )
                means[name].append(mean_completion(trainings))
                packed = sum(t.packed for t in trainings) / sum(t.worked for t in trainings)
                restarts = sum(t.restarts for t in trainings)
                print(
                    f"seed {asked.seed + number}, {name} speeds: mean completion {means[name][-1]:.2f} s, "
                    f"{packed:.1%} of the work on the fewest nodes, {restarts} restarts",
                    flush=True,
                )
            show(history)
    sys.exit(conclude("learning", means))


def conclude(name: str, means: Mapping[str, Sequence[float]]) -> int:
    """Print the comparison of mean completions by kind of speeds; returns the exit code."""
    ratio = fmean(means["learnt"]) / fmean(means["true"])
    found = {speeds: [round(mean, 2) for mean in each] for speeds, each in means.items()}
    if ratio < 1 / LIMIT:
        print(f"learnt speeds are better by more than {LIMIT - 1:.0%}: is the truth that was told the whole truth?")
    print(json.dumps({name: found, "ratio": round(ratio, 3), "limit": LIMIT, "kept": ratio <= LIMIT}))
    return int(ratio > LIMIT)


if __name__ == "__main__":
    main()
