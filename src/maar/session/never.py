"""Jobs that cannot start on today's nodes, under today's limits, whatever else leaves: "never", not "not yet".

Everything here is a proof. Nodes count as if all pods were gone, and as usable while they are cordoned or tainted.
Where nothing is proved the reason stays as it is, and means "not yet". The text says what would have to change.
"""

from __future__ import annotations

from operator import gt

import numpy as np
from msgspec.structs import replace

from maar.model.codes import LOCKED
from maar.model.fitting import Mode
from maar.model.jobs import Closeness, Job
from maar.model.reasons import Never, Reason, Refusal
from maar.model.resources import PODS, UNLIMITED, Ints, Mask, in_words, scarce_first
from maar.model.tasks import Status
from maar.model.words import count as counted
from maar.model.words import number
from maar.session.placement import Group, domains_of
from maar.session.session import Session

MATCH, NODE, CLUSTER, DOMAIN = "NoMatchingNode", "LargerThanAnyNode", "LargerThanCluster", "LargerThanAnyDomain"
QUEUE, POOL = "LargerThanQueueLimit", "LargerThanPool"
NOW = "never on today's nodes"


def by_nodes(session: Session, job: Job, group: Group, count: int, reason: Reason, *, alone: bool) -> Reason:
    """The reason why nodes refuse a group of which `count` tasks must start together, with the proof if there is one.

    `alone`: the gang has no other group.
    """
    if count < 1 or reason.code == LOCKED.name or not len(session.snapshot.nodes):
        return reason
    closed = [refusal for refusal in session.closed_to(job) if refusal.code.lasting]
    if closed or count > _hold(session, group.shape):
        found = _by_room(session, group.shape, count, closed, reason)
        if found is not reason:
            return found
    if not alone or job.closeness is None or not job.closeness.hard:
        return reason
    if len(session.tasks_of(job, Status.BOUND, Status.NOMINATED)):
        return reason
    masks = [mask for mask in domains_of(session, job) if mask is not None]
    return by_domains(session, group, count, job.closeness, masks, reason)


def _by_room(session: Session, shape: int, count: int, closed: list[Refusal], reason: Reason) -> Reason:
    """The same by what nodes hold that are not `closed` to the job for good."""
    usable = _without(_usable(session, shape), closed)
    if not usable.any():
        refusals = [refusal for refusal in session.refusals(shape) if refusal.code.lasting]
        causes = dict.fromkeys(refusal.words for refusal in (*refusals, *closed))
        what = f"they {', '.join(causes)}"
        return _proved(reason, MATCH, f"{NOW}: {what}: add or label nodes, or change what it selects")
    most = int((_holds(session, shape) * usable).sum())
    if not most:
        return _proved(reason, NODE, f"{NOW}: {_too_large(session, shape, usable)}")
    if most < count:
        what = f"needs {counted(count, 'pod', 'pods together')}, all nodes hold {number(most)} if nothing else runs"
        return _proved(reason, CLUSTER, f"{NOW}: {what}: add nodes, or lower its minimum")
    return reason


def by_domains(
    session: Session, group: Group, count: int, closeness: Closeness, masks: list[Mask], reason: Reason
) -> Reason:
    """The same for tasks that must be in one of some domains, of which none of them runs yet."""
    most = _largest_domain(session, group.shape, masks)
    if most is None or most >= count:
        return reason
    pods = counted(count, "pod", "pods together")
    what = f"needs {pods} within one {closeness.words}, the largest holds {number(most)} if nothing else runs"
    return _proved(reason, DOMAIN, f"{NOW}: {what}: allow a wider domain, or lower its minimum")


def by_queue(session: Session, reason: Reason, asks: list[int]) -> Reason:
    """The reason why a queue refuses a job that must have `asks` at once, with the proof if it is above its limit."""
    number = session.snapshot.queues.number.get(reason.queue)
    if number is None:
        return reason
    axes = session.snapshot.axes
    limit = axes.row(session.snapshot.queues.queues[number].capability or {}, missing=UNLIMITED)
    if not any(map(gt, asks, limit)):
        return reason
    for d in _dims(session, asks):
        if asks[d] > limit[d]:
            name = axes.names[d]
            what = f"needs {in_words(name, asks[d])} {name} at once, its capability is {in_words(name, limit[d])}"
            text = f"never in queue `{reason.queue}`: {what}: raise the capability, or ask for less"
            return _proved(reason, QUEUE, text)
    return reason


