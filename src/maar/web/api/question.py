"""What-if over HTTP: edits and manifests of a request, checked for one viewer, and their answer.

A viewer may name only jobs and quotas that she may see, and add jobs only to namespaces that she may see. No error
names others. Objects to add come as manifests, which are read as `maar plan` reads them, never as the model's structs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, get_args

import msgspec
import yaml

from maar.config.config import Config
from maar.kube.kinds import AnyKind
from maar.kube.picture.manifests import read_texts
from maar.kube.submit.manifests import is_namespace
from maar.kube.wire.base import Object
from maar.kube.wire.errors import ManifestError
from maar.model.documents import DocumentError, documents
from maar.model.snapshot import Cluster
from maar.model.words import meant, nearest, unknown
from maar.shards.shard import Standing
from maar.views.answers import WhatIfView, what_if_view
from maar.views.sight import Sight
from maar.web.api.errors import Refused
from maar.whatif.answer import Decided, what_if
from maar.whatif.config_edits import SetAlgorithm, UseConfig
from maar.whatif.edit import Edit, EditError, Scene
from maar.whatif.edits import applied
from maar.whatif.job_edits import AddJobs, EndJobs, Release, SetMinimum, SetPriority, SetQueue, SetRequest
from maar.whatif.node_edits import MOST_NODES, AddNodes, AddNodesLike, Cordon, EndReservation, RemoveNodes, Uncordon
from maar.whatif.queue_edits import AddQueues, OpenQueue, SetAmounts, SetQuota, SetWeight

MOST_EDITS = 100
MOST_NAMESPACES = 20
"""Namespaces of manifests that are asked for: each costs a request to the API server."""
MOST_PODS = 10_000
"""Pods of all manifests of a question."""
FORECAST = 5.0
"""Seconds for the forecasts of a question, if it states none."""
LONGEST = 20.0


WebEdit = (
    EndJobs
    | Release
    | SetMinimum
    | SetPriority
    | SetQueue
    | SetRequest
    | AddNodesLike
    | Cordon
    | EndReservation
    | RemoveNodes
    | Uncordon
    | OpenQueue
    | SetAmounts
    | SetQuota
    | SetWeight
    | SetAlgorithm
    | UseConfig
)


EDITS: dict[str, type[Edit]] = {str(kind.__struct_config__.tag): kind for kind in get_args(WebEdit)}
"""The edits by their names."""
_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)


def edit_problem(error: str, edit: object) -> str:
    """What is wrong with an edit that could not be decoded: with a suggestion, and the edits or fields that there are.

    `error` is msgspec's, `edit` the document.
    """
    if not isinstance(edit, dict):
        return error
    name = edit.get("edit")
    if not isinstance(name, str) or name not in EDITS:
        return unknown("edit", str("" if name is None else name)[:100], EDITS)
    fields = [field.encode_name for field in msgspec.structs.fields(EDITS[name])]
    if found := _FIELD.match(error):
        return unknown(f"field of `{name}`", found[1][:100], fields)
    if found := _MISSING.match(error):
        return f"`{name}` needs the field `{found[1]}`; its fields: {', '.join(fields)}"
    return f"`{name}`: {error}"


_EDIT = re.compile(r"edits\[(\d+)\](?:\.edit)?")


def better(refused: Refused, body: bytes) -> Refused:
    """The refusal of a question that was not decoded; if an edit is wrong, with what there is instead."""
    at = _EDIT.fullmatch(refused.view.field)
    if at is None:
        return refused
    try:
        edit = msgspec.json.decode(body)["edits"][int(at[1])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        return refused  # anyone may send anything: what follows the wrong edit was not decoded
    return Refused(refused.status, edit_problem(refused.view.error, edit), refused.view.field)


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a what-if question."""

    edits: list[WebEdit] = []
    manifests: str | list[dict[str, Any]] = ""
    """Objects to add: the text of a YAML or JSON file, or a list of objects."""
    decision: int | None = None
    """The number of an earlier decision, to decide it again with the edits; `None`: this moment."""
    recording: str = ""
    """The recording that the decision is from; empty: it is one of the shadow."""
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=LONGEST)] = FORECAST
    """Time to forecast the starts of waiting jobs without and with the edits; 0: they are not forecast."""


def answered(
    question: Question,
    cluster: Cluster,
    config: Config,
    now: float,
    sight: Sight,
    beside: list[tuple[AnyKind, Object]],
    standing: Standing | None = None,
) -> tuple[WhatIfView, Scene]:
    """The answer for one viewer, and the scene with the edits; raises `Refused`.

    `beside` are objects of the cluster that manifests refer to. `standing` is that of the shard whose recorded cycle is
    decided again.
    """
    edits = edits_of(question, cluster, now, sight, beside)
    return decided_with(edits, len(edits) - len(question.edits), Scene(cluster, config, standing), now, sight)


def edits_of(
    question: Question, cluster: Cluster, now: float, sight: Sight, beside: list[tuple[AnyKind, Object]]
) -> list[Edit]:
    """The edits of a question, those of its manifests first; raises `Refused`. Sums are checked before all else."""
    if not question.edits and not question.manifests:
        raise Refused(422, "expected at least one edit or manifest", "edits")
    if len(question.edits) > MOST_EDITS:
        raise Refused(422, f"expected at most {MOST_EDITS} edits, got {len(question.edits)}", "edits")
    nodes = 0
    for i, edit in enumerate(question.edits):
        nodes += max(edit.count, 0) if isinstance(edit, AddNodesLike) else 0
        if nodes > MOST_NODES:
            raise Refused(422, f"expected at most {MOST_NODES} new nodes in all, got {nodes}", f"edits[{i}].count")
        _check(edit, i, cluster, sight)
    edits: list[Edit] = [*read_manifests(question.manifests, now, sight, beside), *question.edits]
    if not edits:
        raise Refused(422, "expected at least one edit or manifest", "edits")
    return edits


