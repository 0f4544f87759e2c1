"""The bodies of all answers. Each says how old it is."""

from __future__ import annotations

from maar.views.answers import WhatIfView
from maar.views.records import (
    ClusterView,
    DecisionView,
    JobDetail,
    JobView,
    NodeView,
    QualityView,
    QueueView,
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


class WhatIfAnswer(Answer, frozen=True):
    what_if: WhatIfView


class ForecastsAnswer(Answer, frozen=True):
    """How forecasts are made, and how good they were. The forecasts themselves are with the jobs."""

    made_at: float | None
    """When the newest one was made; `None`: none was made yet."""
    rollouts: int
    """Of the newest one: how many futures were played."""
    wanted: int
    seconds: float
    """How long that took."""
    finished_jobs: int
    """The finished jobs whose run times it was made from."""
    made: int
    """Forecasts since the start of the process."""
    failed: int
    """Forecasts that failed, each with its process."""
    problem: str
    """Why the last one failed, or why none is made; empty if nothing is wrong."""
    not_kept: str
    """Why forecasts are not kept and judged; empty if they are."""
    quality: list[QualityView]
    """By queue and age of the job."""


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
