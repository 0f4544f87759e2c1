"""The one table of plugins and actions: what a configuration can name.

Built-in ones are listed here, by hand, so that a reader sees all of them and no import has side effects.
Third parties add theirs by entry points (`maar.plugins`, `maar.actions`, `maar.algorithms`), each of which
names a `Registration`. A name is given once: what would replace a built-in one is refused. One that cannot be loaded
does not stop the rest: it is left out, `Catalog.broken` says why, and whoever reads a configuration is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from maar.actions import allocate, backfill, elect, enqueue, preempt, reclaim, reserve, resize
from maar.config.config import Catalog, Registration, Serving
from maar.elastic import (
    afs_l,
    elastic_fifo,
    elastic_srjf,
    elastic_tiresias,
    ffdl,
    fifo,
    max_min,
    optimus,
    srjf,
    srsf,
    srtf,
    tiresias,
)
from maar.plugins import (
    binpack,
    capacity,
    conformance,
    cooldown,
    drf,
    gang,
    nodeorder,
    overcommit,
    pdb,
    predicates,
    priority,
    proportion,
    reservation,
    sla,
    topology,
)

PLUGINS: tuple[Registration, ...] = (
    Registration(priority.NAME, priority.Priority, priority.Arguments),
    Registration(gang.NAME, gang.Gang, gang.Arguments),
    Registration(conformance.NAME, conformance.Conformance, conformance.Arguments),
    Registration(sla.NAME, sla.Sla, sla.Arguments),
    Registration(pdb.NAME, pdb.Pdb, pdb.Arguments),
    Registration(cooldown.NAME, cooldown.Cooldown, cooldown.Arguments),
    Registration(reservation.NAME, reservation.Reservation, reservation.Arguments),
    Registration(overcommit.NAME, overcommit.Overcommit, overcommit.Arguments),
    Registration(drf.NAME, drf.Drf, drf.Arguments),
    Registration(predicates.NAME, predicates.Predicates, predicates.Arguments),
    Registration(proportion.NAME, proportion.Proportion, proportion.Arguments),
    Registration(capacity.NAME, capacity.Capacity, capacity.Arguments),
    Registration(nodeorder.NAME, nodeorder.Nodeorder, nodeorder.Arguments),
    Registration(binpack.NAME, binpack.Binpack, binpack.Arguments),
    Registration(topology.NAME, topology.Topology, topology.Arguments),
)

ACTIONS: tuple[Registration, ...] = (
    Registration(enqueue.NAME, enqueue.Enqueue, enqueue.Arguments),
    Registration(elect.NAME, elect.Elect, elect.Arguments),
    Registration(allocate.NAME, allocate.Allocate, allocate.Arguments),
    Registration(resize.NAME, resize.Resize, resize.Arguments),
    Registration(preempt.NAME, preempt.Preempt, preempt.Arguments),
    Registration(reclaim.NAME, reclaim.Reclaim, reclaim.Arguments),
    Registration(backfill.NAME, backfill.Backfill, backfill.Arguments),
    Registration(reserve.NAME, reserve.Reserve, reserve.Arguments),
)

ALGORITHMS: tuple[Registration, ...] = (
    Registration(fifo.NAME, fifo.plan, serving=Serving.IN_LINE),
    Registration(srjf.NAME, srjf.plan, serving=Serving.IN_LINE),
    Registration(elastic_fifo.NAME, elastic_fifo.plan, serving=Serving.IN_LINE),
    Registration(elastic_srjf.NAME, elastic_srjf.plan, serving=Serving.IN_LINE),
    Registration(
        tiresias.NAME, tiresias.plan, tiresias.Arguments, Serving.IN_LINE, tiresias.wake_after, tiresias.promotes_after
    ),
    Registration(
        elastic_tiresias.NAME,
        elastic_tiresias.plan,
        elastic_tiresias.Arguments,
        Serving.IN_ORDER,
        tiresias.wake_after,
        tiresias.promotes_after,
    ),
    Registration(ffdl.NAME, ffdl.plan),
    Registration(afs_l.NAME, afs_l.plan),
    Registration(srtf.NAME, srtf.plan, serving=Serving.IN_LINE),
    Registration(srsf.NAME, srsf.plan, serving=Serving.IN_LINE),
    Registration(optimus.NAME, optimus.plan, serving=Serving.IN_LINE),
    Registration(max_min.NAME, max_min.plan, serving=Serving.IN_LINE),
)
"""How many workers each elastic job gets."""

ALIASES = {
    "network-topology-aware": "topology",
    "gangpreempt": "preempt",
    "gangreclaim": "reclaim",
    "cdp": "cooldown",
}
"""Volcano's names for what has another name here."""

