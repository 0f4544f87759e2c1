"""How far four walks go through a running Maar: the files that they pass, and the hops between files.

    .venv/bin/python -m tools.walks                 # of this checkout
    .venv/bin/python -m tools.walks --src OTHER/src # of another one
    .venv/bin/python -m tools.walks --names         # with the names of all functions, in the order of their calls

`maar run` and `maar web` of that version run on the embedded API server of this checkout, and are traced (as
`tools/traced_run.py` traces a decision) while one thing happens, which has happened once before:

- `pod`: a pod is created, bound, and the bind is confirmed by the watch.
- `reason`: a gang is created that no node fits, until the condition is on its PodGroup.
- `question`: the page asks `maar web` about one job.
- `resize`: an elastic job is created that can grow, until its object has the larger size.

It prints JSON: `files` are the files of `src/maar` in which a function was called, `hops` the different pairs of files
with a call from one to the other. The pure half, which `tools/traced_run.py` counts, is left out, as if it were a
library. `docs/architecture.md` describes the walks, and `tests/test_walks.py` compares it with the trace.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.traced_run import ROOT, Trace, environment

PURE = ("model", "lengths", "config", "elastic", "session", "plugins", "actions", "shards", "whatif", "forecast")
BEGIN, END = signal.SIGUSR1, signal.SIGUSR2
TRAININGS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
POOL = "pool"


@dataclass(frozen=True)
class Walk:
    """What a process has passed."""

    files: list[str]
    hops: int
    names: list[str]
    """The functions in the order of their calls, as Python paths; a coroutine that goes on is there again."""


# -- in the traced process


def inside(out: Path, arguments: list[str]) -> None:
    """Be the command `maar`, and trace what happens between two signals."""
    import maar
    from maar.cli.main import main

    folder = f"{Path(maar.__file__).parent}{os.sep}"
    traces: list[Trace] = []

    def begin(*_: object) -> None:
        traces.append(Trace(folder, tuple(f"{folder}{name}{os.sep}" for name in PURE)))
        _write(out, {})
        traces[-1].__enter__()

    def end(*_: object) -> None:
        trace = traces[-1]
        trace.__exit__()
        names = [f"maar.{file[len(folder) : -3].replace(os.sep, '.')}.{name}" for file, name in trace.passed]
        files = sorted(file[len(folder) :] for file in trace.files)
        _write(out, {"files": files, "hops": len(trace.hops), "names": names})

    signal.signal(BEGIN, begin)
    signal.signal(END, end)
    sys.argv = ["maar", *arguments]
    main()


def _write(out: Path, found: dict[str, object]) -> None:
    part = out.with_suffix(".part")
    part.write_text(json.dumps(found))
    part.replace(out)


# -- around it


class Traced:
    """A command of Maar that is traced."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, log: Path) -> None:
        self._process = process
        self._out = out
        self.log = log

    @asynccontextmanager
    async def tracing(self) -> AsyncIterator[list[Walk]]:
        """Trace what happens while the context is open; afterwards its list has the walk."""
        found: list[Walk] = []
        await self._signal(BEGIN)
        yield found
        found.append(Walk(**await self._signal(END)))

    async def _signal(self, number: signal.Signals) -> dict[str, Any]:
        from tests.support.patience import until

        self._out.unlink(missing_ok=True)
        self._process.send_signal(number)
        await until(lambda: self._out.exists() or self._process.poll() is not None, "the process answers")
        return dict(json.loads(self._out.read_text()))


@contextmanager
def command(src: Path, folder: Path, name: str, *options: str) -> Iterator[Traced]:
    """A command of the Maar in `src`, with signals that begin and end a trace."""
    out, log = folder / f"{name}.json", folder / f"{name}.log"
    asked = [sys.executable, "-P", "-m", "tools.walks", "--inside", str(out), name, *options]
    with log.open("w") as text, subprocess.Popen(asked, env=environment(src), stdout=text, stderr=text) as process:
        try:
            yield Traced(process, out, log)
        finally:
            process.terminate()


