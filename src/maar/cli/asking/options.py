"""The options that all questions share, where the answer comes from, and how it is shown: once, or again and again."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, NamedTuple, Protocol, TypeVar

import click
import msgspec

from maar.cli.asking.configuration import Chosen, configuration
from maar.cli.asking.here import Here, NotDecided
from maar.cli.asking.learned import Learned, learned_from
from maar.cli.asking.reading import Reading, read
from maar.cli.asking.server import AGGREGATED, There, server_access
from maar.cli.support.exits import BadInput, CannotRun
from maar.cli.support.garbage import no_garbage
from maar.cli.support.inputs import CONTEXT, KUBECONFIG, LENIENT, WIDE_OUTPUT
from maar.cli.support.output import say, say_json, tell
from maar.controller.process import LEASE_NAMESPACE, NAME
from maar.kube.client.access import Access, load_access, load_namespace
from maar.kube.client.api import Api
from maar.kube.client.errors import AccessError
from maar.kube.kinds import AnyKind
from maar.kube.kinds.cluster import NAMESPACES, QUEUES
from maar.model.queues import DEFAULT
from maar.views.jobs import NoJob
from maar.views.records import View
from maar.web.api.answers import JobAnswer, JobsAnswer, NodesAnswer, QueuesAnswer, WhatIfAnswer
from maar.web.api.errors import Refused
from maar.web.api.question import Question
from maar.web.api.roots import PREFIX, ROOT
from maar.whatif.patience import Patience, usual

AGAIN = 5.0
"""Seconds between two answers of `--watch`: each is a whole list of the cluster. Tuned by hand."""
T = TypeVar("T", bound=View)
Command = Callable[..., None]


class Source(Protocol):
    """Answers questions about a cluster."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know about the last answer."""

    async def jobs(self, seconds: float = 0.0) -> JobsAnswer:
        """All jobs; `seconds` is the time for a forecast, if it is made here."""

    async def queues(self) -> QueuesAnswer: ...

    async def nodes(self) -> NodesAnswer: ...

    async def job(self, key: str, seconds: float | None, when: bool = False) -> JobAnswer:
        """Everything about a job, after a search for changes, or with `when` a forecast; `None`: the usual time."""

    async def what_if(self, question: Question) -> WhatIfAnswer: ...

    async def namespaces(self) -> frozenset[str] | None:
        """All namespaces of the cluster; `None` if they are not known."""

    async def queue_names(self) -> frozenset[str] | None:
        """All queues of the cluster; `None` if they are not known."""


class Asked(NamedTuple):
    """The options of one question."""

    kubeconfig: str | None
    context: str | None
    namespaces: tuple[str, ...]
    server: str | None
    server_ca: str | None
    config_file: str | None
    lenient: bool
    names: tuple[str, ...]
    home: str
    output: str
    watch: bool = False
    history: str | None = None

    @property
    def wide(self) -> bool:
        return self.output == "wide"

    def key(self, job: str) -> str:
        """`NAMESPACE/NAME` of a job that may have no namespace."""
        return job if "/" in job else f"{(self.namespaces or (self.namespace,))[0]}/{job}"

    @property
    def namespace(self) -> str:
        return load_namespace(self.kubeconfig, self.context)


CLUSTER_OPTIONS = (
    KUBECONFIG,
    CONTEXT,
    click.option(
        "-n", "--namespace", "namespaces", multiple=True, metavar="NAME",
        help="Only jobs of this namespace. May be repeated. Default: all that you may see.",
    ),
)  # fmt: skip
WHERE_OPTIONS = (
    click.option(
        "--server", envvar="MAAR_SERVER", metavar="URL",
        help="Ask `maar web` there, with the token of the kubeconfig, if it has one; `aggregated`: through the API "
        "server. Default: read the cluster and decide here.",
    ),
    click.option(
        "--server-ca", envvar="MAAR_SERVER_CA", metavar="FILE", help="Certificate authority of --server, in PEM."
    ),
    click.option(
        "--config", "config_file", metavar="FILE",
        help="The scheduler's configuration, to decide here. Default: that of the running Maar, else Maar's own.",
    ),
    LENIENT,
    click.option(
        "--scheduler-name", "names", multiple=True, default=(NAME,), show_default=True, metavar="NAME",
        help="Name of the scheduler, to decide here. May be repeated.",
    ),
    click.option(
        "--lease-namespace", "home", default=LEASE_NAMESPACE, show_default=True, metavar="NAME",
        help="Maar's own namespace, to decide here.",
    ),
    WIDE_OUTPUT,
)  # fmt: skip
WATCH = click.option("--watch", is_flag=True, help=f"Show it again every {AGAIN:g} s, until Ctrl-C.")


HISTORY = click.option(
    "--history", envvar="MAAR_HISTORY", metavar="WHERE",
    help="History to forecast from, if that is done here: a SQLite file or a postgresql:// URL. It is only read.",
)  # fmt: skip


def asking(*, watch: bool = False, history: bool = False) -> Callable[[Command], click.Command]:
    """Makes a command with the options of a question, which it gets as `asked`."""

    def make(command: Command) -> click.Command:
        @wraps(command)
        def run(**options: Any) -> None:
            fields = {name: options.pop(name) for name in Asked._fields if name in options}
            command(asked=Asked(**fields), **options)

        more = (*((WATCH,) if watch else ()), *((HISTORY,) if history else ()))
        for option in reversed((*CLUSTER_OPTIONS, *WHERE_OPTIONS, *more)):
            run = option(run)
        return click.command(name=command.__name__.replace("_", "-"))(run)

    return make


