"""The HTTP server of `maar run`: `/healthz`, `/readyz`, `/metrics`, and the routes of `maar.web.measurements`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from maar.controller.scheduler import Scheduler
from maar.history.history import History
from maar.web.measurements import routes
from maar.web.metrics import Metrics

Check = Callable[[], str]
"""Returns the problem, or an empty text."""


class CannotServe(Exception):
    """Why the HTTP server cannot start."""


def _checked(path: str, check: Check) -> web.RouteDef:
    async def answer(_: web.Request) -> web.Response:
        problem = check()
        return web.Response(text=problem or "ok", status=503 if problem else 200)

    return web.get(path, answer)


@asynccontextmanager
async def serving(
    scheduler: Scheduler, history: History, *, port: int, token_file: Path | None = None
) -> AsyncIterator[None]:
    runner = await serve(
        port,
        healthy=lambda: scheduler.trouble,
        ready=scheduler.not_ready,
        metrics=Metrics(scheduler).text,
        more=routes(history, token_file),
    )
    try:
        yield
    finally:
        await runner.cleanup()


async def serve(
    port: int,
    *,
    healthy: Check,
    ready: Check,
    metrics: Callable[[], bytes],
    host: str = "0.0.0.0",
    more: Iterable[web.AbstractRouteDef] = (),
) -> web.AppRunner:
    """Serve until the runner is cleaned up. Raises `CannotServe` if the port is not available."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    app.add_routes([_checked("/healthz", healthy), _checked("/readyz", ready), web.get("/metrics", page), *more])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise CannotServe(f"port {port}: {error.strerror}") from None
    return runner
