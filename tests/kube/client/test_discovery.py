"""Discovery of the kinds that a server serves."""

import asyncio

import pytest
from aiohttp import web
from tests.support.sockets import answer, refusal, serving

from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.client.discovery import served
from maar.kube.client.errors import ServerFault
from maar.kube.kinds import upstream_podgroup, volcano_podgroup
from maar.kube.wire.api_resources import NODES, PODS, PRIORITY_CLASSES, QUEUES, Resource
from maar.kube.wire.base import Object

CORE = {"/api/v1": ["nodes", "nodes/status", "pods", "secrets"], "/apis/scheduling.k8s.io/v1": ["priorityclasses"]}


def found(*servers: dict[str, list[str]]) -> list[set[Resource[Object]]]:
    """The resources found on a server that serves each of `servers` in turn."""
    serves = dict[str, list[str]]()

    async def handler(request: web.Request) -> web.Response:
        if request.path not in serves:
            return refusal(404, "NotFound", "the server could not find the requested resource")
        return answer({"kind": "APIResourceList", "resources": [{"name": name} for name in serves[request.path]]})

    async def main() -> list[set[Resource[Object]]]:
        async with serving(handler) as address:
            api = await Api.open(Access(address))
            try:
                answers = []
                for server in servers:
                    serves.clear()
                    serves.update(server)
                    answers.append(set((await served(api)).values()))
                return answers
            finally:
                await api.close()

    return asyncio.run(main())


def test_crds_may_come_later() -> None:
    volcano = {"/apis/scheduling.volcano.sh/v1beta1": ["queues", "queues/status", "podgroups"]}
    core = {NODES, PODS, PRIORITY_CLASSES}
    assert [core, core | {QUEUES, volcano_podgroup.KIND.resource}] == found(CORE, CORE | volcano)


def test_of_several_versions_the_newest_is_taken() -> None:
    alpha = {"/apis/scheduling.k8s.io/v1alpha2": ["podgroups"]}
    beta = {"/apis/scheduling.k8s.io/v1beta1": ["podgroups"]}
    answers = found(alpha, beta, alpha | beta)
    assert [{upstream_podgroup.ALPHA}, {upstream_podgroup.BETA}, {upstream_podgroup.BETA}] == answers


def test_a_server_that_fails_is_not_a_server_without_kinds() -> None:
    async def handler(request: web.Request) -> web.Response:
        return refusal(503, "ServiceUnavailable", "starting") if "policy" in request.path else answer({})

    async def main() -> None:
        async with serving(handler) as address:
            api = await Api.open(Access(address))
            try:
                await served(api)
            finally:
                await api.close()

    with pytest.raises(ServerFault, match="starting"):
        asyncio.run(main())