def by_total(session: Session, reason: Reason, asks: list[int]) -> Reason:
    """The reason why a group without pods is not admitted, with the proof if all nodes together have less."""
    for d in _dims(session, asks):
        if asks[d] > session.total[d]:
            name = session.snapshot.axes.names[d]
            what = f"needs {in_words(name, asks[d])} {name}, all nodes have {in_words(name, session.total[d])}"
            return _proved(reason, CLUSTER, f"{NOW}: {what}: add nodes, or ask for less")
    return reason


def by_pool(session: Session, shape: int, least: int, nodes: Mask, pool: str, reason: Reason) -> Reason:
    """The reason why an elastic job gets no workers, with the proof if its pool cannot hold its minimum."""
    usable, holds = _usable(session, shape) & nodes, _holds(session, shape)[nodes]
    if not holds.any():
        if not usable.any():
            return reason
        what = _too_large(session, shape, usable)
        return _proved(reason, NODE, f"never in pool `{pool}` as it is: {what}")
    if int(holds.sum()) < least:
        what = (
            f"needs at least {counted(least, 'worker')}, its nodes hold {number(int(holds.sum()))} if nothing else runs"
        )
        return _proved(reason, POOL, f"never in pool `{pool}` as it is: {what}: add nodes, or lower its minimum")
    return reason


def _proved(reason: Reason, code: str, message: str) -> Reason:
    return replace(reason, never=Never(code, message))


def _usable(session: Session, shape: int) -> Mask:
    """The nodes that a shape may use, now or after what does not last is gone: a cordon, a taint."""

    def make() -> Mask:
        every = np.ones(len(session.snapshot.nodes), dtype=np.bool_)
        return _without(every, [refusal for refusal in session.refusals(shape) if refusal.code.lasting])

    return session.memo.fixed("never", ("usable", shape), make)


def _without(nodes: Mask, refusals: list[Refusal]) -> Mask:
    for refusal in refusals:
        nodes = nodes & ~refusal.nodes
    return nodes


def _holds(session: Session, shape: int) -> Ints:
    """How many tasks of a shape each node holds if nothing else runs there."""
    return session.capacity.on_empty(shape) * _usable(session, shape)


def _hold(session: Session, shape: int) -> int:
    """How many tasks of a shape all nodes hold if nothing else runs."""
    return session.memo.fixed("never", ("hold", shape), lambda: int(_holds(session, shape).sum()))


def _too_large(session: Session, shape: int, usable: Mask) -> str:
    """The resource of which one pod needs more than any node has, or what counters say of empty nodes."""
    axes, table = session.snapshot.axes, session.snapshot.nodes.allocatable
    request = session.snapshot.shapes.requests[shape]
    change = "add larger nodes, or ask for less per pod"
    dims = scarce_first(axes, request)
    for d in dims:
        most = int(table[usable, d].max())
        if request[d] > most:
            name = axes.names[d]
            which = "largest" if bool(usable.all()) else "largest that it may use"
            asks = in_words(name, int(request[d]))
            return f"1 pod needs {asks} {name}, the {which} has {in_words(name, most)}: {change}"
    refusals = [cause for _, limit in session.capacity.limits(shape, Mode.EMPTY) for cause in limit.causes]
    counts = {refusal.words: int(refusal.nodes[usable].sum()) for refusal in refusals}
    causes = ", ".join(f"{number(nodes)} {words}" for words, nodes in counts.items() if nodes)
    if causes:
        return f"none of them takes 1 pod if nothing else runs: {causes}: {change}"
    amounts = {axes.names[d]: int(request[d]) for d in dims if axes.names[d] != PODS}
    asks = ", ".join(f"{in_words(name, amount)} {name}" for name, amount in amounts.items())
    return f"1 pod needs {asks}, and no node has all of it: {change}"


def _largest_domain(session: Session, shape: int, masks: list[Mask]) -> int | None:
    """How many tasks of a gang's only shape the largest domain holds; `None` if it is unknown.

    The domains to try have one that could hold the gang if there is one. They leave out nodes that are closed now.
    """
    closed = ~session.view(shape).open
    if (closed & _usable(session, shape)).any():
        return None
    holds = _holds(session, shape)
    return max((int(holds[mask].sum()) for mask in masks), default=None)


def _dims(session: Session, asks: list[int]) -> list[int]:
    return scarce_first(session.snapshot.axes, np.array([int(n > 0) for n in asks]))