def decided_with(
    edits: list[Edit],
    added: int,
    scene: Scene,
    now: float,
    sight: Sight,
    before: Callable[[], Decided] | None = None,
) -> tuple[WhatIfView, Scene]:
    """What edits change, for one viewer, and the scene with them; `added` come from manifests, and are the first.

    `before` returns the plan without edits, if it is known.
    """
    known = frozenset(job.namespace for job in scene.cluster.jobs)
    try:
        answer = what_if(scene.cluster, scene.config, now, edits, scene.standing, before)
        return what_if_view(answer, sight, known), applied(scene, edits)
    except EditError as error:
        field, problem = _place(error.field, added), sight.said(error.problem, known)
        raise Refused(422, problem, field) from None


def namespaces_of(manifests: str | list[dict[str, Any]]) -> frozenset[str]:
    """Namespaces that manifests state, the first ones: whether the viewer may see them has to be asked."""
    found: dict[str, None] = {}
    try:
        listed = manifests if not isinstance(manifests, str) else list(documents(manifests))
    except (DocumentError, RecursionError):
        return frozenset()  # the error is told by who reads them
    for document in listed:
        metadata = document.get("metadata") if isinstance(document, dict) else None
        name = metadata.get("namespace") or "default" if isinstance(metadata, dict) else None
        if isinstance(name, str) and is_namespace(name) and len(found) < MOST_NAMESPACES:
            found[name] = None
    return frozenset(found)


def _no_job(key: str, known: Iterable[str], sight: Sight) -> str:
    return f"no such job that you may see{meant(nearest(key, sorted(sight.only(known))))}"


def _check(edit: Edit, i: int, cluster: Cluster, sight: Sight) -> None:
    """Refuse names that the viewer may not know, before an error could name others."""
    known = {job.key for job in cluster.jobs}
    if isinstance(edit, (Release, SetMinimum, SetPriority, SetQueue, SetRequest)):
        if not sight.of(edit.job) or edit.job not in known:
            raise Refused(422, _no_job(edit.job, known, sight), f"edits[{i}].job")
    elif isinstance(edit, EndJobs):
        for j, key in enumerate(edit.jobs):
            if not sight.of(key) or key not in known:
                raise Refused(422, _no_job(key, known, sight), f"edits[{i}].jobs[{j}]")
    elif isinstance(edit, EndReservation):
        if cluster.elect is None or cluster.elect.job != edit.job or not sight.of(edit.job):
            raise Refused(422, "no nodes are reserved for such a job that you may see", f"edits[{i}].job")
    elif isinstance(edit, SetQuota):
        if not sight.of(edit.quota) or not any(quota.key == edit.quota for quota in cluster.quotas):
            raise Refused(422, "no such ResourceQuota that you may see", f"edits[{i}].quota")
    elif isinstance(edit, UseConfig):
        no_aliases(edit.text, f"edits[{i}].text")


def no_aliases(text: str, field: str) -> None:
    """Refuse YAML aliases: a short text with them stands for an endless one."""
    try:
        if "*" in text and any(isinstance(e, yaml.AliasEvent) for e in yaml.parse(text, Loader=yaml.CSafeLoader)):
            raise Refused(422, "YAML aliases are not accepted here", field)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Refused(422, f"not YAML: {str(error).splitlines()[0]}", field) from None


def read_manifests(
    manifests: str | list[dict[str, Any]],
    now: float,
    sight: Sight,
    beside: list[tuple[AnyKind, Object]],
) -> list[Edit]:
    """The edits that add the objects of manifests; raises `Refused`. No more pods are built than there may be."""
    if not manifests:
        return []
    if isinstance(manifests, str):
        no_aliases(manifests, "manifests")
        texts = [("manifests", manifests.encode("utf-8", "replace"))]
    else:
        texts = [(f"manifests[{i}]", msgspec.json.encode(item)) for i, item in enumerate(manifests)]
    try:
        made = read_texts(texts, None, now, beside, MOST_PODS)
    except ManifestError as error:
        field, _, problem = str(error).partition(": ")
        raise Refused(422, problem or field, field) from None
    for skipped in made.skipped:
        raise Refused(422, f"{skipped.kind} `{skipped.job}`: {skipped.why}", "manifests")
    if made.ignored:
        raise Refused(422, f"not a kind that Maar reads: {', '.join(made.ignored)}", "manifests")
    added = made.cluster
    for key in (*(job.key for job in added.jobs), *(task.key for task in added.tasks)):
        if not sight.of(key):
            raise Refused(403, "you may not list pods in the namespace of an object", "manifests")
    edits: list[Edit] = []
    if added.nodes:
        edits.append(AddNodes(added.nodes))
    if added.queues:
        edits.append(AddQueues(added.queues))
    if added.jobs:
        edits.append(AddJobs(added.jobs, added.tasks))
    return edits


def _place(field: str, added: int) -> str:
    """The path of an edit in the request: those of manifests come first."""
    number, _, rest = field.removeprefix("edits[").partition("]")
    if not number.isdecimal():
        return field
    return f"edits[{int(number) - added}]{rest}" if int(number) >= added else f"manifests{rest}"
