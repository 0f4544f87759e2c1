"""nodegroup: the jobs of a queue run on the node groups of that queue.

A node is in the group that its label names. A queue names groups in `spec.affinity`: its jobs may use required and
preferred groups, must not use forbidden groups, and use avoided groups last. These answers depend on the queue and on
the group only, so they are computed once for each queue, over all nodes. An annotation of the queue limits what its own
jobs have in a group; bound and nominated tasks count, as does reserved room.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np

from maar.model.codes import NODES, QUEUE_INVALID, QUEUE_LIMIT, WRONG_QUEUE, Code
from maar.model.fitting import how_many
from maar.model.jobs import Job
from maar.model.nodes import LabelColumn
from maar.model.queues import NodeGroups, QueueTree
from maar.model.reasons import Reason, Refusal
from maar.model.resources import Floats, Ints, Mask
from maar.model.tasks import Status, among
from maar.session.hooks import SharedRoom
from maar.session.register import Register
from maar.session.session import Session

NAME = "nodegroup"
LABEL = "volcano.sh/nodegroup-name"

UNGROUPED = Code("NoNodeGroup", NODES)
OTHERS = Code("NodeGroup", NODES)
LIMIT = Code("NodeGroupLimit", QUEUE_LIMIT)
NO_GROUP = Code("QueueWithoutNodeGroup", WRONG_QUEUE)
CODES = (OTHERS, UNGROUPED, LIMIT, NO_GROUP)

REQUIRED, PREFERRED, AVOIDED = 100.0, 50.0, -1.0
"""The scores of Volcano."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`strict`: no queue may use nodes without a group. `enablePreferredOrder`: earlier preferred groups are better."""

    strict: bool = True
    in_order: bool = msgspec.field(name="enablePreferredOrder", default=False)


class Answers(NamedTuple):
    """What one queue may use, and how good it is."""

    ungrouped: Mask
    """Nodes that are refused because they are in no group."""
    others: Mask
    """Nodes that are refused because of their group."""
    scores: Floats | None


class Nodegroup:
    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._answers: dict[int, Answers] = {}

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._inherit = on.flags.get("hierarchy", False)
        if on.flags.get("predicate", True):
            on.job_valid(self._valid)
            on.job_nodes(self._ungrouped, fixed=True)
            on.job_nodes(self._others, fixed=True)
            if any(queue.group_limits.amounts for queue in session.snapshot.queues.queues):
                on.shared_rooms(self._rooms)
        on.job_score(lambda job: self._of(job).scores)

    def _valid(self, job: Job) -> Reason | None:
        """The reason if the queue may use no node at all, whatever nodes there are."""
        queue = self._session.queue_of(job)
        if queue.group_limits.problem:
            what = f"queue `{queue.name}`: {queue.group_limits.problem}"
            return Reason(NAME, QUEUE_INVALID.name, what, queue=queue.name)
        if not self._arguments.strict or self._groups(job):
            return None
        what = f"queue `{queue.name}` names no node group (`spec.affinity`), so its jobs may use no node"
        return Reason(NAME, NO_GROUP.name, what, queue=queue.name)

    def _ungrouped(self, job: Job) -> Refusal | None:
        nodes = self._of(job).ungrouped
        return Refusal(NAME, UNGROUPED, "in no node group", nodes) if nodes.any() else None

    def _others(self, job: Job) -> Refusal | None:
        nodes = self._of(job).others
        if not nodes.any():
            return None
        return Refusal(NAME, OTHERS, f"in a node group that queue `{job.queue}` may not use", nodes)

    def _rooms(self, job: Job, shape: int) -> list[SharedRoom]:
        """How many more tasks each limited group takes."""
        limits = self._session.queue_of(job).group_limits.amounts
        if not limits:
            return []
        used, column = self._used(job), self._session.snapshot.nodes.label(LABEL)
        axes, request = self._session.snapshot.axes, self._session.snapshot.shapes.requests[shape].tolist()
        rooms = []
        for code, group in enumerate(column.values):
            counted = {axes.index[name]: most for name, most in limits.get(group, {}).items() if name in axes.index}
            dims = [d for d in counted if request[d] > 0]
            if dims:
                left = how_many([counted[d] - int(used[code, d]) for d in dims], [request[d] for d in dims])
                words = f"in node group `{group}`, where queue `{job.queue}` has reached its limit"
                refusal = Refusal(NAME, LIMIT, words, column.codes == code)
                rooms.append(SharedRoom(refusal, left))
        return rooms

    def _used(self, job: Job) -> Ints:
        """What the jobs of a queue have in each group."""
        number = int(self._session.snapshot.jobs.queue[job.index])
        return self._session.memo.current(NAME, ("used", number), lambda: used_by(self._session, number))

    def _groups(self, job: Job) -> NodeGroups:
        queues = self._session.snapshot.queues
        return groups_of(queues, int(self._session.snapshot.jobs.queue[job.index]), self._inherit)

    def _of(self, job: Job) -> Answers:
        number = int(self._session.snapshot.jobs.queue[job.index])
        found = self._answers.get(number)
        if found is None:
            column = self._session.snapshot.nodes.label(LABEL)
            found = self._answers[number] = answers(self._groups(job), column, self._arguments)
        return found


