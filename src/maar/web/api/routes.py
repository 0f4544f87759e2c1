"""Everything that is served under /api/v1: one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

import msgspec

from maar.kube.submit.changes import Change
from maar.views.records import View
from maar.web.api.desk import Api1, UserRequest
from maar.web.api.handlers import reading, training, what_if
from maar.web.api.queries import DecisionQuery, DetailQuery, JobQuery, KindQuery, NodeQuery, NoQuery, QueueQuery
from maar.web.api.question import Question
from maar.web.api.writing import Submission


class Route(msgspec.Struct, frozen=True):
    """A row of the table."""

    method: str
    path: str
    """Under the prefix; `{name}` is a variable part."""
    handle: Callable[[Api1, UserRequest], Awaitable[View]]
    summary: str
    query: type[Any] = NoQuery
    body: type[Any] | None = None
    writes: bool = False
    """It writes to the cluster, with the caller's own token."""
    status: int = 200
    """The HTTP status of a success."""

    @property
    def answer(self) -> type[View]:
        """What it answers with: what the handler returns."""
        answer: type[View] = get_type_hints(self.handle)["return"]
        return answer


ROUTES: tuple[Route, ...] = (
    Route("GET", "/whoami", reading.who, "Who asks, and which namespaces she may see"),
    Route("GET", "/cluster", reading.cluster, "The whole cluster"),
    Route("GET", "/utilisation", reading.utilisation, "GPUs in use over the last day, by queue"),
    Route("GET", "/queues", reading.queues, "Queues", QueueQuery),
    Route("GET", "/nodes", reading.nodes, "Nodes", NodeQuery),
    Route("GET", "/jobs", reading.jobs, "The jobs that the user may see", JobQuery),
    Route(
        "GET",
        "/jobs/{namespace}/{name}",
        reading.job,
        "Everything about one job: needs, place, reasons, what would start it, story",
        DetailQuery,
    ),
    Route(
        "GET",
        "/decisions",
        reading.decisions,
        "The last decisions of the shadow, and what really happened; or those of a recording",
        DecisionQuery,
    ),
    Route("GET", "/recordings", reading.recorded, "Recordings of the scheduler that can be opened"),
    Route("GET", "/forecasts", reading.forecasts, "How forecasts are made, and how good they were"),
    Route("POST", "/what-if", what_if.what_if, "What edits would change; nothing is written", NoQuery, Question),
    Route(
        "POST",
        "/jobs",
        training.submit,
        "Check, complete and create jobs, with the caller's own token",
        NoQuery,
        Submission,
        writes=True,
        status=201,
    ),
    Route(
        "PATCH",
        "/jobs/{namespace}/{name}",
        training.change,
        "Hold, release or change a job, with the caller's own token",
        KindQuery,
        Change,
        writes=True,
    ),
    Route(
        "DELETE",
        "/jobs/{namespace}/{name}",
        training.cancel,
        "Cancel a job, with the caller's own token",
        KindQuery,
        writes=True,
    ),
)
STREAM = "/stream"
OPENAPI = "/openapi.json"
