"""The ways in which pods say that they are a gang, one module each.

Where a pod speaks several, the first in this table wins; a pod that speaks none is a gang of one.
"""

from __future__ import annotations

from maar.kube.dialects.owners import Owners
from maar.kube.dialects.plain import Plain
from maar.kube.dialects.scheduler_plugins import SchedulerPlugins
from maar.kube.dialects.upstream import Upstream
from maar.kube.dialects.volcano import Volcano
from maar.kube.read.groups import Dialect
from maar.kube.read.objects import Objects


def dialects(objects: Objects, names: frozenset[str] | None = None) -> tuple[Dialect, ...]:
    """All dialects in their order of precedence; `names` are ours as schedulers (`None`: all are)."""
    return (
        Upstream(objects.upstream_groups),
        Volcano(objects.volcano_groups),
        SchedulerPlugins(objects.plugins_groups),
        Plain(),
        Owners(objects, names),
    )
