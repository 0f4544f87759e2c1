"""The bodies of all answers. Each says how old it is."""

from __future__ import annotations

from maar.views.answers import WhatIfView
from maar.views.records import (
    ClusterView,
    DecisionView,
    ForecastView,
    JobDetail,
    JobView,
    NodeView,
    QualityView,
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
    """Seconds in which there are two points at most; it grows with the series."""
    items: list[UtilisationView]
    """The oldest first. The series begins when the process starts."""


class QueuesAnswer(Answer, frozen=True):
    items: list[QueueView]
    total: int
    next: int | None = None


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


class ForecastsAnswer(Answer, frozen=True):
    """How forecasts are made, and how good they were. The forecasts themselves are with the jobs."""

    made_at: float | None
    """When the newest one was made; `None`: none was made yet."""
    rollouts: int
    """How many futures were played for the newest forecast."""
    wanted: int
    seconds: float
    """How long that took."""
    finished_jobs: int
    """The finished jobs whose run times it was made from."""
    arrivals: bool
    """Whether jobs that are submitted later, as in the past, were played too."""
    made: int
    """Forecasts since the start of the process."""
    failed: int
    """Forecasts that failed, each with its process."""
    problem: str
    """Why the last one failed, or why none is made; empty if nothing is wrong."""
    not_kept: str
    """Why forecasts are not kept and judged; empty if they are."""
    quality: list[QualityView]
    """How good forecasts were, by queue and age of the job."""


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
    writes: bool = False
    """Whether jobs can be submitted and changed here; Kubernetes decides for each of them whether she may."""


class WrittenView(View, frozen=True):
    """An object that was written with the caller's token."""

    api_version: str
    kind: str
    namespace: str
    name: str


class CreatedView(WrittenView, frozen=True):
    """A job that was created."""

    completed: tuple[str, ...] = ()
    """What was added to its manifest, as `spec.suspend: true`."""
    warnings: tuple[str, ...] = ()
    forecast: ForecastView | None = None
    """When it starts; `None` if there is no forecast."""


class CreatedAnswer(View, frozen=True):
    """The jobs that were created, in the order of their manifests."""

    created: tuple[CreatedView, ...]
    dry_run: bool = False
    """Whether the API server only checked them."""


class ChangedAnswer(View, frozen=True):
    """The objects that stand for a job, which were changed."""

    changed: tuple[WrittenView, ...]
    warnings: tuple[str, ...] = ()


class DeletedAnswer(View, frozen=True):
    """What was deleted; what it owns goes with it."""

    deleted: tuple[WrittenView, ...]
