"""How many GPUs shards place, beside one Maar, by class of workload: `python -m tests.shards.measure` (minutes)."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import mean

from tests.shards.test_nothing_stranded import CONFIG, TREE
from tests.support import shard_scenes
from tests.support.shards import gpus_placed, left_over, settled, workload

from maar.config.config import Config
from maar.model.snapshot import Cluster

Make = Callable[[int, int], Cluster]
"""Makes a cluster from a seed and a number of shards."""

CLASSES: dict[str, tuple[Make, Config]] = {
    "gangs, 6 to 20 nodes": (lambda seed, _: workload(seed, nodes=(6, 20), busy=seed % 2 == 0), CONFIG),
    "gangs, 10 to 40 nodes": (lambda seed, _: workload(seed, busy=seed % 2 == 0), CONFIG),
    "racks, each in one shard": (lambda seed, shards: shard_scenes.racks(seed, shards, torn=False), CONFIG),
    "racks, torn apart": (lambda seed, shards: shard_scenes.racks(seed, shards, torn=True), CONFIG),
    "a tree of queues with limits": (lambda seed, _: shard_scenes.tree(seed), TREE),
    "DaemonSets": (lambda seed, _: shard_scenes.daemons(seed), CONFIG),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", type=int, default=150, help="of each class (default: %(default)s)")
    workloads = parser.parse_args().workloads
    every: list[float] = []
    for name, (make, config) in CLASSES.items():
        shares, left, missed, lends, binds = list[float](), 0, 0, 0, 0
        for seed in range(workloads):
            shards = 2 + seed % 3
            made = make(seed, shards)
            after, alone = settled(made, config, shards, seed), settled(made, config, 1)
            one, many = (gpus_placed(of.virtual.cluster()) for of in (alone, after))
            shares.append(many / one if one else 1.0)
            left += left_over(after).moves
            counts = after.counts
            missed, lends, binds = missed + counts.missed, lends + counts.lends, binds + counts.binds
        every += shares
        print(
            f"{name}: GPUs placed, as a share of one Maar: mean {mean(shares):.4f}, least {min(shares):.2f};"
            f" less than one Maar in {sum(share < 1 for share in shares)} of {workloads}, more in"
            f" {sum(share > 1 for share in shares)}; one Maar finds more to do in {left};"
            f" {binds} binds, {lends} lends, {missed} wants not served in time",
            flush=True,
        )
    print(f"all: mean {mean(every):.4f}")


if __name__ == "__main__":
    main()
