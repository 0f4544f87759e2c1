"""Writes a flame graph of where Maar spends its time: `make profile-decide`, `make profile-live`.

`decide` is one process that makes the same first decision again and again: a full cluster with a long backlog
(`bench.backlog`). `live` is `maar run` on an embedded API server, on a full cluster where gangs end and others come.
py-spy starts the process and looks at its stacks from outside, so Maar runs as it always does. The width of a box is
the share of the samples in which a thread was busy there.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from tests.support.live import OUR_CRDS, Live, connected

from bench import backlog
from maar.decide import decide
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import EmbeddedServer
from maar.model.snapshot import Snapshot

RATE = 100
"""Samples a second."""
GANG = 8
AT_ONCE = 32


def sampled(output: Path, *command: str, seconds: float = 0.0) -> list[str]:
    """A command that runs a Python program and writes a flame graph of it; with `seconds`, it ends it after them."""
    output.parent.mkdir(parents=True, exist_ok=True)
    spy = str(Path(sysconfig.get_path("scripts")) / "py-spy")
    limit = ["--duration", str(round(seconds))] if seconds else []
    record = [spy, "record", "--rate", str(RATE), "--function", *limit, "--output", str(output)]
    return [*record, "--", sys.executable, *command]


def deciding(nodes: int, jobs: int, seconds: float) -> None:
    """Decide again and again, each time as if it was the first time."""
    config = backlog.configured(evict=True)
    cluster = backlog.scene(nodes, jobs, differ=True, seed=0)
    ends = time.monotonic() + seconds
    while True:
        decide(Snapshot(cluster), config, backlog.NOW)
        if time.monotonic() >= ends:
            return


async def living(kubeconfig: Path, nodes: int, jobs: int, maar: subprocess.Popen[bytes]) -> None:
    """Fill the cluster with gangs, let others wait, and replace running gangs, until Maar has ended."""
    async with connected(kubeconfig) as cluster:
        await cluster.crds(OUR_CRDS)
        await cluster.nodes(nodes, gpu=GANG)
        names = [f"gang-{i:05}" for i in range(nodes + jobs)]
        for first in range(0, len(names), AT_ONCE):
            await asyncio.gather(*(cluster.gang(name, GANG, gpu=1) for name in names[first : first + AT_ONCE]))
        while maar.poll() is None:
            await replace(cluster, len(names))
            names.append(f"gang-{len(names):05}")


async def replace(cluster: Live, number: int) -> None:
    """The gang that runs longest ends, and another one comes."""
    running = sorted(pod.name for pod in await cluster.pods() if pod.phase == "Running" and not pod.leaving)
    await asyncio.gather(*(cluster.delete(name) for name in running[:GANG]))
    await cluster.gang(f"gang-{number:05}", GANG, gpu=1)
    await asyncio.sleep(0.2)


def main() -> None:
    """Write the flame graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("decide", "live", "deciding"), help="`deciding` is what is sampled")
    parser.add_argument("--nodes", type=int, help="default: 600 for `decide`, 100 for `live`")
    parser.add_argument("--jobs", type=int, help="gangs that wait; default: 1000 for `decide`, 200 for `live`")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to sample, about")
    parser.add_argument("--output", type=Path, help="default: build/profile-WHAT.svg")
    given = parser.parse_args()
    usual = (100, 200) if given.what == "live" else (600, 1_000)
    nodes, jobs = given.nodes or usual[0], given.jobs or usual[1]
    output = given.output or Path("build") / f"profile-{given.what}.svg"
    if given.what == "deciding":
        deciding(nodes, jobs, given.seconds)
        return
    if given.what == "decide":
        size = ("--nodes", str(nodes), "--jobs", str(jobs), "--seconds", str(given.seconds))
        subprocess.run(sampled(output, "-m", "bench.profile", "deciding", *size), check=True)
    else:
        profile_live(output, nodes, jobs, given.seconds)
    print(f"wrote {output}: open it in a browser, and click a box to see only what is above it")


def profile_live(output: Path, nodes: int, jobs: int, seconds: float) -> None:
    """Sample `maar run` for some seconds."""
    server = EmbeddedServer(parts=[Kubelets()]).start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = server.kubeconfig(Path(folder) / "kubeconfig")
            run = (
                "-m",
                "maar.cli.main",
                "run",
                "--kubeconfig",
                str(kubeconfig),
                "--history",
                "none",
                "--http-port",
                "0",
            )
            with subprocess.Popen(sampled(output, *run, seconds=seconds)) as spied:
                asyncio.run(living(kubeconfig, nodes, jobs, spied))
            if spied.returncode:
                sys.exit(spied.returncode)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
