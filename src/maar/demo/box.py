"""The cluster of `maar demo`: an API server and simulated kubelets in this process, `maar run` in another.

The story changes the cluster over the socket, as kubectl does, and reads what the server holds. The scheduler is a
child process, as on a real cluster, so that it can be killed. `maar web` is another one, if there is a page.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from maar.config.file import default_text
from maar.demo.child import ended, started
from maar.demo.manifests import Elastic, Gang, elastic_job, job, node, priority_class, queue
from maar.demo.page import Page
from maar.demo.picture import Column, columns, letter, owner
from maar.demo.score import Ledger
from maar.embedded.objects.kinds import EVENTS, JOBS, NODES, PODS
from maar.embedded.objects.store import Event
from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import RUNTIME, Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.model.documents import documents

Obj = dict[str, Any]

NODE_COUNT, NODE_GPUS = 16, 8
POOLS = ("a100", "v100")
"""The accelerators of the first and of the second half of the nodes."""
PRIORITIES = {"low": 10, "normal": 100, "high": 1000}
QUEUES = ("research", "product")
PATIENCE = 30.0
"""Seconds after which an expected change counts as missing; tuned by hand, far above the usual time."""


class Broken(Exception):
    """The story must stop: something required did not happen, or something forbidden did."""


class Box:
    """A cluster in one process."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="maar-demo-"))
        self.config = self.folder / "config.yaml"
        self.log = self.folder / "maar.log"
        self.kubeconfig = self.folder / "kubeconfig"
        self.page = Page(self.folder / "page.log")
        # Shorter delays than on a real cluster, where the pods of a dead node stay for five minutes.
        self.kubelets = Kubelets(start=0.2, stop=0.3, evict_after=0.5, forget_after=0.5)
        self.server = EmbeddedServer(parts=[self.kubelets, Jobs(), TrainingOperator()])
        self.ledger = Ledger()
        self.letters: dict[str, str] = {}
        self.on_pod: list[Callable[[Event], None]] = []
        """Called at once for every event of a pod; must not write."""
        self._api: Api | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._killed = False
        self._recordings = self.folder / "recordings"

    # -- open and close

    async def open(self, *, page: bool = False) -> None:
        """Start the server and create nodes, queues and priorities; the scheduler is not started."""
        self.server.api.store.listeners.append(self._listen)
        await self.server.open()
        self.server.kubeconfig(self.kubeconfig)
        self._api = await Api.open(load_access(str(self.kubeconfig)))
        self.config.write_text(default_text())
        if page:
            self._recordings.mkdir()
            await self.page.start([*self._options(), "--recordings", str(self._recordings)])
        for definition in definitions():
            await self.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        for number in range(1, NODE_COUNT + 1):
            pool = POOLS[(number - 1) * len(POOLS) // NODE_COUNT]
            await self.api.create("/api/v1/nodes", node(f"gpu-{number:02}", NODE_GPUS, pool))
        for name, value in PRIORITIES.items():
            await self.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", priority_class(name, value))
        for name in QUEUES:
            await self.api.create("/apis/scheduling.volcano.sh/v1beta1/queues", queue(name))
        await self.until(lambda: self.ledger.gpus_offered == NODE_COUNT * NODE_GPUS, "all nodes are ready")

    async def close(self) -> None:
        """Stop the scheduler and the server, and delete all files."""
        with contextlib.suppress(ProcessLookupError):
            await self.stop_scheduler()
        await self.page.stop()
        if self._api is not None:
            await self._api.close()
        await self.server.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def api(self) -> Api:
        assert self._api is not None, "the box is not open"
        return self._api

    def _listen(self, table: tuple[str, str], event: Event) -> None:
        self.ledger.take(table[1], event.type, event.item.obj, time.monotonic())
        if table == PODS.table:
            for listener in tuple(self.on_pod):
                listener(event)

    # -- the scheduler

    async def start_scheduler(self) -> int:
        """Start `maar run` as a child process; returns its id."""
        self._killed = False
        options = [*self._options(), "--no-leader-elect", "--http-port", "0"]
        if self._recordings.exists():  # for the page; each start has a file of its own
            number = len(list(self._recordings.iterdir())) + 1
            options += ["--record", str(self._recordings / f"scheduler-{number}.rec")]
        self._child = await started("run", options, self.log)
        return self._child.pid

    def _options(self) -> list[str]:
        """What the scheduler and the page have in common. The history is deleted with the folder."""
        history = self.folder / "history.sqlite"
        return ["--kubeconfig", str(self.kubeconfig), "--config", str(self.config), "--history", str(history)]

    def kill_scheduler(self) -> None:
        """Kill it with SIGKILL, so that it cannot finish anything."""
        assert self._child is not None, "no scheduler to kill"
        self._killed = True
        self._child.kill()

    async def stop_scheduler(self) -> int | None:
        """Stop the scheduler if it runs; returns its exit code."""
        child, self._child = self._child, None
        if child is None:
            return None
        if child.returncode is None and not self._killed:
            child.terminate()
        return await ended(child)

    def said(self, word: str, since: int = 0) -> list[str]:
        """The lines of the scheduler's log that contain a word, from a length of the log on."""
        text = self.log.read_bytes()[since:].decode(errors="replace") if self.log.exists() else ""
        return [_message(line) for line in text.splitlines() if word in line]

    @property
    def log_length(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    # -- changes

    async def submit(self, gang: Gang) -> None:
        self.letters[gang.name] = letter(gang.name)
        await self.api.create("/apis/batch/v1/namespaces/default/jobs", job(gang))

    async def submit_elastic(self, elastic: Elastic) -> None:
        self.letters[elastic.name] = letter(elastic.name)
        path = f"/apis/kubeflow.org/v1/namespaces/default/{elastic.kind.lower()}s"
        await self.api.create(path, elastic_job(elastic))

    async def delete(self, gang: Gang) -> None:
        await self.api.delete(f"/apis/batch/v1/namespaces/default/jobs/{gang.name}")
        await self.until(lambda: not self.pods(gang.name), f"the pods of {gang.name} are gone")

    async def finish(self, *gangs: Gang) -> None:
        """End the pods of jobs, and wait until the jobs are complete."""
        for gang in gangs:
            await self.end_pods(gang.name)
        for gang in gangs:
            await self.until(partial(self.is_done, gang), f"{gang.name} is done")

    async def end_pods(self, name: str) -> None:
        """Let the pods of a job succeed now."""
        body = {"metadata": {"annotations": {RUNTIME: "0"}}}
        for pod in self.pods(name):
            await self.api.patch(f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}", body)

    def write_config(self, text: str) -> None:
        """Replace the configuration atomically, as for a ConfigMap."""
        following = self.config.with_suffix(".new")
        following.write_text(text)
        following.replace(self.config)

    # -- state

    def pods(self, job: str) -> list[Obj]:
        return [item.obj for item in self.server.api.objects(PODS) if owner(item.obj) == job]

    def is_done(self, gang: Gang) -> bool:
        jobs = [item.obj for item in self.server.api.objects(JOBS) if item.obj["metadata"]["name"] == gang.name]
        conditions = (jobs[0].get("status") or {}).get("conditions") or [] if jobs else []
        return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)

    def running(self, name: str) -> list[Obj]:
        """The running pods of a job that are not being deleted."""
        return [pod for pod in self.pods(name) if pod["status"].get("phase") == "Running" and not _going(pod)]

    def nodes_of(self, gang: Gang) -> list[str]:
        """The nodes with pods of a job that are not being deleted."""
        pods = [pod for pod in self.pods(gang.name) if not _going(pod)]
        return sorted({pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")})

    def runs(self, gang: Gang) -> bool:
        return len(self.running(gang.name)) == gang.pods and not self.kubelets.dead.intersection(self.nodes_of(gang))

    def reason(self, gang: Gang) -> str:
        """Why a job waits, from the condition of its pods."""
        for pod in self.pods(gang.name):
            for condition in pod["status"].get("conditions") or ():
                if condition["type"] == "PodScheduled" and condition["status"] == "False" and not _going(pod):
                    return str(condition.get("message") or "")
        return ""

    def events(self, reason: str, job: str) -> list[str]:
        """The messages of events with that reason about a job and its pods, including deleted pods."""
        names = {life.name for life in self.ledger.lives.values() if life.gang == job} | {job}
        found = [item.obj for item in self.server.api.objects(EVENTS)]
        return [e["message"] for e in found if e.get("reason") == reason and e["involvedObject"]["name"] in names]

    def columns(self) -> list[Column]:
        objects = self.server.api.objects
        return columns((n.obj for n in objects(NODES)), (p.obj for p in objects(PODS)), self.letters)

    async def until(self, happened: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Wait until `happened` is true; raises `Broken` after `patience` seconds."""
        ends = time.monotonic() + patience
        while not happened():
            child = self._child
            if child is not None and child.returncode is not None and not self._killed:
                raise Broken(f"the scheduler exited with code {child.returncode}:\n{self._tail()}")
            if time.monotonic() > ends:
                raise Broken(f"did not happen within {patience:.0f} s: {what}; the scheduler's log:\n{self._tail()}")
            await asyncio.sleep(0.02)

    def _tail(self) -> str:
        return "\n".join(self.said("")[-15:])


def definitions() -> list[Obj]:
    """The CRDs, from the installed package or from the checkout."""
    folder = files("maar.embedded").joinpath("crds")
    if not folder.is_dir():
        folder = Path(__file__).parents[3] / "deploy" / "crds"
    texts = [file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".yaml")]
    return [document for text in sorted(texts) for document in documents(text) if document]


def _going(pod: Obj) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _message(line: str) -> str:
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            fields = json.loads(line)
            return str(fields.get("message") or fields.get("msg") or line)
    return line
