"""What a worker can be asked. Each task is plain data, and everything that a user sent is read in the worker.

Tasks and answers go as pickles, which keep what pods share: only between `maar web` and its own children.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import msgspec

from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import PRIORITY_CLASSES
from maar.kube.submit.manifests import Manifest, resource_of
from maar.kube.wire.base import Object
from maar.model.plan import Plan
from maar.model.snapshot import Snapshot
from maar.views.answers import WhatIfView
from maar.views.sight import Sight
from maar.web.api.errors import Refused
from maar.web.api.question import Question, decided_with, edits_of, namespaces_of, read_manifests
from maar.web.api.writing import Submission, read
from maar.whatif.answer import Decided, decided_on
from maar.whatif.edit import Edit, EditError, Scene
from maar.whatif.edits import applied
from maar.whatif.patience import Patience
from maar.whatif.started import PlanOutcome
from maar.whatif.why import Why, why


class About:
    """What questions are about: a scene, and its decision, which they share."""

    def __init__(self, scene: Scene, at: float | None = None, plan: Plan | None = None) -> None:
        """`plan` is the one of this time, if it is known."""
        self.scene = scene
        self._at = at
        self._plan = plan
        self._before: Decided | None = None

    def before(self, now: float) -> Decided:
        """The plan without any change, decided at most once for a time."""
        if self._before is None or self._at != now:
            snapshot = Snapshot(self.scene.cluster)
            if self._plan is not None and self._at == now:
                self._before = Decided(snapshot, self._plan, PlanOutcome(snapshot, self.scene.config, self._plan))
            else:
                self._before = decided_on(snapshot, self.scene, now)
            self._at = now
        return self._before


class WorkerTask(msgspec.Struct, frozen=True):
    """A question."""

    def answer(self, about: About | None) -> Any:
        """Its answer, if it is about a cluster for that; may raise `Refused`."""
        raise NotImplementedError


class Answered(NamedTuple):
    """The answer to a what-if question."""

    view: WhatIfView
    edits: list[Edit]
    """The edits of the question, and of its manifests."""


class AsksRights(NamedTuple):
    """Instead of an answer: whether the viewer may see these namespaces has to be asked first."""

    namespaces: frozenset[str]


class WhatIf(WorkerTask, frozen=True):
    """What edits would change."""

    question: Question
    now: float
    sight: Sight
    beside: tuple[Object, ...] = ()
    """PriorityClasses of the cluster."""
    asked: bool = False
    """Whether all namespaces of manifests have been asked for."""

    def answer(self, about: About | None) -> Answered | AsksRights:
        assert about is not None
        scene = about.scene
        try:
            edits = edits_of(self.question, scene.cluster, self.now, self.sight, _beside(self.beside))
        except Refused as refused:
            if refused.status != 403 or self.asked:
                raise
            more = namespaces_of(self.question.manifests) - self.sight.namespaces
            if not more:
                raise
            return AsksRights(more)
        added = len(edits) - len(self.question.edits)
        view, _ = decided_with(edits, added, scene, self.now, self.sight, lambda: about.before(self.now))
        return Answered(view, edits)


class Added(WorkerTask, frozen=True):
    """The edits that add objects to a cluster."""

    manifests: list[dict[str, Any]]
    now: float
    sight: Sight
    beside: tuple[Object, ...] = ()

    def answer(self, about: About | None) -> list[Edit]:
        assert about is not None
        scene = about.scene
        edits = read_manifests(self.manifests, self.now, self.sight, _beside(self.beside))
        try:
            applied(scene, edits)
        except EditError as error:
            known = frozenset(job.namespace for job in scene.cluster.jobs)
            raise Refused(422, self.sight.said(error.problem, known), "manifests") from None
        return edits


class WhyWaits(WorkerTask, frozen=True):
    """Everything about one job."""

    job: str
    now: float
    seconds: float
    """For the search for changes."""

    def answer(self, about: About | None) -> Why:
        assert about is not None
        scene = about.scene
        patience = Patience(self.seconds, time.monotonic)
        return why(scene.cluster, scene.config, self.now, self.job, patience, about.before(self.now))


class PlainManifest(NamedTuple):
    """A `Manifest` without its kind, which cannot be sent."""

    namespace: str
    name: str
    document: dict[str, Any]
    completed: tuple[str, ...]
    warnings: tuple[str, ...]

    def whole(self) -> Manifest:
        kind, resource = resource_of(self.document)
        return Manifest(kind, resource, *self)


class ReadSubmission(WorkerTask, frozen=True):
    """The manifests of a submission, checked and completed."""

    submission: Submission
    names: tuple[str, ...]
    """Our scheduler names."""

    def answer(self, about: About | None) -> list[PlainManifest]:
        return [PlainManifest(*manifest[2:]) for manifest in read(self.submission, self.names)]


def _beside(items: tuple[Object, ...]) -> list[tuple[AnyKind, Object]]:
    return [(PRIORITY_CLASSES, item) for item in items]
