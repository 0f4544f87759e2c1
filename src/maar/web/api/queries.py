"""Query parameters: which jobs and nodes, in which order, which part of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from maar.config.problems import unknown
from maar.model.jobs import Job
from maar.views.records import State
from maar.views.tally import STATES, Tally
from maar.web.api.errors import Refused

MOST = 10_000
"""Items of one answer."""
LONGEST = 512
"""Characters of a parameter."""


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a list."""

    limit: int = 500
    offset: int = 0


class JobQuery(Query, frozen=True):
    """Which jobs."""

    namespace: str = ""
    queue: str = ""
    state: str = ""
    """One or more states, separated by commas."""
    owner: str = ""
    """The submitted object, as `Kind` or `Kind/name`."""
    sort: str = "name"
    """A field of `SORTS`; with `-` before it, the largest first."""


class NodeQuery(Query, frozen=True):
    """Which nodes."""

    limit: int = 1000
    state: str = ""


class DetailQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much about one job."""

    unblock: bool = True
    """Whether to search for what would start it."""
    budget: float = 2.0
    """Seconds for the search."""


class KindQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which of several objects of one name."""

    kind: str = ""
    """The kind of the object, if several have the name."""


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class DecisionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which decisions."""

    limit: int = 20
    job: str = ""
    """Only those that move this job, as `namespace/name`."""
    before: int = 0
    """Only those with a smaller number; 0: all."""
    recording: str = ""
    """The name of a recording; empty: those of the shadow."""


BOUNDS: Mapping[str, tuple[float, float]] = {
    "limit": (1, MOST),
    "offset": (0, 10**9),
    "before": (0, 10**9),
    "budget": (0.0, 10.0),
}
NODE_STATES = ("ready", "cordoned", "failed", "tainted", "locked")

Sort = Callable[[Tally, int], Any]


def _of_job(get: Callable[[Job], Any]) -> Sort:
    return lambda tally, row: get(tally.snapshot.jobs.jobs[row])


SORTS: dict[str, Sort] = {
    "name": _of_job(lambda job: job.key),
    "created": _of_job(lambda job: job.created),
    "since": _of_job(lambda job: job.created if job.waiting_since is None else job.waiting_since),
    "priority": _of_job(lambda job: job.priority),
    "queue": _of_job(lambda job: job.queue),
    "state": lambda tally, row: int(tally.states[row]),
}


def pattern(kind: type[Any], name: str) -> str | None:
    """What a parameter of a query may look like, as a regular expression for the document; `None`: any text."""
    if name == "state" and issubclass(kind, (JobQuery, NodeQuery)):
        one = "|".join(NODE_STATES if issubclass(kind, NodeQuery) else [state.value for state in State])
        return f"^(({one})(,({one}))*)?$"
    if name == "sort" and issubclass(kind, JobQuery):
        return f"^-?({'|'.join(SORTS)})$"
    return None


def read(kind: type[Any], given: Mapping[str, list[str]]) -> Any:
    """The parameters of a request; raises `Refused` with the name of a bad one."""
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for name, texts in given.items():
        if name not in fields:
            raise Refused(400, unknown("parameter", name[:LONGEST], list(fields)), f"query.{name[:64]}")
        if len(texts) > 1:
            raise Refused(400, "given more than once", f"query.{name}")
        values[name] = _value(name, texts[0], fields[name])
    made = kind(**values)
    for name, (least, most) in BOUNDS.items():
        if name in values and not least <= values[name] <= most:
            raise Refused(
                400, f"expected a number from {least:g} to {most:g}, got `{texts_of(given, name)}`", f"query.{name}"
            )
    if isinstance(made, JobQuery):
        _check_states(made.state, [state.value for state in State])
        if made.sort.removeprefix("-") not in SORTS:
            raise Refused(400, unknown("order", made.sort.removeprefix("-"), list(SORTS)), "query.sort")
    if isinstance(made, NodeQuery):
        _check_states(made.state, NODE_STATES)
    return made


def texts_of(given: Mapping[str, list[str]], name: str) -> str:
    return given[name][0][:64]


def _value(name: str, text: str, kind: Any) -> Any:
    if len(text) > LONGEST:
        raise Refused(400, f"expected at most {LONGEST} characters, got {len(text)}", f"query.{name}")
    if kind is str:
        return text
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError:
        what = {int: "a number", float: "a number", bool: "`true` or `false`"}.get(kind, "another value")
        raise Refused(400, f"expected {what}, got `{text[:64]}`", f"query.{name}") from None


def _check_states(text: str, known: Any) -> None:
    for state in text.split(",") if text else ():
        if state not in known:
            raise Refused(400, unknown("state", state, list(known)), "query.state")


def chosen_jobs(tally: Tally, rows: list[int], query: JobQuery) -> list[int]:
    """The rows that a query asks for, in its order; all of them, not only one part."""
    jobs = tally.snapshot.jobs.jobs
    if query.namespace:
        rows = [row for row in rows if jobs[row].namespace == query.namespace]
    if query.queue:
        rows = [row for row in rows if jobs[row].queue == query.queue]
    if query.state:
        wanted = {STATES.index(State(state)) for state in query.state.split(",")}
        rows = [row for row in rows if int(tally.states[row]) in wanted]
    if query.owner:
        rows = [row for row in rows if _owned(tally, jobs[row].key, query.owner)]
    sort = SORTS[query.sort.removeprefix("-")]
    rows = sorted(rows, key=lambda row: jobs[row].key)
    return sorted(rows, key=lambda row: sort(tally, row), reverse=query.sort.startswith("-"))


def _owned(tally: Tally, job: str, owner: str) -> bool:
    known = tally.owners.get(job)
    if known is None:
        return False
    kind, _, name = owner.partition("/")
    return known.kind.lower() == kind.lower() and name in ("", known.name)
