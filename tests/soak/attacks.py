"""Tenants who attack during a soak: one dodges evictions, one floods with pods that never fit, one asks `maar web`.

They write to the API server directly, as tenants do, and all the time, beside every other fault. None of it may harm
the others: a decided eviction is carried out, others' pods are bound, and `maar web` answers.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.support.burst import stubborn
from tests.support.faults.gangs import PYTORCHJOBS
from tests.support.faults.jobs import PATHS
from tests.support.faults.stage import Stage
from tests.support.faults.witness import Wrong
from tests.support.live import GPU, NAMESPACE
from tests.support.real.processes import free_port, listens

from maar.kube.client.errors import ApiError, NotFound
from maar.kube.wire.api_resources import PODS

PATCHES_PER_SECOND = 35
"""For each object that the dodging tenant patches."""
DODGING = 2
"""Objects that she patches at once. More would keep the API server of a small machine busy."""
STAYS_S = 60.0
"""She changes to another job after this time, if hers still exists."""
OUTLIVES_S = 60.0
"""A victim that is still there this long after the first request for its eviction, and is asked again, dodges."""
REQUESTS = 6
"""It must have been asked for this often: a replica that was killed may have asked for what its successor does not."""
FLOODED = "flooded"
"""A namespace of its own, so that it pays for itself."""
BURST = 1000
"""Pods that never fit, at once."""
AT_ONCE = 16
FLOOD_EVERY_S = (5.0, 15.0)
FEW = 2
"""Binds of others that a flood outlasts."""
ASK_EVERY_S = (1.0, 4.0)
BIG = {"jobs": 100, "pods": 10_000}
"""A question of about 33 kB."""
MEMORY = 6 << 30
"""Bytes of address space that the process may have; a question that needs more ends it, which counts as wrong."""
ANSWERS_S = 120.0
"""An answer that takes longer has failed, however busy the machine is."""


class Attacks:
    """All attacking tenants."""

    def __init__(self, stage: Stage, dice: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        """Patches, pods that flooded the cluster, questions and answers by status."""
        self.dodged: set[str] = set()
        """Uids of victims that outlived their evictions."""
        self.web_problems: list[str] = []
        self._stage = stage
        self._dice = dice
        self._numbers = itertools.count()
        self._web = ""
        """The process of `maar web`."""
        self._port = 0

    async def run(self) -> None:
        """Attack until cancelled."""
        async with self._serving(), asyncio.TaskGroup() as group:
            for _ in range(DODGING):
                group.create_task(self._dodge())
            group.create_task(self._flood())
            group.create_task(self._ask())
            group.create_task(self._judge())

    async def end(self) -> None:
        """Remove what is left of the attacks, so that everything can settle."""
        await self._drain()

    # -- evictions

    async def _dodge(self) -> None:
        """Patch an object of a job that may be evicted all the time, until it is gone."""
        while True:
            target = self._target()
            if target is None:
                await asyncio.sleep(0.1)
                continue
            ends = time.monotonic() + STAYS_S
            while time.monotonic() < ends and await self._patch(target):
                pass

    def _target(self) -> str | None:
        """The path of a pod that runs or waits, or of an elastic job; victims that are asked to go come first."""
        pods = self._stage.witness.objects["pods"].values()
        low = [p for p in pods if p["spec"].get("priorityClassName") == "low" and not _leaves(p)]
        asked = [p for p in low if p["metadata"]["uid"] in self._stage.proxy.evictions]
        runs, waits = ([p for p in low if bool(p["spec"].get("nodeName")) is on] for on in (True, False))
        among = asked or self._dice.choice([runs, runs, runs, waits])
        elastic = list(self._stage.witness.objects[PYTORCHJOBS].values())
        if not asked and elastic and self._dice.random() < 0.2:
            return f"{PATHS[PYTORCHJOBS]}/{self._dice.choice(elastic)['metadata']['name']}"
        return PODS.path(NAMESPACE, self._dice.choice(among)["metadata"]["name"]) if among else None

    async def _patch(self, path: str) -> bool:
        """Change an annotation, not too often; returns whether the object still exists."""
        body = {"metadata": {"annotations": {"evil.dev/tick": str(next(self._numbers))}}}

        async def write() -> bool:
            try:
                await self._stage.live.api.patch(path, body, "merge")
            except NotFound:
                return False
            except ApiError:  # the server restarts
                return True
            self.counts["patches"] += 1
            return True

        there, _ = await asyncio.gather(write(), asyncio.sleep(1 / PATCHES_PER_SECOND))
        return there

    async def _judge(self) -> None:
        """Look for victims that stay although they are asked to go again and again."""
        while True:
            await asyncio.sleep(1.0)
            stage = self._stage
            alive = {p["metadata"]["uid"]: k for k, p in stage.witness.objects["pods"].items() if not _leaves(p)}
            for uid, times in stage.proxy.eviction_times.items():
                if uid in self.dodged or uid not in alive or len(times) < REQUESTS:
                    continue
                if times[-1] - times[0] > OUTLIVES_S:
                    self.dodged.add(uid)
                    stage.witness.found(Wrong.DODGED, f"{alive[uid]} outlived {len(times)} requests for its eviction")

    # -- statuses

    async def _flood(self) -> None:
        """Create many pods that never fit, while others' pods are bound."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLOODED}}
        await stubborn(lambda: self._stage.live.create("/api/v1/namespaces", namespace))
        while True:
            await asyncio.sleep(self._dice.uniform(*FLOOD_EVERY_S))
            burst = next(self._numbers)
            slots = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(self._flooding(f"never-{burst}-{i}", slots) for i in range(BURST)))
            try:
                await self._stage.progress(FEW)
            except AssertionError as error:
                self._stage.witness.found(Wrong.LOST, f"flood: {error}")
            await self._drain()

    async def _flooding(self, name: str, slots: asyncio.Semaphore) -> None:
        resources = {"limits": {GPU: "1000"}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": FLOODED},
            "spec": {
                "schedulerName": "maar",
                "containers": [{"name": "c", "image": "train", "resources": resources}],
                "terminationGracePeriodSeconds": 0,
            },
        }
        self._stage.witness.expected.add(f"pods/{FLOODED}/{name}")
        async with slots:
            with suppress(ApiError):
                await self._stage.live.api.create(PODS.path(FLOODED), pod)
                self.counts["flooded"] += 1

    async def _drain(self) -> None:
        while any(key.startswith(f"{FLOODED}/") for key in self._stage.witness.objects["pods"]):
            with suppress(ApiError):
                await self._stage.live.api.request("DELETE", PODS.path(FLOODED), body={"gracePeriodSeconds": 0})
            await asyncio.sleep(0.5)

    # -- questions

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        """`maar web` beside the replicas, with a limit on its memory."""
        processes, self._port = self._stage.cluster.processes, free_port()
        self._web = f"web-{next(self._numbers)}"
        options = ("--port", str(self._port), "--kubeconfig", str(self._stage.cluster.kubeconfig), "--history", "none")
        command = ["prlimit", f"--as={MEMORY}", sys.executable, "-m", "maar.cli.main", "web", *options]
        processes.start(self._web, [*command, "--lease-namespace", NAMESPACE])
        await asyncio.to_thread(processes.await_answer, self._web, lambda: listens(self._port))
        try:
            yield
        finally:
            processes.end(self._web)
            text = processes.log(self._web).read_text(errors="replace")
            if "Traceback" in text:
                self.web_problems.append(f"a traceback: {text[text.index('Traceback') :][:2000]}")

    async def _ask(self) -> None:
        """Ask expensive questions; every second client leaves before its answer. Another user asks for her jobs."""
        body = json.dumps({"manifests": [_job(i) for i in range(BIG["jobs"])]}).encode()
        while True:
            await asyncio.sleep(self._dice.uniform(*ASK_EVERY_S))
            leaves = bool(next(self._numbers) % 2)
            asking = asyncio.create_task(self._answer("POST", "/api/v1/what-if", body, leaves))
            await self._answer("GET", "/api/v1/jobs?limit=1", b"", False)
            await asking
            if not self._stage.cluster.processes.runs(self._web):
                log = self._stage.cluster.processes.log(self._web).read_text(errors="replace")
                self.web_problems.append(f"maar web has ended: {log[-2000:]}")
                return

    async def _answer(self, method: str, path: str, body: bytes, leaves: bool) -> None:
        """Send one request; without an answer, or with one that says that Maar failed, something is wrong."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        head += f"Authorization: Bearer {self._stage.cluster.token}\r\nContent-Type: application/json\r\n\r\n"
        self.counts["questions"] += 1
        try:
            async with asyncio.timeout(ANSWERS_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    writer.write(head.encode() + body)
                    await writer.drain()
                    status = "left" if leaves else (await reader.readline()).decode(errors="replace")[9:12]
                finally:
                    writer.close()
        except TimeoutError:
            self.web_problems.append(f"no answer to {method} {path} in {ANSWERS_S:g} s")
            return
        except OSError as error:
            self.web_problems.append(f"{method} {path}: {error}")
            return
        self.counts[f"answered_{status}"] += 1
        if status in ("", "500"):
            self.web_problems.append(f"{method} {path}: status {status or 'missing'}")


def _leaves(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _job(number: int) -> dict[str, Any]:
    """A job of a question: small in the text, and large when its pods are made."""
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"big-{number}", "namespace": NAMESPACE, "annotations": {"maar.dev/gang": "true"}},
        "spec": {
            "parallelism": BIG["pods"],
            "completions": BIG["pods"],
            "template": {"spec": {"schedulerName": "maar", "restartPolicy": "Never", "containers": [container]}},
        },
    }
