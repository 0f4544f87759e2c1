"""`maar-state` on a real API server: `maar run` stops and the next one finds it, and tenants cannot write it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.live import OUR_CRDS, Live, connected
from tests.support.memory import HOME, STATE, elected, electing, locks, state
from tests.support.patience import wait_until
from tests.support.real.api import Refused
from tests.support.real.cluster import RealCluster
from tests.support.scheduler import Child

from maar.kube.wire.api_resources import CONFIG_MAPS, NODES, PODS

TENANT = "tenant"
TEAM = "team"
RBAC = "rbac.authorization.k8s.io"
MERGE = "application/merge-patch+json"


def test_the_next_maar_finds_the_election_and_no_tenant_can_write_it(
    new_cluster: Callable[..., RealCluster], tmp_path: Path
) -> None:
    cluster = new_cluster(users={TENANT: []})
    cluster.start_kwok()
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}, may_edit()])
    options = ("--lease-namespace", HOME, "--config", str(electing(tmp_path)))
    children = [Child(cluster.kubeconfig, tmp_path / "first.log", *options)]

    async def story() -> None:
        async with connected(cluster.kubeconfig) as live:
            await live.crds(OUR_CRDS)
            await live.nodes(2, gpu=8)
            for i in range(2):
                await live.pod(f"long-{i}", gpu=5)
            await live.until(lambda ps: len(ps) == 2 and all(p.node for p in ps), "both nodes are in use")
            await live.gang("wide", 2, gpu=8)
            await locked(live)
            before, held = await state(live), await locks(live)
            children[0].end(signal.SIGTERM)
            refuse_the_tenant(cluster)
            assert (before, held) == (await state(live), await locks(live))
            children.append(Child(cluster.kubeconfig, tmp_path / "second.log", *options))
            for i in range(2):
                await live.delete(f"long-{i}")
            await live.until(lambda ps: all(p.node for p in ps if p.group == "wide"), "the gang starts")
            await live.eventually(lambda: is_free(live), "no lock and no election is left over")

    try:
        asyncio.run(story())
    finally:
        for child in children:
            child.end()


async def locked(live: Live) -> None:
    async def there() -> bool:
        return await elected(live) == "default/wide" and len(await locks(live)) == 2

    await live.eventually(there, "both nodes are locked")


async def is_free(live: Live) -> bool:
    return not await locks(live) and not await elected(live)


def may_edit() -> dict[str, Any]:
    """The rights of the ClusterRole `edit` in one namespace. No controller fills the aggregated role itself here."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "edit", "namespace": TEAM},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "system:aggregate-to-edit"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": TENANT}],
    }


def refuse_the_tenant(cluster: RealCluster) -> None:
    """She may write ConfigMaps and pods of her own, and nothing in which Maar remembers what protects others."""
    token = cluster.token_of(TENANT)

    def write(verb: str, path: str, body: dict[str, Any]) -> None:
        content = {"content_type": MERGE} if verb == "PATCH" else {}
        cluster.request(verb, path, body, token=token, **content)

    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "maar-state"}, "data": {"maar": "{}"}}

    def may_write() -> bool:
        try:
            write("POST", CONFIG_MAPS.path(TEAM), own)
        except Refused:
            return False
        return True

    wait_until(may_write, "the role is granted")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hers"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    write("POST", PODS.path(TEAM), pod)
    write(
        "PATCH",
        PODS.path(TEAM, "hers"),
        {"metadata": {"annotations": {"maar.dev/elected-since": "2001-01-01T00:00:00Z"}}},
    )
    for verb, path in (
        ("PATCH", STATE),
        ("POST", CONFIG_MAPS.path(HOME)),
        ("PATCH", NODES.path(name="n0")),
        ("PATCH", PODS.path(TEAM, "hers", "status")),
    ):
        with pytest.raises(Refused) as refused:
            write(
                verb,
                path,
                own if verb == "POST" else {"metadata": {"annotations": {"maar.dev/locked-for": "team/hers"}}},
            )
        assert 403 == refused.value.status, path
