"""Shadow mode: an observer that compares its decisions with those of another scheduler. It writes nothing.

It remembers the first decision for each pod and compares it when the other scheduler gives the pod a node. It also
counts evictions that Maar would make, and pods that only Maar would start. Deleted pods are forgotten, because a shadow
may run for weeks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import msgspec

from maar.controller.observer import Observer
from maar.controller.process import Sources, access_of, live, run_process, sources_of
from maar.controller.settings.settings import Observing
from maar.controller.snapshots.cycle import Cycle
from maar.history.address import NONE
from maar.history.history import History
from maar.kube.client.reader import Reader
from maar.model.tasks import Status
from maar.model.words import count

logger = logging.getLogger("maar")

SAY_EVERY = 30.0
"""Seconds between two log lines; tuned by hand."""
STARTED = (Status.BOUND, Status.RELEASING, Status.SUCCEEDED, Status.FAILED)
"""Statuses of a pod with a node; a short pod may have ended before the next cycle."""


class Decision(msgspec.Struct, frozen=True):
    """Where and when Maar would have bound a pod."""

    uid: str
    node: str
    at: float


class Comparison(msgspec.Struct):
    """How the decisions differ from what happened."""

    same_node: int = 0
    other_node: int = 0
    only_theirs: int = 0
    """Pods that got a node without a decision by Maar."""
    seconds_earlier: float = 0.0
    """How much earlier Maar decided, summed over all pods that both started."""
    would_evict: int = 0

    def line(self, waiting: int) -> str:
        both = self.same_node + self.other_node
        sooner = self.seconds_earlier / both if both else 0.0
        return (
            f"shadow: {count(both, 'pod')} started by both ({self.same_node} on the same node, "
            f"{sooner:.1f} s earlier by Maar on average), "
            f"{self.only_theirs} only by the other, {waiting} only by Maar, "
            f"{count(self.would_evict, 'eviction')} only by Maar"
        )


class Shadow:
    """Compares decisions with what happens in the cluster."""

    def __init__(self) -> None:
        self._last: Cycle | None = None
        self._decided: dict[str, Decision] = {}
        self._seen: set[str] = set()
        self._victims: set[str] = set()
        self._first = True
        self.comparison = Comparison()

    def on_cycle(self, cycle: Cycle) -> None:
        self._last = cycle
        self._compare(cycle)
        for bind in cycle.plan.bind:
            uid = cycle.pods[bind.task].uid
            known = self._decided.get(bind.task)
            if known is None or known.uid != uid:
                self._decided[bind.task] = Decision(uid, bind.node, cycle.now)
        victims = {cycle.pods[e.task].uid for e in cycle.plan.evict} - self._victims
        self._victims |= victims
        self.comparison.would_evict += len(victims)

    def _compare(self, cycle: Cycle) -> None:
        first, self._first = self._first, False  # Pods that ran before the start do not count.
        for changed in cycle.changed.values():
            for task in changed[1] if changed is not None else ():
                if not task.node or task.status not in STARTED or task.uid in self._seen:
                    continue
                self._seen.add(task.uid)
                decided = self._decided.pop(task.key, None)
                if decided is not None and decided.uid == task.uid:
                    if decided.node == task.node:
                        self.comparison.same_node += 1
                    else:
                        self.comparison.other_node += 1
                    self.comparison.seconds_earlier += max(cycle.now - decided.at, 0.0)
                elif not first:
                    self.comparison.only_theirs += 1

    def line(self) -> str:
        """The comparison so far in one line, for the log."""
        self._forget()
        return self.comparison.line(len(self._decided))

    def _forget(self) -> None:
        if self._last is not None:
            pods = {task.key: task.uid for task in self._last.snapshot.tasks.tasks}
            self._decided = {pod: d for pod, d in self._decided.items() if pods.get(pod) == d.uid}
            self._seen.intersection_update(pods.values())
            self._victims.intersection_update(pods.values())


class ShadowOptions(Observing, frozen=True):
    """The options of shadow mode."""

    record: Path | None = None


Web = Callable[[Observer, History], AbstractAsyncContextManager[None]]
"""Serves HTTP for an observer while the context is open."""


def run(options: ShadowOptions, web: Web | None = None) -> None:
    """Compare until stopped. Raises `RunError`."""
    run_process(_run(options, sources_of(options, NONE, write=False), web))


async def _run(options: ShadowOptions, sources: Sources, web: Web | None) -> None:
    api = await Reader.open(access_of(options))
    observer = Observer(api, options.settings, sources.config, sources.brakes, options.record, sources.history)
    served = None if web is None else web(observer, sources.history)
    await live(observer, api, sources, served, partial(_compare, observer))


async def _compare(observer: Observer) -> None:
    await observer.sync()
    logger.info("shadow mode: writes nothing, and compares itself with the other scheduler every %.0f s", SAY_EVERY)
    shadow = Shadow()
    observer.loop.on_cycle.append(shadow.on_cycle)
    async with asyncio.TaskGroup() as group:
        group.create_task(observer.observe())
        group.create_task(_say(shadow))


async def _say(shadow: Shadow) -> None:
    try:
        while True:
            await asyncio.sleep(SAY_EVERY)
            logger.info("%s", shadow.line())
    finally:
        logger.info("%s", shadow.line())
