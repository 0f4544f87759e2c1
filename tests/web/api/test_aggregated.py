"""The aggregated API of `maar web`: it believes the API server's front proxy, by its certificate, and nothing else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from aiohttp import ClientError, ClientSession, TCPConnector
from multidict import CIMultiDict
from tests.support.patience import PATIENCE, until
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, webbing
from tests.web.api.test_api import scene
from tests.web.api.test_writes import job

from maar.web.addresses import Address, CannotServe
from maar.web.api.aggregated import PUBLISHED, Aggregated, read_front_proxy
from maar.web.api.roots import GROUP, PREFIX, ROOT

FRONT = "front-proxy-client"
WHO = f"system:serviceaccount:{MINE}:{USER}"
AS_USER = {"X-Remote-User": WHO, "X-Remote-Group": "system:authenticated"}


class Front:
    """The aggregated API, and the authorities around it."""

    def __init__(self, web: Web, folder: Path) -> None:
        self.web = web
        self._folder = folder
        self.ours, self.proxies = trustme.CA(), trustme.CA()
        made = self.ours.issue_cert("127.0.0.1")
        made.cert_chain_pems[0].write_to_path(str(folder / "cert"))
        made.private_key_pem.write_to_path(str(folder / "key"))
        self.port = 0

    @property
    def files(self) -> tuple[Path, Path]:
        return self._folder / "cert", self._folder / "key"

    def data(self, **more: str) -> dict[str, str]:
        """As an API server publishes it."""
        return {
            "client-ca-file": trustme.CA().cert_pem.bytes().decode(),
            "requestheader-client-ca-file": self.proxies.cert_pem.bytes().decode(),
            "requestheader-allowed-names": f'["{FRONT}"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-uid-headers": '["X-Remote-Uid"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            **{name.replace("_", "-"): value for name, value in more.items()},
        }

    async def publish(self, **more: str) -> None:
        name = PUBLISHED.rpartition("/")[2]
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
        await self.web.cluster.create("/api/v1/namespaces", space)
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": self.data(**more)}
        await self.web.cluster.create(PUBLISHED.rpartition("/")[0], item)
        await self.web.cluster.api.patch(PUBLISHED, {"data": self.data(**more)})

    async def ask(
        self,
        path: str,
        headers: Mapping[str, str],
        authority: trustme.CA | None = None,
        name: str = FRONT,
        body: Any = None,
        method: str = "",
    ) -> tuple[int, Any]:
        """Ask with a client certificate of an authority; the status is 0 if the handshake fails."""
        context = self.context(authority, name)
        async with ClientSession(connector=TCPConnector(ssl=context)) as session:
            url, method = f"https://127.0.0.1:{self.port}{path}", method or ("GET" if body is None else "POST")
            try:
                async with session.request(method, url, headers=headers, json=body) as answer:
                    return answer.status, msgspec.json.decode(await answer.read())
            except ClientError:
                return 0, None

    def context(self, authority: trustme.CA | None, name: str = FRONT) -> ssl.SSLContext:
        """For a client that trusts us, with a certificate of an authority."""
        made = ssl.create_default_context()
        self.ours.configure_trust(made)
        if authority is not None:
            authority.issue_cert("proxy.example", common_name=name).configure_cert(made)
        return made

    async def as_proxy(self, path: str, headers: Mapping[str, str] = AS_USER, **more: Any) -> tuple[int, Any]:
        return await self.ask(f"{ROOT}{path}", headers, self.proxies, **more)


@asynccontextmanager
async def fronted(web: Web, folder: Path, every: float) -> AsyncIterator[Front]:
    front = Front(web, folder)
    await front.publish()
    part = Aggregated(web.answers, web.guard, Address("127.0.0.1", 0), front.files, web.cluster.api, every)
    async with part as serving:
        running = asyncio.create_task(serving.run())
        front.port = serving.port
        try:
            yield front
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def told(folder: Path, story: Callable[[Front], Awaitable[None]], every: float = 60.0) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(folder, writes=True) as web, fronted(web, folder, every) as front:
            await scene(web)
            await story(front)

    asyncio.run(main())


def test_the_api_server_says_who_asks_and_rights_are_those_of_that_user(tmp_path: Path) -> None:
    async def story(front: Front) -> None:
        headers = CIMultiDict(AS_USER)
        headers.add("X-Remote-Group", "team")
        headers.add("X-Remote-Uid", "u-1")
        headers.add("X-Remote-Extra-Example.com%2Fscope", "a")
        headers.add("X-Remote-Extra-Example.com%2Fscope", "b")
        status, answer = await front.as_proxy("/jobs", headers)
        assert (200, ["runs", "waits"]) == (status, [one["name"] for one in answer["items"]])
        assert {
            "user": WHO,
            "uid": "u-1",
            "groups": ["system:authenticated", "team"],
            "extra": {"example.com/scope": ["a", "b"]},
        } == {name: front.web.asked[0][name] for name in ("user", "uid", "groups", "extra")}
        assert 404 == (await front.as_proxy(f"/jobs/{THEIRS}/aq7runs"))[0]
        admin = {"X-Remote-User": f"system:serviceaccount:{MINE}:{ADMIN}"}
        assert 200 == (await front.as_proxy(f"/jobs/{THEIRS}/aq7runs", admin))[0]
        question = {"edits": [{"edit": "add-nodes-like", "like": "n0", "count": 4}]}
        status, answer = await front.as_proxy("/what-if", body=question)
        assert (200, [f"{MINE}/waits"]) == (status, answer["whatIf"]["starts"])

    told(tmp_path, story)


def test_headers_without_the_certificate_of_the_front_proxy_are_worth_nothing(tmp_path: Path) -> None:
    async def story(front: Front) -> None:
        path, admin = f"{ROOT}/jobs", {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        assert 200 == (await front.ask(path, AS_USER, front.proxies))[0]
        assert 0 == (await front.ask(path, admin))[0], "no certificate"
        assert 0 == (await front.ask(path, admin, trustme.CA()))[0], "of another authority"
        assert 0 == (await front.ask(path, admin, front.ours))[0], "of the authority of our own certificate"
        status, answer = await front.ask(path, admin, front.proxies, name="somebody")
        assert (403, True) == (status, "only the API server may ask here" in answer["error"])
        # The other listener does not know these headers.
        status, _ = await front.web.with_token().ask(f"{PREFIX}/jobs", **admin)
        assert 401 == status
        user = await front.web.as_user(USER)
        status, text = await user.ask(f"{PREFIX}/whoami", **admin)
        assert (200, WHO) == (status, msgspec.json.decode(text)["user"])
        for served in (f"{ROOT}/jobs", f"/apis/{GROUP}"):
            assert 404 == (await user.ask(served, **admin))[0]

    told(tmp_path, story)


def test_nothing_but_headers_counts_there_and_nothing_is_written(tmp_path: Path) -> None:
    async def story(front: Front) -> None:
        token = (await front.web.as_user(ADMIN)).headers
        assert 401 == (await front.as_proxy("/jobs", token))[0], "a token is not looked at"
        assert 401 == (await front.as_proxy("/jobs", {"X-Remote-User": "system:anonymous"}))[0]
        status, answer = await front.as_proxy("/whoami", {**AS_USER, **token})
        assert (200, WHO, False) == (status, answer["user"], answer["writes"])
        before = await front.web.cluster.versions()
        for method, path, body in (
            ("POST", "/jobs", {"manifests": [job()]}),
            ("PATCH", f"/jobs/{MINE}/runs", {"hold": True}),
            ("DELETE", f"/jobs/{MINE}/runs", None),
        ):
            status, answer = await front.as_proxy(path, {**AS_USER, **token}, body=body, method=method)
            assert (403, True) == (status, "writes do not go through the aggregated API" in answer["error"])
        assert before == await front.web.cluster.versions()
        for path in ("/", "/healthz", "/index.html", f"{PREFIX}/jobs", "/apis", f"{ROOT}x/jobs"):
            assert 404 == (await front.ask(path, AS_USER, front.proxies))[0], path

    told(tmp_path, story)


def test_the_group_can_be_discovered(tmp_path: Path) -> None:
    async def story(front: Front) -> None:
        status, answer = await front.ask(f"/apis/{GROUP}", {}, front.proxies)
        assert (200, "APIGroup", f"{GROUP}/v1") == (status, answer["kind"], answer["versions"][0]["groupVersion"])
        status, answer = await front.as_proxy("", {})
        verbs = {one["name"]: one["verbs"] for one in answer["resources"]}
        assert (200, ["list"], ["create"]) == (status, verbs["jobs"], verbs["what-if"])
        assert 200 == (await front.as_proxy("/openapi.json"))[0]

    told(tmp_path, story)


def test_changes_are_streamed_through_it(tmp_path: Path) -> None:
    async def story(front: Front) -> None:
        context = front.context(front.proxies)
        async with ClientSession(connector=TCPConnector(ssl=context)) as session:
            url = f"https://127.0.0.1:{front.port}{ROOT}/stream"
            async with session.get(url, headers=AS_USER) as answer:
                assert (200, b"event: change\n") == (answer.status, await answer.content.readline())
                assert b'"all":true' in await answer.content.readline()

    told(tmp_path, story)


def test_another_authority_of_the_front_proxy_is_believed_when_it_is_published(tmp_path: Path) -> None:
    async def story(front: Front) -> None:
        old, front.proxies = front.proxies, trustme.CA()
        assert 0 == (await front.as_proxy("/whoami"))[0]
        await front.publish()

        async def believed() -> bool:
            return (await front.as_proxy("/whoami"))[0] == 200

        await until(believed, "the new authority is believed")
        assert 0 == (await front.ask(f"{ROOT}/whoami", AS_USER, old))[0]
        await front.web.cluster.api.delete(PUBLISHED)
        await asyncio.sleep(0.1)  # five looks find nothing
        assert 200 == (await front.as_proxy("/whoami"))[0], "what is known stays true"

    told(tmp_path, story, every=0.02)


def test_what_the_cluster_must_publish(tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path) as web:
            front = Front(web, tmp_path)
            with pytest.raises(CannotServe, match="needs the ConfigMap"):
                await read_front_proxy(web.cluster.api)
            same = front.proxies.cert_pem.bytes().decode()
            for change, problem in (
                ({"requestheader_client_ca_file": ""}, "the API server has no front proxy"),
                ({"requestheader_username_headers": "[]"}, "the API server has no front proxy"),
                ({"requestheader_allowed_names": "x"}, "cannot be read"),
                ({"requestheader_allowed_names": "[]", "client_ca_file": f"{same}\n"}, "name herself another user"),
            ):
                await front.publish(**change)
                with pytest.raises(CannotServe, match=problem):
                    await read_front_proxy(web.cluster.api)
            web.server.faults.fail_share, web.server.faults.fail_codes = 1.0, (403,)
            web.server.faults.fails = lambda method, path: path == PUBLISHED
            with pytest.raises(CannotServe, match="needs the role"):
                await read_front_proxy(web.cluster.api)
            web.server.faults.clear()
            await front.publish(requestheader_allowed_names="[]")
            assert () == (await read_front_proxy(web.cluster.api)).names

    asyncio.run(main())