async def walks(src: Path) -> dict[str, Walk]:
    """The four walks of the Maar in `src`."""
    from tests.support.live import OUR_CRDS, connected

    from maar.demo.manifests import node
    from maar.embedded.parts.jobs import Jobs
    from maar.embedded.parts.kubelets import Kubelets
    from maar.embedded.parts.operators import TrainingOperator
    from maar.embedded.server import EmbeddedServer
    from maar.kube.wire.api_resources import NODES

    server = EmbeddedServer(parts=[Kubelets(start=0.0, stop=0.0), Jobs(), TrainingOperator()])
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        kubeconfig = folder / "kubeconfig"
        common = ("--kubeconfig", str(kubeconfig), "--history", "none", "--lease-namespace", "default")
        async with server:
            server.kubeconfig(kubeconfig)
            async with connected(kubeconfig) as cluster:
                await cluster.crds(OUR_CRDS)
                await cluster.priority("normal", 100)
                for name in ("n0", "n1"):
                    await cluster.create(NODES.path(), node(name, 8, POOL))
                with command(src, folder, "run", *common, "--http-port", "0") as maar:
                    found = await _written(cluster, maar)
                with command(src, folder, "web", *common, "--port", "0", "--anonymous") as maar:
                    found["question"] = await _asked(maar)
    return found


async def _written(cluster: Any, maar: Traced) -> dict[str, Walk]:
    """The walks of `maar run`."""
    steps: dict[str, Callable[[str], Awaitable[None]]] = {
        "pod": lambda name: _binds(cluster, name),
        "reason": lambda name: _waits(cluster, name),
        "resize": lambda name: _grows(cluster, name),
    }
    found = {}
    for walk, step in steps.items():
        await step(f"{walk}-first")
        async with maar.tracing() as traced:
            await step(f"{walk}-traced")
            await step(f"{walk}-last")  # when it is done, Maar has heard what became of the one before
        found[walk] = traced[0]
    return found


async def _binds(cluster: Any, name: str) -> None:
    """A pod, until it has a node."""
    await cluster.pod(name)
    await cluster.until(lambda pods: any(pod.name == name and pod.node for pod in pods))


async def _waits(cluster: Any, name: str) -> None:
    """A gang that no node fits, until the condition of its PodGroup says so."""
    from maar.kube.kinds.volcano_podgroup import KIND

    await cluster.gang(name, 1, gpu=9)

    async def told() -> bool:
        status = (await cluster.get(KIND.resource.path("default", name))).get("status", {})
        return any(condition["type"] == "Unschedulable" for condition in status.get("conditions", ()))

    await cluster.eventually(told, f"{name} has a condition")


async def _grows(cluster: Any, name: str) -> None:
    """An elastic job between one worker and two, until it has two."""
    from maar.demo.manifests import Elastic, elastic_job

    await cluster.create(TRAININGS, elastic_job(Elastic(name, "PyTorchJob", 1, 2, 1, POOL, "default")))

    async def large() -> bool:
        spec = (await cluster.get(f"{TRAININGS}/{name}"))["spec"]
        return bool(spec["pytorchReplicaSpecs"]["Worker"]["replicas"] == 2)

    await cluster.eventually(large, f"{name} has two workers")


async def _asked(maar: Traced) -> Walk:
    """The walk of a question to `maar web`."""
    import aiohttp
    from tests.support.patience import until

    base = await until(lambda: re.findall(r"serving at (http://\S+)/\n", maar.log.read_text()), "maar web serves")
    async with aiohttp.ClientSession() as session:

        async def answers(path: str) -> bool:
            async with session.get(f"{base[0]}{path}") as answer:
                return answer.status == 200 and bool(await answer.read())

        path = "/api/v1/jobs/default/reason-traced?unblock=false"
        await until(lambda: answers("/readyz"), "maar web is ready")
        await until(lambda: answers(path), "the first answer")
        async with maar.tracing() as traced:
            assert await answers(path)
    return traced[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the sources of the version")
    parser.add_argument("--names", action="store_true", help="print the functions too")
    given = parser.parse_args()
    found = asyncio.run(walks(given.src))
    shown = {
        name: {"files": len(walk.files), "hops": walk.hops} | ({"names": walk.names} if given.names else {})
        for name, walk in found.items()
    }
    print(json.dumps(shown, indent=2))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(Path(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(main())
