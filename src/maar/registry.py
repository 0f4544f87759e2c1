"""The one table of plugins, actions and algorithms: the names that a configuration can use.

Built-in entries are listed here by hand, so that all are visible and no import has side effects. Third parties add
theirs by entry points (`maar.plugins`, `maar.actions`, `maar.algorithms`), each of which names a `Registration`. Names
are unique: an entry point cannot replace a built-in entry. An entry point that cannot be loaded is left out;
`Catalog.broken` holds the error, which is reported when a configuration is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from maar.actions import allocate, backfill, elect, enqueue, preempt, reclaim, reserve, resize, shuffle
from maar.config.config import Catalog, Ignored, Missing, Registration, Serving
from maar.elastic import (
    afs_l,
    elastic_fifo,
    elastic_srjf,
    elastic_tiresias,
    ffdl,
    fifo,
    max_min,
    optimus,
    price,
    srjf,
    srsf,
    srtf,
    tiresias,
)
from maar.model.codes import CORE, Code
from maar.plugins import (
    binpack,
    capacity,
    conformance,
    cooldown,
    drf,
    gang,
    nodegroup,
    nodeorder,
    overcommit,
    pdb,
    predicates,
    priority,
    proportion,
    reservation,
    resourcequota,
    sla,
    topology,
)
from maar.plugins.volcano import rescheduling, resource_strategy_fit, task_topology, tdm, usage

PLUGINS: tuple[Registration, ...] = (
    Registration(priority.NAME, priority.Priority),
    Registration(gang.NAME, gang.Gang, gang.Arguments, codes=gang.CODES),
    Registration(conformance.NAME, conformance.Conformance),
    Registration(sla.NAME, sla.Sla, sla.Arguments),
    Registration(pdb.NAME, pdb.Pdb),
    Registration(cooldown.NAME, cooldown.Cooldown),
    Registration(reservation.NAME, reservation.Reservation, reservation.Arguments),
    Registration(overcommit.NAME, overcommit.Overcommit, overcommit.Arguments, codes=(overcommit.OVERCOMMITTED,)),
    Registration(resourcequota.NAME, resourcequota.Resourcequota, codes=(resourcequota.EXCEEDED,)),
    Registration(drf.NAME, drf.Drf, drf.Arguments),
    Registration(predicates.NAME, predicates.Predicates, predicates.Arguments, codes=predicates.CODES),
    Registration(proportion.NAME, proportion.Proportion, codes=proportion.CODES),
    Registration(capacity.NAME, capacity.Capacity, capacity.Arguments, codes=capacity.CODES),
    Registration(nodegroup.NAME, nodegroup.Nodegroup, nodegroup.Arguments, codes=nodegroup.CODES),
    Registration(nodeorder.NAME, nodeorder.Nodeorder, nodeorder.Arguments),
    Registration(binpack.NAME, binpack.Binpack, binpack.Arguments),
    Registration(rescheduling.NAME, rescheduling.Rescheduling, rescheduling.Arguments),
    Registration(
        resource_strategy_fit.NAME,
        resource_strategy_fit.ResourceStrategyFit,
        resource_strategy_fit.Arguments,
        codes=(resource_strategy_fit.KEPT,),
    ),
    Registration(
        task_topology.NAME, task_topology.TaskTopologyPlugin, task_topology.Arguments, codes=(task_topology.IGNORED,)
    ),
    Registration(tdm.NAME, tdm.Tdm, tdm.Arguments, codes=tdm.CODES),
    Registration(usage.NAME, usage.Usage, usage.Arguments, codes=usage.CODES),
    Registration(topology.NAME, topology.Topology, topology.Arguments, codes=topology.CODES),
)

ACTIONS: tuple[Registration, ...] = (
    Registration(enqueue.NAME, enqueue.Enqueue),
    Registration(elect.NAME, elect.ElectAction),
    Registration(allocate.NAME, allocate.Allocate),
    Registration(resize.NAME, resize.ResizeAction),
    Registration(preempt.NAME, preempt.Preempt, preempt.Arguments),
    Registration(reclaim.NAME, reclaim.Reclaim, reclaim.Arguments),
    Registration(backfill.NAME, backfill.Backfill),
    Registration(reserve.NAME, reserve.ReserveAction),
    Registration(shuffle.NAME, shuffle.Shuffle),
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
    Registration(price.NAME, price.plan, price.Arguments, wake_after=price.wake_after, weighs_restarts=True),
)
"""Algorithms that decide how many workers each elastic job gets."""

ALIASES = {
    "network-topology-aware": "topology",
    "gangpreempt": "preempt",
    "gangreclaim": "reclaim",
    "cdp": "cooldown",
}
"""Names that Volcano uses for entries with another name in Maar."""

MISSING = {
    # Its filter keeps pods with a NUMA policy off nodes that cannot hold to it; the kubelet there refuses such pods.
    "numa-aware": Missing("pods are not kept within one NUMA node", misplaces=True),
    # Harmless: pods that ask for a share wait with a reason, and are never bound blindly (maar.kube.read.devices).
    "deviceshare": Missing("a GPU cannot be shared: pods get whole GPUs, by count, and pods that ask for a share wait"),
    # The service may be what forbids nodes.
    "extender": Missing("no external HTTP service is asked, not even for the nodes that it forbids", misplaces=True),
    # Huawei's plugin for Ascend; the version is part of its name. Its filter knows which NPUs may be used together.
    "volcano-npu*": Missing("NPUs are counted, without their topology, health and virtual parts", misplaces=True),
}
"""Plugins and actions of Volcano and of vendors that Maar does not have, and what is missing without them.

