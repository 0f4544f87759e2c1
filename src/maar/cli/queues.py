"""`maar queues`: what each queue has, deserves and waits for."""

from __future__ import annotations

import click

from maar.cli.asking.asked import Asked, asking, show
from maar.cli.asking.tables import queues_text


@asking(watch=True)
@click.option("--resource", default="", metavar="NAME", help="Resource of the amounts. Default: the GPUs, else CPU.")
def queues(asked: Asked, resource: str) -> None:
    """List queues with what they use, deserve and wait for.

    Amounts of a queue include the queues below it. DESERVED is its share at the moment, LIMIT its capability, ASKED
    what its waiting pods request; the last columns count its own jobs.
    """
    show(asked, lambda source: source.queues(), lambda found: queues_text(found.items, resource, asked.wide))