MISSING = {
    "shuffle": "running pods are not moved to better nodes (`tdm` and `rescheduling` ask for it)",
    "tdm": "nodes that are lent for some hours of the day are not kept to their hours",
    "task-topology": "the affinity that jobs ask for between their own roles does not count",
    "numa-aware": "pods are not kept within one NUMA node",
    "deviceshare": "a GPU cannot be shared: pods get whole GPUs, by count",
    "resource-strategy-fit": "nodes are not packed or spread by resource; `binpack` can weigh resources instead",
    "rescheduling": "running pods are not moved away from busy nodes",
    "usage": "nodes are judged by what pods request, not by what they really use",
    "nodegroup": "queues are not kept to their node groups",
    "extender": "no outside HTTP service is asked",
    "resourcequota": "groups are admitted without a look at the namespace's ResourceQuota",
}
"""What Volcano has and Maar has not yet, and what is lost without it."""

_NO_CACHE = "a refusal is found once for all equal pods anyway"
_ALL_NODES = "all nodes are looked at, and victims that are not needed are given back"
_NO_DOMAINS = "all domains are looked at"
_NO_CLAIMS = "what pods claim as dynamic resources does not count"
_NO_SHARING = "a GPU cannot be shared: pods get whole GPUs, by count"
_NO_SET_ASIDE = "no CPU and memory are kept free for idle GPUs"

IGNORED = {
    "enqueue": {"overcommit-factor": "it is an argument of the `overcommit` plugin"},
    "allocate": {"predicateErrorCacheEnable": _NO_CACHE},
    "backfill": {"predicateErrorCacheEnable": _NO_CACHE},
    "preempt": {
        "predicateErrorCacheEnable": _NO_CACHE,
        "enableTopologyAwarePreemption": _ALL_NODES,
        "topologyAwarePreemptWorkerNum": _ALL_NODES,
        "minCandidateNodesPercentage": _ALL_NODES,
        "minCandidateNodesAbsolute": _ALL_NODES,
        "maxCandidateNodesAbsolute": _ALL_NODES,
        "maxDomains": _NO_DOMAINS,
    },
    "reclaim": {"predicateErrorCacheEnable": _NO_CACHE, "maxDomains": _NO_DOMAINS},
    "predicates": {
        "predicate.GPUSharingEnable": _NO_SHARING,
        "predicate.GPUNumberEnable": _NO_SHARING,
        "predicate.ProportionalEnable": _NO_SET_ASIDE,
        "predicate.resources*": _NO_SET_ASIDE,
    },
    "capacity": {
        "capacity.DynamicResourceAllocationEnable": _NO_CLAIMS,
        "capacity.DRAConsumableCapacityEnable": _NO_CLAIMS,
    },
}
"""Arguments of Volcano that change nothing here, and why; one that a plugin declares is never looked up here."""

GROUPS = ("maar.plugins", "maar.actions", "maar.algorithms")
"""The entry point groups."""


def by_name(registrations: Iterable[Registration]) -> dict[str, Registration]:
    """A table that refuses a name given twice."""
    table: dict[str, Registration] = {}
    for registration in registrations:
        if registration.name in table:
            raise ValueError(f"registered twice: `{registration.name}`")
        table[registration.name] = registration
    return table


def make_catalog(found: Iterable[EntryPoint]) -> Catalog:
    """The built-in table with what others add to it."""
    tables = dict(zip(GROUPS, map(by_name, (PLUGINS, ACTIONS, ALGORITHMS)), strict=True))
    broken: dict[str, str] = {}
    for entry in sorted(found, key=lambda e: (e.group, e.name, origin(e), e.value)):
        try:
            registration = load(entry)
            if registration.name in tables[entry.group]:
                raise ValueError(f"the name `{registration.name}` is taken")
        except Exception as error:  # whatever a stranger's module raises, the others still work
            why = f"{entry.group}: `{entry.name}` of {origin(entry)} cannot be used: {error}"
            broken[entry.name] = f"{broken[entry.name]}; {why}" if entry.name in broken else why
        else:
            tables[entry.group][registration.name] = registration
    plugins, actions, algorithms = tables.values()
    return Catalog(plugins, actions, ALIASES, MISSING, algorithms, broken, IGNORED)


def load(entry: EntryPoint) -> Registration:
    """What an entry point names."""
    registration = entry.load()
    if not isinstance(registration, Registration):
        raise TypeError(
            f"`{entry.value}` is a {type(registration).__name__}, expected a `maar.config.config.Registration`"
        )
    if registration.name != entry.name:
        raise ValueError(f"`{entry.value}` calls itself `{registration.name}`")
    return registration


def origin(entry: EntryPoint) -> str:
    """Who brought it, for a person who wants to mend or remove it."""
    return "an unknown distribution" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


@cache
def catalog() -> Catalog:
    """Everything that is installed."""
    return make_catalog(entry for group in GROUPS for entry in entry_points(group=group))
