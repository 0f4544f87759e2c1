"""`maar queues`: what each queue has, deserves and waits for."""

from __future__ import annotations

import click

from maar.cli.asking.options import Asked, asking, show
from maar.cli.asking.tables import PLAIN, queues_text
from maar.cli.support.exits import BadInput
from maar.model.words import unknown
from maar.web.api.answers import QueuesAnswer


@asking(watch=True)
@click.option("--resource", default="", metavar="NAME", help="Resource of the amounts. Default: the GPUs, else CPU.")
def queues(asked: Asked, resource: str) -> None:
    """List queues with what they use, deserve and wait for.

    Amounts of a queue include the queues below it. DESERVED is its share at the moment, LIMIT its capability, ASKED
    what its waiting pods request; the last columns count its own jobs.
    """
    show(asked, lambda source: source.queues(), lambda found: _text(found, resource, asked.wide))


def _text(found: QueuesAnswer, resource: str, wide: bool) -> str:
    amounts = (of for q in found.items for of in (q.deserved, q.allocated, q.capability, q.waiting))
    known = {PLAIN[0], PLAIN[1], *(name for of in amounts for name in of)}
    if resource and resource not in known:
        raise BadInput(unknown("resource", resource, known))
    return queues_text(found.items, resource, wide)
