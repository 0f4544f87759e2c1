"""Query parameters: which jobs, nodes and queues, in which order, which part of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from maar.model.jobs import Job
from maar.model.queues import Queue
from maar.model.words import unknown
from maar.views.nodes import NODE_STATES, node_state
from maar.views.records import State
from maar.views.tally import STATES, Tally
from maar.web.api.errors import Refused
from maar.whatif.patience import USUAL

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
    """A field of `ORDERS`; with `-` before it, the largest first."""


class StateQuery(Query, frozen=True):
    """Which part of a list, by one or more states."""

    limit: int = 1000
    state: str = ""
    sort: str = "name"


class NodeQuery(StateQuery, frozen=True):
    """Which nodes."""


class QueueQuery(StateQuery, frozen=True):
    """Which queues; their states are `open`, `closed` and `invalid`."""


class DetailQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much about one job."""

    unblock: bool = True
    """Whether to search for what would start it."""
    budget: float = USUAL
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

Order = Callable[[Tally, int], Any]
"""What a row is sorted by."""


def _of_job(get: Callable[[Job], Any]) -> Order:
    return lambda tally, row: get(tally.snapshot.jobs.jobs[row])


def _of_queue(get: Callable[[Queue], Any]) -> Order:
    return lambda tally, row: get(tally.snapshot.queues.queues[row])


def _node_state(tally: Tally, row: int) -> str:
    node = tally.snapshot.nodes.nodes[row]
    return node_state(node, node.name in tally.locked)


def _queue_state(tally: Tally, row: int) -> str:
    tree = tally.snapshot.queues
    return "invalid" if tree.broken[row] else "open" if tree.queues[row].open else "closed"


STATES_OF: Mapping[type[Any], Sequence[str]] = {
    JobQuery: [state.value for state in State],
    NodeQuery: NODE_STATES,
    QueueQuery: ("open", "closed", "invalid"),
}
ORDERS: Mapping[type[Any], Mapping[str, Order]] = {
    JobQuery: {
        "name": _of_job(lambda job: job.key),
        "created": _of_job(lambda job: job.created),
        "since": _of_job(lambda job: job.waits_since),
        "priority": _of_job(lambda job: job.priority),
        "queue": _of_job(lambda job: job.queue),
        "state": lambda tally, row: int(tally.states[row]),
    },
    NodeQuery: {
        "name": lambda tally, row: tally.snapshot.nodes.names[row],
        "state": lambda tally, row: NODE_STATES.index(_node_state(tally, row)),
        "free": lambda tally, row: int(tally.free[row]),
    },
    QueueQuery: {
        "name": _of_queue(lambda queue: queue.name),
        "weight": _of_queue(lambda queue: queue.weight),
        "priority": _of_queue(lambda queue: queue.priority),
    },
}


def pattern(kind: type[Any], name: str) -> str | None:
    """What a parameter of a query may look like, as a regular expression for the document; `None`: any text."""
    if name == "state" and kind in STATES_OF:
        one = "|".join(STATES_OF[kind])
        return f"^(({one})(,({one}))*)?$"
    if name == "sort" and kind in ORDERS:
        return f"^-?({'|'.join(ORDERS[kind])})$"
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
            got = given[name][0][:64]
            raise Refused(400, f"expected a number from {least:g} to {most:g}, got `{got}`", f"query.{name}")
    if kind in ORDERS:
        _check_states(made.state, STATES_OF[kind])
        if (order := made.sort.removeprefix("-")) not in ORDERS[kind]:
            raise Refused(400, unknown("order", order, list(ORDERS[kind])), "query.sort")
    return made


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
    return _ordered(tally, rows, query)


def chosen_nodes(tally: Tally, query: NodeQuery) -> list[int]:
    return _in_state(tally, range(len(tally.snapshot.nodes)), query, _node_state)


def chosen_queues(tally: Tally, query: QueueQuery) -> list[int]:
    return _in_state(tally, range(len(tally.snapshot.queues)), query, _queue_state)


def _in_state(tally: Tally, rows: Iterable[int], query: StateQuery, state: Order) -> list[int]:
    wanted = set(query.state.split(",")) if query.state else None
    return _ordered(tally, [row for row in rows if wanted is None or state(tally, row) in wanted], query)


def _ordered(tally: Tally, rows: Iterable[int], query: JobQuery | StateQuery) -> list[int]:
    """The rows in the order of a query; equal ones by name."""
    orders = ORDERS[type(query)]
    order = orders[query.sort.removeprefix("-")]
    named = sorted(rows, key=lambda row: orders["name"](tally, row))
    return sorted(named, key=lambda row: order(tally, row), reverse=query.sort.startswith("-"))


def _owned(tally: Tally, job: str, owner: str) -> bool:
    known = tally.owners.get(job)
    if known is None:
        return False
    kind, _, name = owner.partition("/")
    return known.kind.lower() == kind.lower() and name in ("", known.name)
