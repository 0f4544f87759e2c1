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
from maar.views.answers import WhatIfView
from maar.views.sight import Sight
from maar.web.api.asking import Question, decided_with, edits_of, namespaces_of, read_manifests
from maar.web.api.errors import Refused
from maar.web.api.writing import Submission, read
from maar.whatif.edit import Edit, EditError, Scene
from maar.whatif.edits import applied
from maar.whatif.patience import Patience
from maar.whatif.why import Why, why


class Task(msgspec.Struct, frozen=True):
    """A question."""

    def answer(self, scene: Scene | None) -> Any:
        """Its answer, for a scene if it is about one; may raise `Refused`."""
        raise NotImplementedError


class Answered(NamedTuple):
    """The answer to a what-if question."""

    view: WhatIfView
    edits: list[Edit]
    """Those of the question, and of its manifests."""


class AsksRights(NamedTuple):
    """Instead of an answer: whether the viewer may see these namespaces has to be asked first."""

    namespaces: frozenset[str]


class WhatIf(Task, frozen=True):
    """What edits would change."""

    question: Question
    now: float
    sight: Sight
    beside: tuple[Object, ...] = ()
    """PriorityClasses of the cluster."""
    asked: bool = False
    """Whether all namespaces of manifests have been asked for."""

    def answer(self, scene: Scene | None) -> Answered | AsksRights:
        assert scene is not None
        try:
            edits = edits_of(self.question, scene.cluster, self.now, self.sight, _beside(self.beside))
        except Refused as refused:
            if refused.status != 403 or self.asked:
                raise
            more = namespaces_of(self.question.manifests) - self.sight.namespaces
            if not more:
                raise
            return AsksRights(more)
        view, _ = decided_with(edits, len(edits) - len(self.question.edits), scene, self.now, self.sight)
        return Answered(view, edits)


class Added(Task, frozen=True):
    """The edits that add objects to a cluster."""

    manifests: list[dict[str, Any]]
    now: float
    sight: Sight
    beside: tuple[Object, ...] = ()

    def answer(self, scene: Scene | None) -> list[Edit]:
        assert scene is not None
        edits = read_manifests(self.manifests, self.now, self.sight, _beside(self.beside))
        try:
            applied(scene, edits)
        except EditError as error:
            known = frozenset(job.namespace for job in scene.cluster.jobs)
            raise Refused(422, self.sight.said(error.problem, known), "manifests") from None
        return edits


class WhyWaits(Task, frozen=True):
    """Everything about one job."""

    job: str
    now: float
    seconds: float
    """For the search for changes."""

    def answer(self, scene: Scene | None) -> Why:
        assert scene is not None
        patience = Patience(self.seconds, time.monotonic)
        return why(scene.cluster, scene.config, self.now, self.job, patience)


class Plain(NamedTuple):
    """A `Manifest` without its kind, which cannot be sent."""

    namespace: str
    name: str
    document: dict[str, Any]
    completed: tuple[str, ...]
    warnings: tuple[str, ...]

    def whole(self) -> Manifest:
        kind, resource = resource_of(self.document)
        return Manifest(kind, resource, *self)


class Read(Task, frozen=True):
    """The manifests of a submission, checked and completed."""

    submission: Submission
    names: tuple[str, ...]
    """Our scheduler names."""

    def answer(self, scene: Scene | None) -> list[Plain]:
        return [Plain(*manifest[2:]) for manifest in read(self.submission, self.names)]


def _beside(items: tuple[Object, ...]) -> list[tuple[AnyKind, Object]]:
    return [(PRIORITY_CLASSES, item) for item in items]
