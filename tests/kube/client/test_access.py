"""Kubeconfigs, service accounts, plugins and certificates, as a server sees them."""

import asyncio
import os
import ssl
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web
from tests.support.sockets import answer, refusal, serving

from maar.kube.client import errors
from maar.kube.client.access import Access, load_access, proxy_for
from maar.kube.client.api import Api
from maar.kube.wire.api_resources import PODS

# kubernetes_asyncio uses a function that is deprecated since Python 3.12.
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")


class Server:
    """Records the identity of each client; with `known`, accepts only these tokens."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.known: set[str] | None = None

    async def handle(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        token = request.headers.get("Authorization", "")
        self.seen.append(token or (f"certificate {_name(peer)}" if peer else ""))
        if self.known is not None and token not in self.known:
            return refusal(401, "Unauthorized", "Unauthorized")
        return answer({})


def _name(certificate: dict[str, Any]) -> str:
    names = dict(pair for part in certificate["subject"] for pair in part)
    return str(names["commonName"])


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def tls(authority: trustme.CA, host: str = "127.0.0.1", clients: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(host).configure_cert(context)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
    return context


def kubeconfig(
    path: Path, server: str, user: dict[str, Any] | None = None, cluster: Mapping[str, Any] | None = None
) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {"token": "secret"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def asked(question: Callable[[str, Server], Awaitable[None]], context: ssl.SSLContext | None = None) -> list[str]:
    """The identities that a server saw."""
    server = Server()

    async def main() -> None:
        async with serving(server.handle, context) as address:
            await question(address, server)

    asyncio.run(main())
    return server.seen


async def get(access: Access, times: int = 1) -> None:
    api = await Api.open(access)
    try:
        for _ in range(times):
            await api.get("/api")
    finally:
        await api.close()


def plugin(folder: Path, status: str) -> tuple[dict[str, Any], Path]:
    """An exec plugin that prints a status, and the file in which it records each run."""
    runs, file = folder / "runs", folder / "plugin"
    credential = f'{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}'
    file.write_text(f"#!/bin/sh\necho run >> {runs}\ncat <<END\n{credential}\nEND\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(file), "interactiveMode": "Never"}}
    return user, runs


def test_a_token(tmp_path: Path) -> None:
    async def question(address: str, server: Server) -> None:
        access = load_access(kubeconfig(tmp_path / "config", address + "/"))
        assert address == access.server.rstrip("/")
        await get(access)

    assert ["Bearer secret"] == asked(question)


def test_a_token_in_a_file_is_read_again_after_a_minute_and_after_a_401(tmp_path: Path) -> None:
    now = [1000.0]
    token = tmp_path / "token"
    token.write_text("one\n")

    async def question(address: str, server: Server) -> None:
        config = kubeconfig(tmp_path / "config", address, {"tokenFile": "token"})
        api = await Api.open(load_access(config, clock=lambda: now[0]))
        await api.get("/api")
        token.write_text("two\n")
        now[0] += 59.0
        await api.get("/api")
        now[0] += 2.0
        await api.get("/api")
        token.write_text("three\n")
        server.known = {"Bearer three"}
        now[0] += 10.0
        await api.get("/api")
        token.write_text("four\n")
        server.known = {"Bearer four"}
        now[0] += 10.0
        assert [] == [event async for event in api.watch(PODS, "1")]
        server.known = set()
        with pytest.raises(errors.Unauthorized):
            assert [] == [event async for event in api.watch(PODS, "1")]
        await api.close()

    one, two, three, four = (f"Bearer {name}" for name in ("one", "two", "three", "four"))
    assert [one, one, two, two, three, three, four, four] == asked(question)


def test_a_token_file_that_vanishes_leaves_the_old_token(tmp_path: Path) -> None:
    now = [1000.0]
    (tmp_path / "token").write_text("one")

    async def question(address: str, server: Server) -> None:
        access = load_access(kubeconfig(tmp_path / "config", address, {"tokenFile": "token"}), clock=lambda: now[0])
        await get(access)
        (tmp_path / "token").unlink()
        now[0] += 61.0
        await get(access)

    assert ["Bearer one", "Bearer one"] == asked(question)


def test_a_rejected_token_is_not_sent_again(tmp_path: Path) -> None:
    now = [1000.0]

    async def question(address: str, server: Server) -> None:
        server.known = set()
        access = load_access(kubeconfig(tmp_path / "config", address), clock=lambda: now[0])
        now[0] += 30.0
        with pytest.raises(errors.Unauthorized):
            await get(access)

    assert ["Bearer secret"] == asked(question)


def test_client_certificates(tmp_path: Path, authority: trustme.CA) -> None:
    mine = authority.issue_cert(common_name="maar")
    for file, blobs in (("cert", mine.cert_chain_pems), ("key", [mine.private_key_pem]), ("ca", [authority.cert_pem])):
        (tmp_path / file).write_bytes(b"".join(blob.bytes() for blob in blobs))

    async def question(address: str, server: Server) -> None:
        user = {"client-certificate": "cert", "client-key": "key"}
        await get(load_access(kubeconfig(tmp_path / "config", address, user, {"certificate-authority": "ca"})))

    assert ["certificate maar"] == asked(question, tls(authority, clients=True))


def test_the_token_of_a_caller_travels_without_our_own_credentials(tmp_path: Path, authority: trustme.CA) -> None:
    mine = authority.issue_cert(common_name="maar")
    for file, blobs in (("cert", mine.cert_chain_pems), ("key", [mine.private_key_pem]), ("ca", [authority.cert_pem])):
        (tmp_path / file).write_bytes(b"".join(blob.bytes() for blob in blobs))
    context, certificates = tls(authority, clients=True), []
    context.verify_mode = ssl.CERT_OPTIONAL

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        certificates.append((_name(peer) if peer else "", request.headers.get("Authorization", "")))
        return answer({})

    async def main() -> None:
        async with serving(handle, context) as address:
            user = {"client-certificate": "cert", "client-key": "key", "token": "ours"}
            own = kubeconfig(tmp_path / "config", address, user, {"certificate-authority": "ca"})
            api = await Api.open(load_access(own))
            caller = Api.of_caller(api, "hers", connections=1)
            for each in (api, caller, api):
                await each.get("/api")
            await caller.close()
            await api.close()

    asyncio.run(main())
    # An API server believes a certificate before it looks at a token.
    assert [("maar", "Bearer ours"), ("", "Bearer hers"), ("maar", "Bearer ours")] == certificates


def test_a_server_that_is_not_trusted_gets_no_request(tmp_path: Path, authority: trustme.CA) -> None:
    async def question(address: str, server: Server) -> None:
        with pytest.raises(errors.Unreachable, match="certificate verify failed"):
            await get(load_access(kubeconfig(tmp_path / "config", address)))
        insecure = kubeconfig(tmp_path / "config", address, None, {"insecure-skip-tls-verify": True})
        await get(load_access(insecure))

    assert ["Bearer secret"] == asked(question, tls(authority))


def test_a_server_under_another_name(tmp_path: Path, authority: trustme.CA) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca")

    async def question(address: str, server: Server) -> None:
        cluster = {"certificate-authority": "ca", "tls-server-name": "kubernetes.test"}
        await get(load_access(kubeconfig(tmp_path / "config", address, None, cluster)))

    assert ["Bearer secret"] == asked(question, tls(authority, "kubernetes.test"))


def test_a_plugin_is_run_once_until_its_token_expires(tmp_path: Path) -> None:
    user, runs = plugin(tmp_path, '{"token": "from-plugin", "expirationTimestamp": "2030-01-01T01:00:00Z"}')
    now = [1893456000.0]  # 2030-01-01T00:00:00Z

    async def question(address: str, server: Server) -> None:
        access = load_access(kubeconfig(tmp_path / "config", address, user), clock=lambda: now[0])
        assert not runs.exists()
        await get(access, 3)
        now[0] += 3500.0
        await get(access)
        assert "run\n" == runs.read_text()
        now[0] += 50.0
        await get(access)
        assert "run\nrun\n" == runs.read_text()

    assert ["Bearer from-plugin"] * 5 == asked(question)


def test_a_plugin_is_run_again_after_a_401_but_not_in_a_loop(tmp_path: Path) -> None:
    user, runs = plugin(tmp_path, '{"token": "run-$(wc -l < "$0.count")"}'.replace("$0.count", str(tmp_path / "runs")))
    now = [1000.0]

    async def question(address: str, server: Server) -> None:
        access = load_access(kubeconfig(tmp_path / "config", address, user), clock=lambda: now[0])
        api = await Api.open(access)
        await api.get("/api")
        now[0] += 10.0
        server.known = {"Bearer run-2"}
        await asyncio.gather(*(api.get("/api") for _ in range(5)))
        assert "run\nrun\n" == runs.read_text()
        server.known = set()
        for _ in range(3):
            with pytest.raises(errors.Unauthorized):
                await api.get("/api")
        assert "run\nrun\n" == runs.read_text()
        await api.close()

    asked(question)


def test_a_plugin_may_give_a_certificate(tmp_path: Path, authority: trustme.CA) -> None:
    mine = authority.issue_cert(common_name="plugged")
    chain = "".join(blob.bytes().decode() for blob in mine.cert_chain_pems).replace("\n", "\\n")
    key = mine.private_key_pem.bytes().decode().replace("\n", "\\n")
    user, _ = plugin(tmp_path, f'{{"clientCertificateData": "{chain}", "clientKeyData": "{key}"}}')
    (tmp_path / "plugin").write_text((tmp_path / "plugin").read_text().replace("<<END", "<<'END'"))
    authority.cert_pem.write_to_path(tmp_path / "ca")

    async def question(address: str, server: Server) -> None:
        await get(load_access(kubeconfig(tmp_path / "config", address, user, {"certificate-authority": "ca"})))

    assert ["certificate plugged"] == asked(question, tls(authority, clients=True))


def test_a_plugin_that_fails_is_reported(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}}

    async def question(address: str, server: Server) -> None:
        with pytest.raises(errors.AccessError, match="exec: process returned 1"):
            await get(load_access(kubeconfig(tmp_path / "config", address, user)))

    assert [] == asked(question)


def test_in_a_pod_the_rotating_token_is_read_again(tmp_path: Path, authority: trustme.CA) -> None:
    now = [1000.0]
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("one")

    async def question(address: str, server: Server) -> None:
        host, port = address.removeprefix("https://").split(":")
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOME": str(tmp_path)}
        access = load_access(environ=environ, account=tmp_path, clock=lambda: now[0])
        assert address == access.server
        await get(access)
        (tmp_path / "token").write_text("two")
        now[0] += 61.0
        await get(access)

    assert ["Bearer one", "Bearer two"] == asked(question, tls(authority))


def test_kubeconfig_comes_from_the_environment_and_may_be_several(tmp_path: Path) -> None:
    async def question(address: str, server: Server) -> None:
        kubeconfig(tmp_path / "one", address, {"token": "one"})
        (tmp_path / "two").write_text(
            yaml.safe_dump(
                {
                    "contexts": [{"name": "other", "context": {"cluster": "here", "user": "you"}}],
                    "users": [{"name": "you", "user": {"token": "two"}}],
                }
            )
        )
        environ = {"KUBECONFIG": f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}{os.pathsep}{tmp_path / 'three'}"}
        await get(load_access(environ=environ))
        await get(load_access(context="other", environ=environ))

    assert ["Bearer one", "Bearer two"] == asked(question)


@pytest.mark.parametrize(
    ("text", "context", "expected"),
    [
        ("current-context: main", None, "this kubeconfig has no contexts"),
        ("contexts: [{name: gpu-1, context: {}}]", "gpu1", "did you mean `gpu-1`? known: gpu-1"),
        ("contexts: [{name: training, context: {}}]", None, "no current-context; name one of: training"),
        ("contexts: [{name: a, context: {cluster: b}}]", "a", "not a kubeconfig: "),
        ("just text", None, "not a kubeconfig: "),
        ("{", None, "not a kubeconfig: "),
        (
            "{contexts: [{name: a, context: {cluster: b}}], clusters: [{name: b, cluster: {server: 'https://x'}}]}",
            "a",
            "context `a` has no user",
        ),
    ],
)
def test_an_invalid_kubeconfig_is_reported_at_once(
    text: str, context: str | None, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(errors.AccessError) as caught:
        load_access(str(tmp_path / "config"), context)
    assert expected in str(caught.value)
    assert str(tmp_path / "config") in str(caught.value)


def test_no_cluster_at_all(tmp_path: Path) -> None:
    with pytest.raises(errors.AccessError, match="this is not a pod"):
        load_access(environ={"HOME": str(tmp_path)})
    with pytest.raises(errors.AccessError, match="kubeconfig not found: `/nowhere`"):
        load_access("/nowhere", environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})


@pytest.mark.parametrize(
    ("server", "stated", "environ", "expected"),
    [
        ("https://10.0.0.1:6443", None, {"HTTPS_PROXY": "http://proxy"}, "http://proxy"),
        ("https://10.0.0.1:6443", "http://mine", {"HTTPS_PROXY": "http://proxy"}, "http://mine"),
        ("https://10.0.0.1:6443", None, {"HTTP_PROXY": "http://proxy"}, None),
        ("https://k8s.test", None, {"https_proxy": "http://proxy", "NO_PROXY": ".test"}, None),
        ("http://127.0.0.1:8080", "http://mine", {"HTTP_PROXY": "http://proxy"}, None),
        ("https://[::1]:6443", None, {"HTTPS_PROXY": "http://proxy"}, None),
        ("http://localhost:8080", None, {"HTTP_PROXY": "http://proxy"}, None),
    ],
)
def test_proxies(server: str, stated: str | None, environ: dict[str, str], expected: str | None) -> None:
    assert expected == proxy_for(server, stated, environ)


# -- files that are no files


def _kubeconfig(path: Path, user: Mapping[str, Any], **cluster: Any) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "u", "user": dict(user)}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))


def _becomes_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_credentials_whose_file_becomes_a_fifo_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Reading it would wait for its writer, and no lease would be renewed."""
    path, now = tmp_path / "config", [1000.0]
    _kubeconfig(path, {"token": "first"})
    access = load_access(str(path), clock=lambda: now[0])

    async def story() -> list[dict[str, str]]:
        found = [await access.headers()]
        _becomes_fifo(path)
        now[0] += 3600
        found.append(await access.headers())
        path.unlink()
        _kubeconfig(path, {"token": "second"})
        now[0] += 3600
        found.append(await access.headers())
        return found

    assert [{"Authorization": f"Bearer {token}"} for token in ("first", "first", "second")] == asyncio.run(story())
    assert [f"cannot reload credentials, keeping the current ones: {path}"] == [
        message.partition(": [Errno")[0] if "[Errno" in message else message.rsplit(": ", 1)[0]
        for message in caplog.messages
    ]


def test_files_of_a_service_account_that_are_fifos_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("x")
    os.mkfifo(tmp_path / "token")
    environ = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "1",
        "HOME": str(tmp_path),
    }
    with pytest.raises(errors.AccessError, match="expected a regular file, got a FIFO"):
        load_access(environ=environ, account=tmp_path)