`misplaces` marks those without which pods could land where they must not: plugins with a filter by which a node is
forbidden, if nothing else in Maar makes such pods wait. A comment says why, or why not.
"""

_NO_CACHE = "Maar checks equal pods only once in any case"
_ALL_NODES = "all nodes are examined, and victims that are not needed are spared"
_NO_DOMAINS = "the number of domains is fixed"
_NO_CLAIMS = "pods with resource claims wait, because Maar does not allocate devices to claims"
_NO_CLAIM_QUOTA = f"queues do not count the devices of resource claims; {_NO_CLAIMS}"
_NO_SHARING = "a GPU cannot be shared: pods get whole GPUs, by count, and pods that ask for a share wait"
_NO_SET_ASIDE = "`proportional` of the plugin `resource-strategy-fit` keeps CPU and memory free for idle GPUs"
_VOLUMES = "Maar always checks where volumes can be reached"
_VOLUME_TIME = "a pod waits 10 minutes for its volumes, then Maar decides again"
_NO_STORAGE_SCORE = "nodes are not compared by the free capacity of their storage"
_NO_SELECTOR_SPREAD = "pods of one Service are spread by `podtopologyspread.weight`, as in Kubernetes since 1.20"
_TIGHTEST = "domains are ordered by how tightly the gang fits, not by weights"
_NORMAL_PODS = "only gangs with a network topology are packed into HyperNodes"
_NO_GATES = "Maar has no workers of its own for scheduling gates"

IGNORED = {
    "enqueue": {"overcommit-factor": Ignored("it is an argument of the `overcommit` plugin")},
    "allocate": {
        "predicateErrorCacheEnable": Ignored(_NO_CACHE, unless=True),
        "gateRemovalWorkerNum": Ignored(_NO_GATES, unless=5),
    },
    "backfill": {"predicateErrorCacheEnable": Ignored(_NO_CACHE, unless=True)},
    "preempt": {
        "predicateErrorCacheEnable": Ignored(_NO_CACHE, unless=True),
        "enableTopologyAwarePreemption": Ignored(_ALL_NODES, unless=False),
        "topologyAwarePreemptWorkerNum": Ignored(_ALL_NODES, unless=16),
        "minCandidateNodesPercentage": Ignored(_ALL_NODES, unless=10),
        "minCandidateNodesAbsolute": Ignored(_ALL_NODES, unless=1),
        "maxCandidateNodesAbsolute": Ignored(_ALL_NODES, unless=100),
        "maxDomains": Ignored(_NO_DOMAINS, unless=8),
    },
    "reclaim": {
        "predicateErrorCacheEnable": Ignored(_NO_CACHE, unless=True),
        "maxDomains": Ignored(_NO_DOMAINS, unless=8),
    },
    "predicates": {
        "predicate.VolumeZoneEnable": Ignored(_VOLUMES, unless=True),
        "predicate.VolumeBindingEnable": Ignored(_VOLUMES, unless=True),
        "predicate.DynamicResourceAllocationEnable": Ignored(_NO_CLAIMS, unless=False),
        "predicate.CacheEnable": Ignored(_NO_CACHE, unless=False),
        "predicate.GPUSharingEnable": Ignored(_NO_SHARING, unless=False),
        "predicate.GPUNumberEnable": Ignored(_NO_SHARING, unless=False),
        "predicate.ProportionalEnable": Ignored(_NO_SET_ASIDE, unless=False),
        "predicate.resources*": Ignored(_NO_SET_ASIDE),
        "volumebinding.bindTimeoutSeconds": Ignored(_VOLUME_TIME, unless=600),
        "volumebinding.weight": Ignored(_NO_STORAGE_SCORE, unless=1),
        "volumebinding.shape": Ignored(_NO_STORAGE_SCORE),
        "dynamicresources.filterTimeoutSeconds": Ignored(_NO_CLAIMS, unless=10),
    },
    "nodeorder": {
        "selectorspread.weight": Ignored(_NO_SELECTOR_SPREAD, unless=0),
        "volumebinding.weight": Ignored(_NO_STORAGE_SCORE, unless=1),
    },
    "capacity": {
        "capacity.DynamicResourceAllocationEnable": Ignored(_NO_CLAIM_QUOTA, unless=False),
        "capacity.DRAConsumableCapacityEnable": Ignored(_NO_CLAIM_QUOTA, unless=False),
    },
    "topology": {
        "weight": Ignored(_TIGHTEST, unless=1),
        "hypernode.binpack.cpu": Ignored(_TIGHTEST, unless=1),
        "hypernode.binpack.memory": Ignored(_TIGHTEST, unless=1),
        "hypernode.binpack.resources*": Ignored(_TIGHTEST),
        "hypernode.binpack.normal-pod.enable": Ignored(_NORMAL_PODS, unless=False),
        "hypernode.binpack.normal-pod.fading": Ignored(_NORMAL_PODS, unless=0.8),
    },
}
"""Arguments of Volcano that have no effect, and why. Used only for arguments that the plugin does not declare."""

GROUPS = ("maar.plugins", "maar.actions", "maar.algorithms")


def by_name(registrations: Iterable[Registration]) -> dict[str, Registration]:
    """Registrations by name; a duplicate name is an error."""
    table: dict[str, Registration] = {}
    for registration in registrations:
        if registration.name in table:
            raise ValueError(f"name registered twice: `{registration.name}`")
        table[registration.name] = registration
    return table


def make_catalog(found: Iterable[EntryPoint]) -> Catalog:
    """The built-in tables, extended by the entry points that can be loaded."""
    tables = dict(zip(GROUPS, map(by_name, (PLUGINS, ACTIONS, ALGORITHMS)), strict=True))
    codes = [*CORE, *(code for table in tables.values() for one in table.values() for code in one.codes)]
    broken: dict[str, str] = {}
    for entry in sorted(found, key=lambda e: (e.group, e.name, origin(e), e.value)):
        try:
            registration = load(entry)
            if registration.name in tables[entry.group]:
                raise ValueError(f"the name `{registration.name}` is already taken")
            check_codes(codes, registration.codes)
        except Exception as error:  # noqa: BLE001 third-party code may raise anything; the other entries must still work
            why = f"{entry.group}: `{entry.name}` of {origin(entry)} cannot be used: {error}"
            broken[entry.name] = f"{broken[entry.name]}; {why}" if entry.name in broken else why
        else:
            tables[entry.group][registration.name] = registration
            codes.extend(registration.codes)
    plugins, actions, algorithms = tables.values()
    return Catalog(plugins, actions, ALIASES, MISSING, algorithms, broken, IGNORED)


def codes_of(known: Catalog) -> tuple[Code, ...]:
    """All declared codes, each once: those of the core, of plugins and of actions."""
    tables = (*known.plugins.values(), *known.actions.values())
    return tuple(dict.fromkeys((*CORE, *(code for registration in tables for code in registration.codes))))


def check_codes(known: Iterable[Code], more: Iterable[Code]) -> None:
    """Refuse codes that are already declared with another meaning."""
    table = {code.name: code for code in known}
    for code in more:
        if table.setdefault(code.name, code) != code:
            raise ValueError(f"the code `{code.name}` is already declared, and means something else")


def load(entry: EntryPoint) -> Registration:
    """The registration that an entry point names, checked."""
    registration = entry.load()
    if not isinstance(registration, Registration):
        raise TypeError(
            f"`{entry.value}` is a {type(registration).__name__}, expected a `maar.config.config.Registration`"
        )
    if registration.name != entry.name:
        raise ValueError(f"`{entry.value}` is registered as `{registration.name}`, expected `{entry.name}`")
    return registration


def origin(entry: EntryPoint) -> str:
    """The distribution that installed an entry point, for error messages."""
    return "an unknown distribution" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


@cache
def catalog() -> Catalog:
    """The built-in and installed plugins, actions and algorithms."""
    return make_catalog(entry for group in GROUPS for entry in entry_points(group=group))
