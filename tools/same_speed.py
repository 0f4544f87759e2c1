"""Whether two versions of Maar decide equally fast: what `bench.decide` measures, of both, in alternation.

    python tools/same_speed.py --src OTHER/src                       # this checkout against another one
    python tools/same_speed.py --src OTHER/src --lines idle victims  # only some lines

Machines are shared and their speed changes by the minute: two runs, one after the other, cannot be compared. Here each
version has a process of its own, and they decide the same scene in turns. CPU time counts. For each line it prints the
best of both and the median of the factors between two turns: the other version, this one, this one as a part of the
other. The last line is JSON, with the best of each.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
NOW = 1e6


class Line(NamedTuple):
    """A line of `bench.decide`."""

    words: str
    scene: Callable[[Any], Any]
    """The cluster, from the module `bench.scenes`."""
    turn: int = 1
    """How many decisions are one turn: short ones are noisier."""


LINES = {
    "loop": Line("the bare numpy loop, 50,000 pods, 5,000 nodes", lambda scenes: scenes.arriving(5_000, 50_000)),
    "placing": Line("50,000 pods, 5,000 nodes", lambda scenes: scenes.arriving(5_000, 50_000)),
    "small": Line("2,000 pods, 1,000 nodes", lambda scenes: scenes.arriving(1_000, 2_000), 4),
    "idle": Line("nothing to do, 50,000 pods, 5,000 nodes", lambda scenes: scenes.running(5_000, 50_000), 8),
    "impossible": Line("an impossible gang", lambda scenes: scenes.full(victims=False), 20),
    "victims": Line("4,000 victims", lambda scenes: scenes.full(victims=True), 3),
    "memory": Line("memory, 50,000 pods, 5,000 nodes", lambda scenes: scenes.running(5_000, 50_000)),
    "tenth": Line("10,000 pods, 1,000 nodes", lambda scenes: scenes.arriving(1_000, 10_000)),
    "double": Line("100,000 pods, 10,000 nodes", lambda scenes: scenes.arriving(10_000, 100_000)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the sources of the other version")
    parser.add_argument("--lines", nargs="+", choices=LINES, default=list(LINES))
    parser.add_argument("--turns", type=int, default=5, help="how many turns each version has")
    parser.add_argument("--inside", choices=LINES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        inside(given.inside)
        return
    best = {}
    for name in given.lines:
        turns = alternated(given.src.resolve(), ROOT / "src", name, 1 if name == "memory" else given.turns)
        other, this = best[name] = [min(times) for times in zip(*turns, strict=True)]
        part = statistics.median(mine / theirs for theirs, mine in turns)
        print(f"{LINES[name].words:<45} {other:9.2f} {this:9.2f} {'MB' if name == 'memory' else 'ms'} {part:7.3f}")
    print(json.dumps(best))


def alternated(other: Path, this: Path, line: str, turns: int) -> list[tuple[float, float]]:
    """What both versions took in each turn."""
    theirs, mine = Version(other, line), Version(this, line)
    found = [(theirs.turn(), mine.turn()) for _ in range(turns)]
    theirs.end()
    mine.end()
    return found


class Version:
    """A process that decides one scene with the sources of one version."""

    def __init__(self, source: Path, line: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).resolve()), "--inside", line],
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(source), str(ROOT)))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def turn(self) -> float:
        """Milliseconds of a decision, or megabytes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def inside(name: str) -> None:
    """Answer each line of input with the figure of one turn."""
    from bench import reference, scenes

    from maar.config.file import default_config
    from maar.decide import decide
    from maar.model.snapshot import Snapshot
    from maar.registry import catalog

    config, line = default_config(catalog()), LINES[name]
    cluster = line.scene(scenes)
    snapshot = Snapshot(cluster)
    decide(snapshot, config, NOW)  # a warm-up
    for _ in sys.stdin:
        used = Snapshot(cluster) if name == "loop" else snapshot  # the loop writes to its snapshot
        gc.collect()
        start = time.process_time()
        for _ in range(line.turn):
            if name == "loop":
                reference.best_fit(used)
            else:
                decide(used, config, NOW)
        took = (time.process_time() - start) / line.turn * 1000
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if name == "memory" else took, flush=True)


if __name__ == "__main__":
    main()
