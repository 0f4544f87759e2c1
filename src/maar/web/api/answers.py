"""The bodies of all answers. Each says how old it is."""

from __future__ import annotations

from maar.views.answers import WhatIfView
from maar.views.records import (
    ClusterView,
    DecisionView,
    JobDetail,
    JobView,
    NodeView,
    QueueView,
    RecordingView,
    UtilisationView,
    View,
)


class Answer(View, frozen=True):
    """What every answer has."""

    as_of: float
    """Everything that the cluster showed until then is in the answer."""
    age: float
    """Seconds since then."""
    decided_at: float
    """When the shadow last decided."""


class ClusterAnswer(Answer, frozen=True):
    cluster: ClusterView


class UtilisationAnswer(Answer, frozen=True):
    every: float
    """Seconds between two points, at least."""
    items: list[UtilisationView]
    """The oldest first. The series begins when the process starts."""


class QueuesAnswer(Answer, frozen=True):
    items: list[QueueView]


class NodesAnswer(Answer, frozen=True):
    items: list[NodeView]
    total: int
    next: int | None = None
    """The `offset` of the next part; `None`: this is the last."""


class JobsAnswer(Answer, frozen=True):
    items: list[JobView]
    total: int
    others: dict[str, int]
    """The number of jobs by state that the viewer may not see, whatever the query is."""
    next: int | None = None


class JobAnswer(Answer, frozen=True):
    detail: JobDetail


class DecisionsAnswer(Answer, frozen=True):
    items: list[DecisionView]
    """The last ones that would do something, the newest first."""
    next: int | None = None
    """The `before` of the next part; `None`: this is the last."""
    recording: RecordingView | None = None
    """The recording that they come from; `None`: they are of the shadow."""


class RecordingsAnswer(Answer, frozen=True):
    items: list[RecordingView]
    """The newest first."""


class WhatIfAnswer(Answer, frozen=True):
    what_if: WhatIfView


class ChangeEvent(Answer, frozen=True):
    """An event of the stream."""

    all: bool
    """Fetch everything again."""
    jobs: tuple[JobView, ...] = ()
    gone: tuple[str, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    gone_nodes: tuple[str, ...] = ()


class WhoAmI(View, frozen=True):
    """Who asks, and what she may see."""

    user: str
    everything: bool
    namespaces: list[str]
