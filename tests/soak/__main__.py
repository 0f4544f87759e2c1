"""Runs a soak and prints one line of JSON at the end: `make soak`, or `python -m tests.soak --minutes 30 --seed 1`.

Two replicas of Maar lead in turn on a real API server with kubelets, controllers and the training operator. Users
submit jobs of all kinds. Everything else goes wrong at random (`lanes`), and tenants attack (`attacks`). A third Maar
in shadow mode lives through all of it: its memory, descriptors and tasks show leaks. The exit code is 1 if the witness
finds anything wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.soak.attacks import Attacks
from tests.soak.lanes import Lanes
from tests.support.faults.replicas import Replica, Use
from tests.support.faults.stage import Stage, furnish, staged, witnessed_cluster
from tests.support.faults.witness import Wrong
from tests.support.postgres import Postgres, binaries
from tests.support.real.cluster import RealCluster

KINDS = ("gang", "gang", "gang", "wide", "single", "batch", "elastic", "elastic")
WARM_UP_BINDS = 30
"""Binds before the first measurement of what Maar uses."""
SETTLE_S = 300.0
STATUS_EVERY_S = 60.0
MOST_SHOWN = 3
"""Crashes that are shown each time: most have the same cause."""
MOST_GROWTH = 1.5
"""The shadow may use this many times the memory, descriptors and tasks of the start, and `SLACK` more."""
SLACK = Use(rss_mb=60.0, fds=60, tasks=60)


@contextmanager
def database() -> Iterator[tuple[Postgres | None, str]]:
    """A PostgreSQL and the history in it, where there is one."""
    if (place := binaries()) is None:
        yield None, "none"
        return
    with Postgres(place) as postgres:
        yield postgres, postgres.new_database()


async def soak(cluster: RealCluster, folder: Path, minutes: float, seed: int) -> dict[str, Any]:
    """Run for some minutes, let everything settle, and say what happened."""
    with database() as (postgres, history):
        async with staged(cluster, folder, seed, kinds=KINDS, options=("--history", history)) as stage:
            stage.patience = SETTLE_S
            shadow = stage.replicas.start_shadow()
            lanes, attacks = Lanes(stage, postgres, random.Random(seed)), Attacks(stage, random.Random(seed))
            await stage.progress(WARM_UP_BINDS)
            start = await used(stage, shadow)
            begun, shown = time.monotonic(), (0, 0)
            running = [asyncio.create_task(work.run()) for work in (lanes, attacks)]
            try:
                while (left := minutes * 60 - (time.monotonic() - begun)) > 0 and not any(r.done() for r in running):
                    timeout = min(left, STATUS_EVERY_S)
                    await asyncio.wait(running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                    print(status(stage, lanes, attacks, time.monotonic() - begun), flush=True)
                    shown = tell(stage, shown)
            finally:
                for one in running:
                    one.cancel()
                ended = await asyncio.gather(*running, return_exceptions=True)
            for error in ended:
                if isinstance(error, Exception):
                    raise error
            await attacks.end()
            took = (time.monotonic() - begun) / 60
            await stage.settle(SETTLE_S)
            end = await used(stage, shadow)
    tell(stage, shown)
    for problem in attacks.web_problems[:MOST_SHOWN]:
        print(f"maar web: {problem}", flush=True)
    return report(stage, lanes, attacks, seed, took, start, end)


def tell(stage: Stage, shown: tuple[int, int]) -> tuple[int, int]:
    """Print what went wrong and was not shown yet."""
    findings, crashes = stage.witness.findings, stage.replicas.crashes
    for finding in findings[shown[0] :]:
        print(f"{finding.wrong}: {finding.what}", *finding.story[-20:], sep="\n  ", flush=True)
    for crash in crashes[shown[1] :][:MOST_SHOWN]:
        print(crash, flush=True)
    return len(findings), len(crashes)


async def used(stage: Stage, shadow: Replica) -> Use:
    """What the shadow uses now."""
    found: list[Use] = []

    def measured() -> bool:
        use = shadow.use()
        found[:] = [] if use is None else [use]
        return bool(found)

    await stage.until(measured, "the shadow answers")
    return found[0]


def status(stage: Stage, lanes: Lanes, attacks: Attacks, seconds: float) -> str:
    witness, replicas = stage.witness, stage.replicas
    return (
        f"{seconds:5.0f} s: {len(stage.users.names)} jobs, {dict(witness.counts)}, {replicas.kills} kills,"
        f" {replicas.freezes} freezes, {dict(lanes.faults)}, {dict(attacks.counts)}, {len(witness.findings)} findings,"
        f" {len(replicas.crashes)} crashes"
    )


def report(
    stage: Stage, lanes: Lanes, attacks: Attacks, seed: int, minutes: float, start: Use, end: Use
) -> dict[str, Any]:
    witness, replicas = stage.witness, stage.replicas
    return {
        "seed": seed,
        "minutes": round(minutes, 1),
        "kills": replicas.kills,
        "freezes": replicas.freezes,
        "faults": sum(lanes.faults.values()),
        "over_commits": witness.count(Wrong.OVER_COMMIT) + witness.count(Wrong.BOUND_TWICE),
        "gangs_in_part": witness.count(Wrong.IN_PART),
        "lost": witness.count(Wrong.LOST),
        "left_over": witness.count(Wrong.LEFT_OVER),
        "crashes": len(replicas.crashes),
        "dodged": witness.count(Wrong.DODGED),
        "web_failures": len(attacks.web_problems),
        "jobs": len(stage.users.names),
        "binds": witness.counts["binds"],
        "evictions": witness.counts["evicted"],
        "patches": attacks.counts["patches"],
        "flooded": attacks.counts["flooded"],
        "questions": attacks.counts["questions"],
        "rss_mb_start": start.rss_mb,
        "rss_mb_end": end.rss_mb,
        "fds_start": start.fds,
        "fds_end": end.fds,
        "tasks_start": start.tasks,
        "tasks_end": end.tasks,
    }


def grew(start: Use, end: Use) -> list[str]:
    """What the shadow uses much more of than at the start."""
    names = ("rss_mb", "fds", "tasks")
    return [n for n in names if getattr(end, n) > MOST_GROWTH * getattr(start, n) + getattr(SLACK, n)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None, help="default: a random one, which is printed")
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    print(f"soak of {given.minutes:g} minutes, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="maar-soak-") as folder, witnessed_cluster() as cluster:
        furnish(cluster)
        found = asyncio.run(soak(cluster, Path(folder), given.minutes, seed))
    wrong = ("over_commits", "gangs_in_part", "lost", "left_over", "crashes", "dodged", "web_failures")
    start, end = (Use(found[f"rss_mb_{t}"], found[f"fds_{t}"], found[f"tasks_{t}"]) for t in ("start", "end"))
    leaks = grew(start, end)
    if leaks:
        print(f"grew too much: {', '.join(leaks)}", flush=True)
    print(json.dumps(found))
    sys.exit(1 if leaks or any(found[name] for name in wrong) else 0)


if __name__ == "__main__":
    main()