def used_by(session: Session, queue: int) -> Ints:
    """What the own jobs of a queue have, with nominated and reserved room: a row for each node group."""
    snapshot, state = session.snapshot, session.state
    column = snapshot.nodes.label(LABEL)
    groups = np.append(column.codes, -1)  # a task on an unknown node has row -1
    used: Ints = np.zeros((len(column.values) + 1, len(snapshot.axes)), dtype=np.int64)
    tasks = session.memo.fixed(NAME, ("tasks", queue), lambda: _tasks_of(session, queue))
    tasks = tasks[among((Status.BOUND, Status.NOMINATED)).take(state.status[tasks])]
    np.add.at(used, groups[state.node[tasks]], snapshot.shapes.requests[snapshot.tasks.shape[tasks]])
    for job, held in state.reserved.items():
        if snapshot.jobs.queue[job] == queue:
            for kept in held:
                np.add.at(used, groups[kept.rows], kept.counts[:, None] * snapshot.shapes.requests[kept.shape])
    return used


def _tasks_of(session: Session, queue: int) -> Ints:
    return np.flatnonzero(session.snapshot.jobs.queue[session.snapshot.tasks.job] == queue)


def groups_of(queues: QueueTree, number: int, inherit: bool) -> NodeGroups:
    """The node groups of a queue: its own, or with `inherit` those of the nearest queue above it that has any."""
    for above in queues.path[number] if inherit else (number,):
        groups = queues.queues[above].node_groups
        if groups is not None:
            return groups
    return NodeGroups()


def answers(groups: NodeGroups, column: LabelColumn, arguments: Arguments) -> Answers:
    """Refused nodes and scores, by the group of each node."""
    ungrouped = np.asarray(column.codes < 0) & refuses_ungrouped(groups, arguments.strict)
    # The last entry is for nodes without a group, whose code is -1.
    refused = np.array([*(not may_use(groups, name) for name in column.values), False])
    scores = np.array([*(points(groups, name, arguments.in_order) for name in column.values), 0.0])
    return Answers(ungrouped, refused[column.codes], scores[column.codes] if scores.any() else None)


def refuses_ungrouped(groups: NodeGroups, strict: bool) -> bool:
    """Whether nodes without a group are refused: always if `strict`, else to queues with groups of their own."""
    return strict or bool(groups.required or groups.preferred)


def may_use(groups: NodeGroups, name: str) -> bool:
    """Whether the jobs of a queue may use a group. A queue that only excludes groups may use all others."""
    if not groups or name in groups.forbidden:
        return False
    own = groups.required or groups.preferred
    return not own or name in groups.required or name in groups.preferred or name in groups.avoided


def points(groups: NodeGroups, name: str, in_order: bool) -> float:
    """The score of a node of a group."""
    if name in groups.avoided:
        return AVOIDED
    score = REQUIRED if name in groups.required else 0.0
    if name in groups.preferred:
        before = groups.preferred.index(name) if in_order else 0
        score += PREFERRED * (len(groups.preferred) - before) / len(groups.preferred)
    return score
