"""`make fuzz`: search for inputs that break Maar for some time, an hour by default.

    python -m tests.fuzz --seconds 3600 --seed 7

Prints the seed, and for each target how many inputs were tried. Targets run in turns of a few seconds. An input that
breaks something is made as small as possible and printed; the exit code is then 1. First, `reclaim` is compared with
brute force.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections import Counter

from tests.fuzz.search import search
from tests.fuzz.targets import TARGETS
from tests.support.reclaims import worse

TURN = 30.0
"""Seconds after which the next target has its turn."""


RECLAIMS = 10_000
"""Random scenes in which the victims of `reclaim` are compared with all others."""


def compare_reclaims(seed: int) -> None:
    """Compare what `reclaim` evicts with brute force, on scenes that `make test` does not have."""
    for number in range(RECLAIMS):
        if problem := worse(seed + number):
            raise SystemExit(f"fuzz: reclaim: {problem}")
    print(f"fuzz: reclaim leaves no queue further below its share than it must in {RECLAIMS} scenes", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"fuzz: {options.seconds:.0f} s, seed {options.seed}", flush=True)
    compare_reclaims(options.seed)
    ends, tried, turn = time.monotonic() + options.seconds, Counter[str](), 0
    while (left := ends - time.monotonic()) > 0:
        for target in TARGETS:
            seconds = min(TURN, left) * target.share
            try:
                tried[target.name] += search(target, seconds, options.seed + turn)
            except BaseException:
                print(f"fuzz: `{target.name}` failed: --seed {options.seed} (turn {turn})", flush=True)
                raise
        turn += 1
        print("fuzz: " + ", ".join(f"{name} {count}" for name, count in tried.items()), flush=True)
    print(f"fuzz: no failure in {tried.total()} inputs, seed {options.seed}")


if __name__ == "__main__":
    main()
