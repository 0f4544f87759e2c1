"""The real loop: jobs with hidden speeds report, Maar learns, and `price` sizes them. `make bench-learning`.

    python -m bench.learning [--jobs 100] [--seed 1] [--rounds 1]

The same jobs run twice on the embedded cluster, with the real scheduler over real sockets, on a clock that passes only
while nothing is left to do: once Maar knows the true speeds and lengths from the start, once it learns both from
reports. The mean completion with learnt speeds must be within 10 % of that with true ones. A round takes about two CPU
minutes. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from tests.support import quick_time
from tests.support.live import GPU, NAMESPACE
from tests.support.trainings import KINDS, mean_completion, play, workload

from maar.history.estimates import Estimates
from maar.history.history import History

LIMIT = 1.10
SECONDS = 100.0
"""Seconds per job in which jobs arrive: about as much as 16 GPUs can do."""
WORK = 1000.0
"""Median seconds of a job on one worker."""


def run(folder: Path, seed: int, jobs: int, *, learns: bool) -> tuple[float, History]:
    """Mean completion in seconds, and the history."""
    trainings = workload(seed, jobs, SECONDS * jobs, WORK)
    history = quick_time.run(play(folder, trainings, learns=learns))
    return mean_completion(trainings), history


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
    means: dict[str, list[float]] = {"true": [], "learnt": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.rounds):
            for name in means:
                mean, history = run(
                    Path(folder) / f"{name}-{number}", asked.seed + number, asked.jobs, learns=name == "learnt"
                )
                means[name].append(mean)
                print(f"seed {asked.seed + number}, {name} speeds: mean completion {mean:.2f} s", flush=True)
            show(history)
    ratio = fmean(means["learnt"]) / fmean(means["true"])
    found = {name: [round(mean, 2) for mean in each] for name, each in means.items()}
    print(json.dumps({"learning": found, "ratio": round(ratio, 3), "limit": LIMIT, "kept": ratio <= LIMIT}))
    sys.exit(ratio > LIMIT)


if __name__ == "__main__":
    main()
