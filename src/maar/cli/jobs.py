"""`maar jobs`: the jobs of a cluster, as `squeue` lists them."""

from __future__ import annotations

import click
from msgspec.structs import replace

from maar.cli.asking.asked import Asked, Source, asking, only, show
from maar.cli.asking.tables import jobs_text
from maar.views.records import State
from maar.web.api.answers import JobsAnswer

FORECAST = 10.0
"""Seconds for the forecast of `-o wide`, if it is made here. Tuned by hand."""
STATES = [state.value for state in State]


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
        items = [
            job
            for job in found.items
            if only(asked, job.namespace)
            and (not queues or job.queue in queues)
            and (job.state.value in states if states else everything or job.state is not State.FINISHED)
        ]
        return replace(found, items=items, total=len(items))

    show(asked, question, lambda found: jobs_text(found.items, found.others, found.as_of, asked.wide))
