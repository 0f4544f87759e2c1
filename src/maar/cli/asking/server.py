"""Answers of `maar web`, asked over HTTP with the bearer token of the kubeconfig, exec plugins included, or through the
aggregated API with all credentials of the kubeconfig.

The API server's service proxy cannot be used: it removes the header with the token. A token goes over TLS, or to this
machine, and nowhere else.
"""

from __future__ import annotations

import ipaddress
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from maar.cli.support.exits import BadInput
from maar.kube.client.access import Access
from maar.kube.client.api import Api
from maar.kube.client.credentials import Credentials
from maar.kube.client.errors import AccessError, ApiError, NotFound, Unauthorized
from maar.views.records import View
from maar.web.api.answers import JobAnswer, JobsAnswer, NodesAnswer, QueuesAnswer, WhatIfAnswer
from maar.web.api.question import Question
from maar.web.api.roots import PREFIX

AGGREGATED = "aggregated"
"""The value of `--server` for the aggregated API: the API server passes questions on, and says who asks."""
WRONG = (400, 404, 422)
"""Statuses that say that the question is wrong, as it would be without a server."""
PAGE = 500
"""Items of one request; `maar web` has an upper limit of its own."""
T = TypeVar("T", bound=View)
L = TypeVar("L", JobsAnswer, NodesAnswer, QueuesAnswer)


NO_TOKEN = (
    "{server} asks for a bearer token, and the kubeconfig has none (a client certificate does not count): "  # noqa: S105 a name, no secret
    "use `--server aggregated` if the cluster has it, or leave out --server to read the cluster yourself"
)


def server_access(url: str, kube: Access | None, ca_file: str | None) -> Access:
    """The address of `maar web`, with the token that the kubeconfig has for the API server, if it has one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AccessError(f"--server: expected `aggregated`, or a URL such as `https://maar.example.com`, got `{url}`")
    if parts.scheme == "http" and not _is_here(parts.hostname):
        raise AccessError(f"--server: a token is sent over https, or to this machine: `{url}`")

    async def load() -> Credentials:
        authorization = "" if kube is None else (await kube.headers()).get("Authorization", "")
        if not authorization.startswith("Bearer "):
            return Credentials(server=url, ca_file=ca_file)  # a demo answers everyone
        return Credentials(server=url, authorization=authorization, ca_file=ca_file)

    return Access(url, load=load)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class There:
    """`maar web`, through a client."""

    notes: tuple[str, ...] = ()

    def __init__(self, api: Api, prefix: str = PREFIX) -> None:
        self._api = api
        self._prefix = prefix

    async def jobs(self, seconds: float = 0.0) -> JobsAnswer:
        """All jobs; the forecasts are the server's."""
        return await self._all("/jobs", JobsAnswer)

    async def nodes(self) -> NodesAnswer:
        return await self._all("/nodes", NodesAnswer)

    async def queues(self) -> QueuesAnswer:
        return await self._all("/queues", QueuesAnswer)

    async def job(self, key: str, seconds: float | None, when: bool = False) -> JobAnswer:
        """Everything about a job; the forecast is the server's. `when` needs no search for changes."""
        namespace, _, name = key.partition("/")
        path = f"/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"
        search = seconds != 0 and not when
        budget = {"budget": f"{min(seconds, 10):g}"} if search and seconds is not None else {}
        asked = {"unblock": "true" if search else "false", **budget}
        return await self._get(path, JobAnswer, **asked)

    async def what_if(self, question: Question) -> WhatIfAnswer:
        asked = msgspec.json.encode(question)
        try:
            body = await self._api.request("POST", f"{self._prefix}/what-if", body=asked, timeout=120.0)
        except Unauthorized as error:
            raise await self._refused(error) from None
        except ApiError as error:
            if error.status in WRONG:
                raise BadInput(error.message) from None
            raise
        return msgspec.json.decode(body, type=WhatIfAnswer)

    async def namespaces(self) -> frozenset[str] | None:
        return None  # a viewer learns only of those with jobs that she may see

    async def queue_names(self) -> frozenset[str] | None:
        return frozenset(queue.name for queue in (await self.queues()).items)

    async def _refused(self, error: Unauthorized) -> Exception:
        """What to say if the server does not answer this caller: perhaps that no token was sent."""
        if self._prefix != PREFIX or await self._api.sends_token():
            return error
        return AccessError(NO_TOKEN.format(server=self._api.server))

    async def _all(self, path: str, kind: type[L]) -> L:
        """A whole list, part by part."""
        first = found = await self._get(path, kind, limit=str(PAGE))
        items: list[Any] = list(first.items)
        while found.next is not None:
            found = await self._get(path, kind, limit=str(PAGE), offset=str(found.next))
            items += found.items
        return msgspec.structs.replace(first, items=items, next=None)

    async def _get(self, path: str, kind: type[T], **params: str) -> T:
        try:
            return msgspec.json.decode(
                await self._api.get(f"{self._prefix}{path}", params=params, timeout=120.0), type=kind
            )
        except Unauthorized as error:
            raise await self._refused(error) from None
        except NotFound as error:
            if path.startswith("/jobs/"):
                raise BadInput(error.message) from None
            what = "not `maar web`, or an older one" if self._prefix == PREFIX else "no aggregated API of `maar web`"
            raise AccessError(f"{self._api.server}: {what}: {error.message}") from None
        except msgspec.DecodeError as error:
            raise AccessError(f"{self._api.server}: not `maar web`: {error}") from None
