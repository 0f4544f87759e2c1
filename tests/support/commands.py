"""Commands of the command line against an embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from click.testing import CliRunner, Result
from tests.support.live import Live, connected

from maar.cli.main import main
from maar.embedded.server import EmbeddedServer


def maar(*arguments: str, kubeconfig: Path, given: str | None = None, **env: str) -> Result:
    """What a command says about the cluster of a kubeconfig; `given` is its input."""
    args = [arguments[0], "--kubeconfig", str(kubeconfig), *arguments[1:]]
    return CliRunner().invoke(main, args, input=given, env=env, catch_exceptions=False)


def filled(server: EmbeddedServer, folder: Path, fill: Callable[[Live], Awaitable[None]]) -> Path:
    """The kubeconfig of a server, after a cluster was made on it."""
    path = server.kubeconfig(folder / "kubeconfig")

    async def make() -> None:
        async with connected(path) as cluster:
            await fill(cluster)

    asyncio.run(make())
    return path
