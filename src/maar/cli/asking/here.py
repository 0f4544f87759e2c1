"""Answers of this process: it reads the cluster with the caller's rights, and decides as the scheduler would.

The configuration and the brakes are those that `configuration` chose. Where the caller may not list all nodes and pods
nothing is decided; the reasons are those that the scheduler wrote on her objects.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from maar.cli.asking.learned import Learned
from maar.cli.asking.reading import Reading
from maar.config.config import Config
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.forecast.forecast import ROLLOUTS
from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import PRIORITY_CLASSES
from maar.kube.picture.owners import Owner
from maar.kube.picture.picture import Picture
from maar.kube.picture.shards import sharing_of
from maar.kube.read.shards import BrokenMap
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Object
from maar.model.jobs import Job
from maar.model.plan import Plan, Wait
from maar.model.queues import Queue
from maar.model.reasons import Reason
from maar.model.snapshot import Cluster, Snapshot
from maar.model.verdicts import OTHER
from maar.shards.sharing import Sharing
from maar.views.jobs import NoJob, job_detail, job_named, job_views, reason_views
from maar.views.nodes import node_views
from maar.views.queues import queue_views
from maar.views.records import ForecastView, JobDetail, OwnerView
from maar.views.sight import ALL, Sight
from maar.views.tally import Tally
from maar.web.api.answers import JobAnswer, JobsAnswer, NodesAnswer, QueuesAnswer, WhatIfAnswer
from maar.web.api.question import Question, answered
from maar.web.forecasting.judging import calibrated
from maar.web.forecasting.keeper import Latest, categories
from maar.web.forecasting.messages import ForecastQuestion as Asking
from maar.web.forecasting.messages import QuestionHead
from maar.web.forecasting.rolling import answered as played
from maar.web.forecasting.view import forecast_view, trusted, with_forecasts, with_shifts
from maar.whatif.answer import Decided, decided
from maar.whatif.edit import Scene
from maar.whatif.patience import Patience, never
from maar.whatif.why import why

FEW = 1
"""Roll-outs of a forecast without history: only declared limits count, so all of them would be equal."""


class NotDecided(Exception):
    """The caller may not read enough for a decision."""


class Here:
    """One cluster at one time."""

    def __init__(
        self,
        reading: Reading,
        config: Config,
        now: float,
        learned: Learned = Learned(),  # noqa: B008
        brakes: BrakeSettings = BrakeSettings(),  # noqa: B008
    ) -> None:
        self._reading = reading
        self._learned = learned
        self._config = config
        self._now = now
        picture = reading.picture
        self._cluster: Cluster = picture.cluster(picture.take(now).around)
        if not reading.whole:
            self._cluster = _with_queues(self._cluster)
        self.sight = ALL if reading.everywhere else Sight(reading.namespaces)
        self._decided: Decided | None = None
        """The plan of this moment, without the brakes: all questions share it."""
        self.seconds = 0.0
        """How long it took to decide."""
        if reading.whole:
            begun = time.monotonic()
            self._decided = decided(Scene(self._cluster, config), now)
            self.seconds = time.monotonic() - begun
            snapshot = self._decided.snapshot
            plan, waits = Brakes(brakes).apply(self._decided.plan, snapshot, now), None
        else:
            snapshot = Snapshot(self._cluster)
            plan, waits = Plan(), {wait.job: wait for wait in _written(picture, self._cluster)}
        owners = {job.key: owner for job in self._cluster.jobs if (owner := _owner(picture, job)) is not None}
        self.tally = Tally(snapshot, plan, now, waits, owners, _sharing(picture))

    @property
    def _stamp(self) -> dict[str, Any]:
        return {"as_of": self._now, "age": max(time.time() - self._now, 0.0), "decided_at": self._now}

    def jobs(self, go_on: Callable[[], bool] = lambda: False) -> JobsAnswer:
        """All jobs, with forecasts while `go_on` says so."""
        items = job_views(self.tally, self.sight)
        if self._reading.whole and go_on():
            items = with_forecasts(items, self._latest(go_on))
        return JobsAnswer(**self._stamp, items=items, total=len(items), others={})

    def queues(self) -> QueuesAnswer:
        items = queue_views(self.tally, self.sight)
        return QueuesAnswer(**self._stamp, items=items, total=len(items))

    def nodes(self) -> NodesAnswer:
        items = node_views(self.tally, self.sight)
        return NodesAnswer(**self._stamp, items=items, total=len(items))

    def job(self, key: str, patience: Patience, when: bool = False) -> JobAnswer:
        """Everything about a job, after a search for changes, or with `when` a forecast instead of it."""
        try:
            key = job_named(self.tally, key, self.sight)
        except NoJob as error:
            raise NoJob(f"`{key}`: {error}") from None
        whole = self._reading.whole
        search = patience if whole and not when else never
        found = why(self._cluster, self._config, self._now, key, search, self._decided)
        predicted = ForecastView(words="unknown: you may not list all nodes and pods")
        if whole:
            predicted = self._forecast(key, patience) if when else ForecastView(words="unknown")
        detail = job_detail(self.tally, found, self.sight, forecast=predicted)
        return JobAnswer(**self._stamp, detail=detail if whole else self._undecided(detail))

    def _undecided(self, detail: JobDetail) -> JobDetail:
        """The answer with what is known without a decision."""
        wait = self.tally.waits.get(f"{detail.job.namespace}/{detail.job.name}")
        reasons = () if wait is None else reason_views(wait.reasons, self.sight)
        start = "runs" if detail.job.state == "running" else "waits"
        unblock = replace(detail.unblock, changes=(), complete=False)
        return replace(detail, start=start, place=None, reasons=reasons, unblock=unblock)

    def what_if(self, question: Question) -> WhatIfAnswer:
        if not self._reading.whole:
            raise NotDecided(f"nothing can be decided here: you may not list {', '.join(self._reading.unseen)}")
        view, after = answered(question, self._cluster, self._config, self._now, self.sight, self._beside())
        if question.seconds:
            before = Scene(self._cluster, self._config)
            head = QuestionHead(self._now, question.seconds, adapts=True)
            answer = played(
                Asking(head, (before, after), self._learned.samples, self._categories(), self._learned.past)
            )
            was, then = (
                calibrated(made, {job.key: job for job in scene.cluster.jobs}, self._learned.verdicts)
                for made, scene in zip(answer.forecasts, (before, after), strict=True)
            )
            view = with_shifts(view, answer, was, then, self.sight)
        return WhatIfAnswer(**self._stamp, what_if=view)

    def _categories(self) -> dict[str, str]:
        return categories(self._reading.picture, self._cluster.jobs)

    def _beside(self) -> list[tuple[AnyKind, Object]]:
        return [pair for pair in self._reading.objects if pair[0] is PRIORITY_CLASSES]

    def _forecast(self, key: str, go_on: Callable[[], bool]) -> ForecastView:
        latest = self._latest(go_on, key)
        found = latest.shown.get(key)
        if found is None:
            return ForecastView(words="unknown")
        job = self.tally.snapshot.jobs.jobs[self.tally.snapshot.jobs.number[key]]
        trust = trusted(self._learned.verdicts.judged, found.queue, self._now - job.created)
        return forecast_view(found, latest.made, time.time(), trust=trust)

    def _latest(self, go_on: Callable[[], bool], only: str = "") -> Latest:
        """The forecast of all jobs or of one, made in this process."""
        learned, scene = self._learned, Scene(self._cluster, self._config)
        plan = None if self._decided is None else self._decided.plan
        head = QuestionHead(self._now, math.inf, ROLLOUTS if learned.samples else FEW, places=not only)
        answer = played(Asking(head, (scene,), learned.samples, self._categories(), learned.past), go_on, plan, only)
        (made,) = answer.forecasts
        shown = calibrated(made, {job.key: job for job in self._cluster.jobs}, learned.verdicts)
        return Latest(made, shown, answer.places, answer.seconds, len(learned.samples))


def _sharing(picture: Picture) -> Sharing | None:
    """The shards of the cluster, if it has any and the caller may read them."""
    try:
        return sharing_of(picture)
    except BrokenMap:
        return None


def _with_queues(cluster: Cluster) -> Cluster:
    """The cluster with the queues that its jobs name, which the caller may not list."""
    missing = sorted({job.queue for job in cluster.jobs} - {queue.name for queue in cluster.queues} - {""})
    return replace(cluster, queues=(*cluster.queues, *map(Queue, missing)))


def _owner(picture: Picture, job: Job) -> OwnerView | None:
    """The object that stands for a job: what its owner submitted, else its PodGroup, else its only pod."""
    owner, group = picture.owner_of(job.key), picture.group_of(job.key)
    if isinstance(owner, Owner):
        resource = picture.resource(owner.kind)
        return OwnerView(api_version=resource.api_version, kind=resource.kind, name=owner.name)
    if owner is not None:
        return OwnerView(api_version=owner.api_version, kind=owner.kind, name=owner.name)
    if group is not None:
        resource = picture.resource(group.kind)
        return OwnerView(api_version=resource.api_version, kind=resource.kind, name=group.item.name)
    if picture.is_alone(job.key):
        return OwnerView(api_version="v1", kind="Pod", name=job.key.partition("/")[2])
    return None


def _written(picture: Picture, cluster: Cluster) -> Iterator[Wait]:
    """Why jobs wait, as the scheduler last wrote it: on a pod, or on the object that their owner submitted."""
    pods: dict[str, Reason] = {}
    for task in cluster.tasks:
        pod = picture.pod(task.key)
        if pod is not None and not pod.spec.node_name and pod.scheduled.message:
            said = pod.scheduled
            pods.setdefault(task.job, Reason("maar", said.reason or OTHER, said.message))
    for job in cluster.jobs:
        owner = picture.owner_of(job.key)
        notes = owner.item.metadata.annotations if isinstance(owner, Owner) else {}
        reason = pods.get(job.key)
        if reason is None and notes.get(known.WHY) and (job.elastic is None or job.elastic.suspended):
            reason = Reason("maar", OTHER, notes[known.WHY])
        if reason is not None:
            yield Wait(job.key, (reason,))
