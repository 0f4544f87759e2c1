"""`maar jobs`: the jobs of a cluster, as `squeue` lists them."""

from __future__ import annotations

import click
from msgspec.structs import replace

from maar.cli.asking.options import Asked, Source, asking, only, show
from maar.cli.asking.tables import jobs_text
from maar.cli.support.exits import BadInput
from maar.cli.support.output import tell
from maar.model.words import SHOWN, listed, unknown
from maar.views.records import State
from maar.web.api.answers import JobsAnswer

FORECAST = 10.0
"""Seconds for the forecast of `-o wide`, if it is made here. Tuned by hand."""
STATES = [state.value for state in State]


async def _check_names(asked: Asked, source: Source, found: JobsAnswer, queues: tuple[str, ...]) -> None:
    """Say so if a namespace or a queue does not exist: an empty list would look as if it had no jobs."""
    for what, names, seen, all_of in (
        ("namespace", asked.namespaces, {job.namespace for job in found.items}, source.namespaces),
        ("queue", queues, {job.queue for job in found.items}, source.queue_names),
    ):
        for name in names:
            if name in seen:
                continue
            known = await all_of()
            if known is None:
                tell(f"no jobs of {what} `{name}` that you may see; others have some: {listed(sorted(seen)) or 'none'}")
            elif name not in known:
                raise BadInput(unknown(what, name, known, most=SHOWN))


@asking(watch=True, history=True)
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="NAME", help="Only jobs of this queue. May be repeated."
)
@click.option("-s", "--state", "states", multiple=True, type=click.Choice(STATES), help="Only jobs in this state.")
@click.option("-a", "--all", "everything", is_flag=True, help="Also jobs that have finished.")
def jobs(asked: Asked, queues: tuple[str, ...], states: tuple[str, ...], everything: bool) -> None:
    """List jobs: their state, pods, and the nodes that they run on or why they wait.

    A waiting job has one word for its reason; `-o wide` has the whole sentence, its place in its queue and when it may
    start (p50 to p90), and `maar why` everything.
    """

    async def question(source: Source) -> JobsAnswer:
        found = await source.jobs(FORECAST if asked.wide else 0.0)
        await _check_names(asked, source, found, queues)
        items = [
            job
            for job in found.items
            if only(asked, job.namespace)
            and (not queues or job.queue in queues)
            and (job.state.value in states if states else everything or job.state is not State.FINISHED)
        ]
        return replace(found, items=items, total=len(items))

    show(asked, question, lambda found: jobs_text(found.items, found.others, found.as_of, asked.wide))
