"""Tables for `kubectl get`: the server renders the columns of each kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from maar.embedded.http.lists import Page
from maar.embedded.objects.errors import Obj
from maar.embedded.objects.kinds import Column, Kind
from maar.embedded.objects.store import Item, encode

Cells = Callable[[Obj], list[Any]]

_PART = re.compile(r"\.((?:[\w/-]|\\\.)+)|\[['\"]?([^\]'\"]+)['\"]?\]")
_UNITS = (("y", 365 * 86400), ("d", 86400), ("h", 3600), ("m", 60))


def age(time: str | None) -> str:
    """The time since a timestamp: `5s`, `3m`, `4h`, `2d`."""
    if not time:
        return "<unknown>"
    then = datetime.fromisoformat(time.replace("Z", "+00:00"))
    seconds = max(int((datetime.now(UTC) - then).total_seconds()), 0)
    for unit, size in _UNITS:
        if seconds >= (2 if unit != "y" else 1) * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def at_path(obj: Any, path: str) -> Any:
    """The value at a JSON path of a printer column: names, indices and one filter by equality."""
    filtered = re.fullmatch(r"(.*?)\[\?\(@\.(\w+)\s*==\s*['\"]([^'\"]*)['\"]\)\](.*)", path)
    if filtered:
        head, name, wanted, tail = filtered.groups()
        found = next((x for x in at_path(obj, head) or [] if x.get(name) == wanted), None)
        return at_path(found, tail) if tail else found
    for name, bracket in _PART.findall(path):
        name = (name or bracket).replace("\\.", ".")
        if isinstance(obj, list):
            obj = obj[int(name)] if name.isdecimal() and int(name) < len(obj) else None
        elif isinstance(obj, dict):
            obj = obj.get(name)
        else:
            return None
    return obj


def _created(obj: Obj) -> str:
    return age(obj["metadata"].get("creationTimestamp"))


def pod_cells(pod: Obj) -> list[Any]:
    """Ready, status, restarts, age, address, node, nominated node, gates."""
    status, spec = pod["status"], pod["spec"]
    statuses = status.get("containerStatuses") or []
    ready = f"{sum(bool(s.get('ready')) for s in statuses)}/{len(spec.get('containers') or [])}"
    phase = status.get("reason") or status.get("phase") or "Unknown"
    if pod["metadata"].get("deletionTimestamp"):
        phase = "Terminating"
    elif phase == "Succeeded":
        phase = "Completed"
    elif phase == "Pending" and spec.get("schedulingGates"):
        phase = "SchedulingGated"
    restarts = sum(s.get("restartCount") or 0 for s in statuses)
    wide = [status.get("podIP"), spec.get("nodeName"), status.get("nominatedNodeName"), None]
    return [ready, phase, restarts, _created(pod), *(x or "<none>" for x in wide)]


def node_cells(node: Obj) -> list[Any]:
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions") or []}
    ready = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready", "Unknown"), "NotReady")
    if "Ready" not in conditions:
        ready = "Unknown"
    if (node.get("spec") or {}).get("unschedulable"):
        ready += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = [label.removeprefix(prefix) for label in node["metadata"].get("labels") or {} if label.startswith(prefix)]
    version = (node["status"].get("nodeInfo") or {}).get("kubeletVersion", "")
    return [ready, ",".join(sorted(roles)) or "<none>", _created(node), version]


def event_cells(event: Obj) -> list[Any]:
    """Last seen, type, reason, object, message, name."""
    about = event.get("involvedObject") or event.get("regarding") or {}
    times = ("lastTimestamp", "eventTime", "deprecatedLastTimestamp")
    seen = next((event[name] for name in times if event.get(name)), event["metadata"].get("creationTimestamp"))
    subject = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
    message = event.get("message") or event.get("note") or ""
    cells = [age(seen), event.get("type", ""), event.get("reason", ""), subject, message.strip()]
    return [*cells, event["metadata"]["name"]]


def job_cells(job: Obj) -> list[Any]:
    done = [c["type"] for c in job["status"].get("conditions") or [] if c["status"] == "True"]
    wanted = job["spec"].get("completions") or job["spec"].get("parallelism", 1)
    state = done[0] if done else "Suspended" if job["spec"].get("suspend") else "Running"
    return [state, f"{job['status'].get('succeeded') or 0}/{wanted}", _created(job)]


def budget_cells(budget: Obj) -> list[Any]:
    """Min available, max unavailable, allowed disruptions, age."""
    spec, status = budget.get("spec") or {}, budget.get("status") or {}
    limits = [str(spec.get(name, "N/A")) for name in ("minAvailable", "maxUnavailable")]
    return [*limits, status.get("disruptionsAllowed", 0), _created(budget)]


TABLES: dict[tuple[str, str], tuple[str, Cells]] = {
    ("", "pods"): ("Ready Status Restarts:integer Age IP+ Node+ Nominated_Node+ Readiness_Gates+", pod_cells),
    ("", "nodes"): ("Status Roles Age Version", node_cells),
    ("", "namespaces"): ("Status Age", lambda n: [n["status"].get("phase", ""), _created(n)]),
    ("", "events"): ("Last_Seen Type Reason Object Message Name+", event_cells),
    ("", "configmaps"): ("Data:integer Age", lambda c: [len(c.get("data") or {}), _created(c)]),
    ("batch", "jobs"): ("Status Completions Age", job_cells),
    ("policy", "poddisruptionbudgets"): (
        "Min_Available Max_Unavailable Allowed_Disruptions:integer Age",
        budget_cells,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        "Value:integer Global-Default:boolean Age PreemptionPolicy",
        lambda p: [p.get("value", 0), bool(p.get("globalDefault")), _created(p), p.get("preemptionPolicy", "")],
    ),
    ("coordination.k8s.io", "leases"): (
        "Holder Age",
        lambda lease: [(lease.get("spec") or {}).get("holderIdentity", ""), _created(lease)],
    ),
}
"""Columns after the name, each with an optional type and a plus if only `-o wide` shows it, and their cells."""

NAMED_LAST = ("", "events")
"""kubectl shows the name of an event as one of the other columns."""


def _columns(kind: Kind) -> list[Column]:
    if kind.custom:
        return list(kind.columns)
    found = []
    for word in TABLES.get(kind.table, ("Age", None))[0].split():
        name, _, type = word.partition(":")
        found.append(Column(name.rstrip("+").replace("_", " "), type or "string", "", wide=word.endswith("+")))
    return found


def _cells(kind: Kind, obj: Obj) -> list[Any]:
    if kind.table in TABLES and not kind.custom:
        return TABLES[kind.table][1](obj)
    if not kind.custom:
        return [_created(obj)]
    found = []
    for column in kind.columns:
        value = at_path(obj, column.path)
        if column.type == "date":
            value = age(value) if value else None
        found.append(value if value is None or column.type in ("integer", "number", "boolean") else str(value))
    return found


def table(kind: Kind, items: list[Item], include: str, page: Page | None = None) -> bytes:
    """A Table of objects. `include` says how much of each object its row contains."""
    name = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
    definitions = [] if kind.table == NAMED_LAST else [name]
    for column in _columns(kind):
        # Ages are rendered as text, so their column has the type string.
        type = "string" if column.type == "date" else column.type
        priority = 1 if column.wide else 0
        definitions.append({"name": column.name, "type": type, "format": "", "description": "", "priority": priority})
    metadata: dict[str, Any] = {"resourceVersion": str(page.version)} if page else {}
    if page and page.token:
        metadata |= {"continue": page.token, "remainingItemCount": page.remaining}
    answer: Obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    answer |= {"columnDefinitions": definitions, "rows": [_row(kind, item, include) for item in items]}
    return encode(answer)


def _row(kind: Kind, item: Item, include: str) -> Obj:
    first = [] if kind.table == NAMED_LAST else [item.obj["metadata"]["name"]]
    row: Obj = {"cells": [*first, *_cells(kind, item.obj)]}
    if include == "Object":
        row["object"] = item.shown(kind)
    elif include != "None":
        partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        row["object"] = {**partial, "metadata": item.obj["metadata"]}
    return row
