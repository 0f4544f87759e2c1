"""Runs shards under faults, and prints one line of JSON at the end: `make soak-shards`.

    python -m tests.soak.shards --minutes 10 --seed 1

3 shards on 300 nodes on a real API server: bursts of gangs of two priorities in queues with limits, and elastic jobs.
Processes of Maar are killed, frozen for longer than their lease and restarted 100 times, at random. The API server
restarts twice, and the number of shards changes to 4 and to 2. The exit code is 1 if the witness finds anything wrong.
`--shards 0` does the same to one leader and its standbys.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.support.faults.shard_stage import TAKE_OVER_S, ShardFaults, ShardScene, furnish, sharded
from tests.support.faults.stage import witnessed_cluster
from tests.support.faults.witness import Wrong
from tests.support.real.cluster import RealCluster

STATUS_EVERY_S = 30.0
STORY = 20
"""Binds and removals that are shown before what went wrong."""
SETTLE_S = 300.0
WARM_UP_BINDS = 50
"""Binds before the first fault."""
WRONG = ("over_commits", "bound_twice", "gangs_in_part", "above_limit", "undone", "lost", "crashes")
"""Fields of the report that must be 0."""


class Setting(msgspec.Struct, frozen=True):
    """What is done to which cluster."""

    seed: int
    seconds: float = 600.0
    shards: int = 3
    replicas: int = 4
    nodes: int = 300
    faults: int = 100
    server_restarts: int = 2
    numbers: Sequence[int] = (4, 2)
    """The numbers of shards that follow."""
    elastic: bool = True
    longest_part: float = TAKE_OVER_S
    patience: float = SETTLE_S


async def shake(cluster: RealCluster, folder: Path, setting: Setting) -> dict[str, Any]:
    """Cause all faults on a furnished cluster, let everything settle, and say what happened."""
    async with sharded(
        cluster,
        folder,
        setting.seed,
        shards=setting.shards,
        replicas=setting.replicas,
        nodes=setting.nodes,
        elastic=setting.elastic,
        longest_part=setting.longest_part,
    ) as scene:
        scene.patience = setting.patience
        await scene.progress(WARM_UP_BINDS)
        await scene.until(scene.held, "every shard has a holder")
        faults = ShardFaults(
            scene,
            setting.seconds,
            setting.faults,
            server_restarts=setting.server_restarts,
            numbers=setting.numbers if setting.shards else (),
        )
        begun = time.monotonic()
        telling = asyncio.create_task(_tell(scene, faults, begun))
        try:
            await faults.run()
            lasted = time.monotonic() - begun
            await scene.settle(setting.patience)
            settled = time.monotonic() - begun - lasted
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
    print(status(scene, faults, time.monotonic() - begun), flush=True)
    for crash in scene.replicas.crashes:
        print(crash, flush=True)
    return report(scene, faults, setting, lasted, settled)


async def _tell(scene: ShardScene, faults: ShardFaults, begun: float) -> None:
    """Print what goes wrong at once, and the status now and then."""
    shown, last = 0, begun
    while True:
        now = time.monotonic()
        for finding in scene.witness.findings[shown:]:
            story = finding.story[-STORY:]
            print(f"{now - begun:.0f} s: {finding.wrong}: {finding.what}", *story, sep="\n  ", flush=True)
        shown = len(scene.witness.findings)
        if now - last > STATUS_EVERY_S:
            last = now
            print(status(scene, faults, now - begun), flush=True)
        await asyncio.sleep(1.0)


def status(scene: ShardScene, faults: ShardFaults, seconds: float) -> str:
    witness = scene.witness
    return (
        f"{seconds:4.0f} s: {len(scene.users.names)} jobs, {dict(witness.counts)}, {dict(faults.done)},"
        f" in part {witness.longest_part:.1f} s at most, {len(witness.findings)} findings,"
        f" {len(scene.replicas.crashes)} crashes, {scene.who()}"
    )


def report(scene: ShardScene, faults: ShardFaults, setting: Setting, lasted: float, settled: float) -> dict[str, Any]:
    witness, done = scene.witness, faults.done
    return {
        "seed": setting.seed,
        "minutes": round(lasted / 60, 1),
        "shards": [setting.shards, *setting.numbers] if setting.shards else [],
        "nodes": setting.nodes,
        "faults": done["kill"] + done["freeze"] + done["restart"],
        "kills": done["kill"],
        "freezes": done["freeze"],
        "restarts": done["restart"],
        "server_restarts": done["server"],
        "over_commits": witness.count(Wrong.OVER_COMMIT),
        "bound_twice": witness.count(Wrong.BOUND_TWICE),
        "gangs_in_part": witness.count(Wrong.IN_PART),
        "longest_part_s": round(witness.longest_part, 1),
        "longest_part_in_all_s": round(witness.longest_part_in_all, 1),
        "take_overs": len(witness.shards.take_overs),
        "median_take_over_s": round(statistics.median(witness.shards.take_overs or [0.0]), 1),
        "longest_take_over_s": round(max(witness.shards.take_overs, default=0.0), 1),
        "above_limit": witness.count(Wrong.ABOVE_LIMIT),
        "undone": witness.count(Wrong.UNDONE),
        "lost": witness.count(Wrong.LOST),
        "crashes": len(scene.replicas.crashes),
        "jobs": len(scene.users.names),
        "binds": witness.counts["binds"],
        "evictions": witness.counts["displaced"],
        "moves": witness.counts["moves"],
        "holder_changes": witness.shards.changes,
        "settled_s": round(settled, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    parser.add_argument("--shards", type=int, default=3, help="0: one leader")
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--replicas", type=int, default=4, help="processes of Maar")
    parser.add_argument("--server-restarts", type=int, default=2)
    parser.add_argument("--numbers", type=int, nargs="*", default=[4, 2], help="numbers of shards that follow")
    parser.add_argument("--logs", type=Path, help="folder for the logs of all processes of Maar")
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    setting = Setting(
        seed,
        given.minutes * 60,
        given.shards,
        nodes=given.nodes,
        faults=given.faults,
        replicas=given.replicas,
        server_restarts=given.server_restarts,
        numbers=given.numbers,
    )
    print(f"{given.shards} shards under faults for {given.minutes:g} minutes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="maar-shards-") as folder, witnessed_cluster() as cluster:
        furnish(cluster, setting.elastic)
        try:
            found = asyncio.run(shake(cluster, Path(folder), setting))
        finally:
            if given.logs is not None:
                given.logs.mkdir(parents=True, exist_ok=True)
                for log in cluster.folder.glob("maar-*.log"):
                    shutil.copy(log, given.logs)
    print(json.dumps(found))
    sys.exit(1 if any(found[name] for name in WRONG) else 0)


if __name__ == "__main__":
    main()
