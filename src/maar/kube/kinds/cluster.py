"""The kinds that make no gangs: nodes, pods, queues, volumes, and what else a decision depends on."""

from __future__ import annotations

from maar.kube.kinds.kind import Form, Kind, Right
from maar.kube.wire import api_resources as resources

NODES = Kind(resource=resources.NODES, writes={"": ("patch",)})
NODE_METRICS = Kind(
    resource=resources.NODE_METRICS,
    family="metrics",
    watched=False,
    also=tuple(
        Right(resources.CUSTOM_METRICS, f"nodes/{name}", ("get",))
        for name in (resources.NODE_CPU_USAGE, resources.NODE_MEMORY_USAGE)
    ),
)
PODS = Kind(
    resource=resources.PODS,
    form=Form(scheduler="spec.schedulerName"),
    writes={"": ("patch",), "status": ("patch",), "binding": ("create",), "eviction": ("create",)},
)
NAMESPACES = Kind(resource=resources.NAMESPACES)
SERVICES = Kind(resource=resources.SERVICES)
QUOTAS = Kind(resource=resources.QUOTAS)
CLAIMS = Kind(resource=resources.CLAIMS, writes={"": ("patch",)})
VOLUMES = Kind(resource=resources.VOLUMES, writes={"": ("patch",)})
STORAGE_CLASSES = Kind(resource=resources.STORAGE_CLASSES)
CSI_NODES = Kind(resource=resources.CSI_NODES)
CSI_DRIVERS = Kind(resource=resources.CSI_DRIVERS)
CSI_CAPACITIES = Kind(resource=resources.CSI_CAPACITIES)
PRIORITY_CLASSES = Kind(resource=resources.PRIORITY_CLASSES)
BUDGETS = Kind(resource=resources.BUDGETS)
QUEUES = Kind(
    resource=resources.QUEUES,
    writes={"": ("create", "patch"), "status": ("patch",)},
    unread=frozenset({"affinity", "dequeueStrategy", "extendClusters", "type"}),
)
HYPERNODES = Kind(resource=resources.HYPERNODES, family="volcano")
PROVISIONING_REQUESTS = Kind(
    resource=resources.PROVISIONING_REQUESTS,
    family="autoscaler",
    older=(resources.PROVISIONING_REQUESTS_V1BETA1,),
    writes={"": ("create", "delete")},
    also=(Right(resources.POD_TEMPLATES.group, resources.POD_TEMPLATES.plural, ("create", "delete")),),
)
STATE = Kind(resource=resources.CONFIG_MAPS, writes={"": ("create", "patch")}, only="maar-state")
CONFIGURATION = "maar-configuration"
"""The ConfigMap in Maar's own namespace with the configuration in use, which everyone who may sign in can read."""
PUBLISHING = Right(resources.CONFIG_MAPS.group, resources.CONFIG_MAPS.plural, ("get", "create", "patch"))
SHARD_MAPS = Kind(resource=resources.SHARD_MAPS, family="shards", writes={"": ("create", "update")})
SHARDS = Kind(resource=resources.SHARDS, family="shards", writes={"": ("create", "update")})

WRITTEN_ONLY = (
    Right(resources.EVENTS.group, resources.EVENTS.plural, ("create", "patch")),
    Right(resources.TOKEN_REVIEWS.group, resources.TOKEN_REVIEWS.plural, ("create",)),
)
"""Rights on kinds that Maar never reads."""

WEB_ONLY = (
    Right(resources.TOKEN_REVIEWS.group, resources.TOKEN_REVIEWS.plural, ("create",)),
    Right(resources.ACCESS_REVIEWS.group, resources.ACCESS_REVIEWS.plural, ("create",)),
    Right("", resources.EVENTS.plural, ("list",)),
)
"""Rights that only `maar web` needs: to ask who a user is and what she may see, and for the stories of jobs."""