def show(asked: Asked, question: Callable[[Source], Awaitable[T]], text: Callable[[T], str]) -> None:
    """Ask, and print the answer; with `--watch`, again and again."""

    async def main() -> None:
        told: tuple[str, ...] = ()
        async with opened(asked) as source:
            while True:
                with no_garbage():
                    found = await question(source)
                if source.notes != told:
                    told = source.notes
                    for note in told:
                        tell(note)
                if asked.watch and sys.stdout.isatty():
                    click.clear()
                _print(asked, source, found, text)
                if not asked.watch:
                    return
                sys.stdout.flush()
                await asyncio.sleep(AGAIN)

    guarded(main)


def guarded(main: Callable[[], Awaitable[None]]) -> None:
    """Run a command against a cluster; what refuses it is one line and an exit code."""
    try:
        asyncio.run(main())  # type: ignore[arg-type]
    except (NoJob, Refused) as error:
        raise BadInput(str(error)) from None
    except NotDecided as error:
        raise CannotRun(str(error)) from None


def _print(asked: Asked, source: Source, found: T, text: Callable[[T], str]) -> None:
    if asked.output != "json":
        say(text(found))
        return
    data: dict[str, Any] = msgspec.to_builtins(found)
    notes = {"notes": list(source.notes)} if source.notes else {}
    body = {"source": asked.server or "here", **notes, **data}
    say_json(json.dumps(body, indent=None if asked.watch else 2, allow_nan=False))


@asynccontextmanager
async def opened(asked: Asked) -> AsyncIterator[Source]:
    """Where answers come from: `maar web`, or this process."""
    through = asked.server == AGGREGATED
    if asked.server and not through:
        access = server_access(asked.server, _token_source(asked), asked.server_ca)
    else:
        access = load_access(asked.kubeconfig, asked.context)
    async with connected(access) as api:
        yield There(api, ROOT if through else PREFIX) if asked.server else _Here(api, asked)


@asynccontextmanager
async def connected(access: Access) -> AsyncIterator[Api]:
    """A client, while the context is open."""
    api = await Api.open(access)
    try:
        yield api
    finally:
        await api.close()


def _token_source(asked: Asked) -> Access | None:
    """The kubeconfig, which may have a token for `maar web`. Without one, some servers answer too: a demo does."""
    try:
        return load_access(asked.kubeconfig, asked.context)
    except AccessError:
        if asked.kubeconfig is not None or asked.context is not None:
            raise  # the caller names it
        return None


class _Here:
    """Reads the cluster again for each question."""

    def __init__(self, api: Api, asked: Asked) -> None:
        self._api = api
        self._asked = asked
        self.notes: tuple[str, ...] = ()
        self._reading: Reading | None = None

    async def jobs(self, seconds: float = 0.0) -> JobsAnswer:
        end = time.monotonic() + seconds
        return (await self._look(bool(seconds))).jobs(lambda: time.monotonic() < end)

    async def queues(self) -> QueuesAnswer:
        return (await self._look()).queues()

    async def nodes(self) -> NodesAnswer:
        return (await self._look()).nodes()

    async def job(self, key: str, seconds: float | None, when: bool = False) -> JobAnswer:
        found = await self._look(when)
        return found.job(key, searching(seconds, found.seconds), when)

    async def what_if(self, question: Question) -> WhatIfAnswer:
        return (await self._look(bool(question.seconds))).what_if(question)

    async def namespaces(self) -> frozenset[str] | None:
        return self._known(NAMESPACES)

    async def queue_names(self) -> frozenset[str] | None:
        known = self._known(QUEUES)
        return None if known is None else known | {DEFAULT}

    def _known(self, kind: AnyKind) -> frozenset[str] | None:
        """The names of a kind in the last reading, if all of them could be listed."""
        reading = self._reading
        if reading is None or kind in reading.hidden:
            return None
        return frozenset(item.name for of, item in reading.objects if of is kind)

    async def _look(self, forecasts: bool = False) -> Here:
        asked = self._asked
        chosen = await configuration(self._api, asked.config_file, asked.lenient, asked.names, asked.home)
        mine = tuple(dict.fromkeys((*asked.namespaces, asked.namespace)))
        reading = await read(self._api, mine, chosen.names, asked.home, chosen.nodes, chosen.without)
        self._reading = reading
        self.notes = (*(f"warning: {warning}" for warning in chosen.warnings), *notes_about(reading, chosen))
        now, learned = time.time(), Learned()
        if forecasts and reading.whole:
            learned = await asyncio.to_thread(learned_from, self._asked.history, now)
            self.notes = (*self.notes, learned.note)
        return Here(reading, chosen.config, now, learned, chosen.brakes)


def searching(seconds: float | None, decision: float) -> Patience:
    """The time for a search, where one decision took this long. The default is CPU time: on a busy machine as much."""
    if seconds is None:
        return Patience(usual(decision), time.process_time, longest=decision)
    return Patience(seconds, time.monotonic, longest=decision)


def notes_about(reading: Reading, chosen: Chosen) -> tuple[str, ...]:
    """Where an answer comes from, and what it lacks."""
    unseen = f"you may not list {', '.join(reading.unseen)}"
    if not reading.whole:
        return (f"not decided here, reasons are those that the scheduler wrote: {unseen}",)
    first = f"decided here, from what you may read, with {chosen.words}"
    return (first, f"this may differ from the scheduler's view: {unseen}") if reading.unseen else (first,)


def only(asked: Asked, namespace: str) -> bool:
    """Whether a question is about a namespace."""
    return not asked.namespaces or namespace in asked.namespaces
