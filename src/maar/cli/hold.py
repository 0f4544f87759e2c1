"""`maar hold`, `release`, `cancel` and `set`: change a job on its object, with the rights of the kubeconfig."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import click

from maar.cli.asking.options import connected, guarded
from maar.cli.support.exits import BadInput
from maar.cli.support.inputs import CONTEXT, KUBECONFIG
from maar.cli.support.output import say, tell
from maar.cli.support.printing import printed
from maar.kube.client.access import load_access, load_namespace
from maar.kube.client.api import Api
from maar.kube.submit import service
from maar.kube.submit.changes import Change
from maar.kube.submit.effects import ChangeResult
from maar.kube.submit.errors import NoSuchJob, SubmitError
from maar.kube.submit.service import Submitted, find, near_names
from maar.model.words import meant


class Named(NamedTuple):
    """The job that a caller names."""

    job: str
    kind: str
    kubeconfig: str | None
    context: str | None


OPTIONS = (
    click.argument("job", metavar="NS/JOB"),
    click.option("--kind", default="", metavar="KIND", help="Kind of its object, if several have the name."),
    KUBECONFIG,
    CONTEXT,
)
Do = Callable[[Api, Sequence[Submitted]], Awaitable[list[str]]]
"""Changes a job; returns the lines to print."""


def named(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that name a job, as `named`."""

    @wraps(command)
    def run(job: str, kind: str, kubeconfig: str | None, context: str | None, **options: Any) -> None:
        command(of=Named(job, kind, kubeconfig, context), **options)

    for option in reversed(OPTIONS):
        run = option(run)
    return run


def _act(of: Named, do: Do) -> None:
    """Find the object of a job, change it, and print what was done."""

    async def main() -> None:
        access = load_access(of.kubeconfig, of.context)
        where, slash, name = of.job.rpartition("/")
        namespace = where if slash else load_namespace(of.kubeconfig, of.context)
        async with connected(access) as api:
            try:
                lines = await do(api, await find(api, namespace, name, of.kind))
            except NoSuchJob as error:
                raise BadInput(f"{error}{meant(await near_names(api, namespace, name))}") from None
            except SubmitError as error:
                raise BadInput(str(error)) from None
        say(printed(lines))

    guarded(main)


def _told(done: ChangeResult, found: Sequence[Submitted], how: str) -> list[str]:
    for note in done.notes:
        tell(f"warning: {note}")
    return [*(f"{one} {how}" for one in found), *(f"  {line}" for line in (*done.lines, *done.effects))]


@click.command()
@named
@click.option("--stop", is_flag=True, help="Stop it, if it runs and its kind can be suspended.")
def hold(of: Named, stop: bool) -> None:
    """Hold a job: it does not start until `maar release`. If it runs, it goes on, unless --stop.

    Writes the annotation `maar.dev/hold` on the object that was submitted.
    """

    async def do(api: Api, found: Sequence[Submitted]) -> list[str]:
        done = await service.hold(api, found, stop=stop)
        return _told(done, found, "held")

    _act(of, do)


@click.command()
@named
def release(of: Named) -> None:
    """Release a job that was held: it may start again."""

    async def do(api: Api, found: Sequence[Submitted]) -> list[str]:
        await service.release(api, found)
        return [f"{one} released" for one in found]

    _act(of, do)


@click.command()
@named
def cancel(of: Named) -> None:
    """Cancel a job: delete its object, and all that it owns.

    Of a PodGroup, the pods that name it are deleted too, unless a controller would create them again.
    """

    async def do(api: Api, found: Sequence[Submitted]) -> list[str]:
        return [f"{one} deleted" for one in await service.cancel(api, found)]

    _act(of, do)


@click.command(name="set")
@named
@click.option("--queue", metavar="NAME", help="Its queue.")
@click.option("--priority-class", metavar="NAME", help="Its priority class.")
@click.option("--min-workers", type=int, metavar="N", help="The fewest workers of an elastic job.")
@click.option("--max-workers", type=int, metavar="N", help="The most workers of an elastic job.")
def change(
    of: Named, queue: str | None, priority_class: str | None, min_workers: int | None, max_workers: int | None
) -> None:
    """Change the queue, the priority class or the number of workers of a job, as far as its kind allows it.

    Says what changes, and what that means for a job that runs. What would have no effect is refused.
    """
    what = Change(queue=queue, priority_class=priority_class, min_workers=min_workers, max_workers=max_workers)
    if what == Change():
        raise click.UsageError("expected --queue, --priority-class, --min-workers or --max-workers")

    async def do(api: Api, found: Sequence[Submitted]) -> list[str]:
        return _told(await service.change(api, found, what), found, "changed")

    _act(of, do)
