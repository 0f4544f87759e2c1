"""`maar nodes`: what each node has, and which jobs are on it."""

from __future__ import annotations

import click
from msgspec.structs import replace

from maar.cli.asking.options import Asked, Source, asking, show
from maar.cli.asking.tables import nodes_text
from maar.views.nodes import NODE_STATES
from maar.web.api.answers import NodesAnswer


@asking(watch=True)
@click.option(
    "-s", "--state", "states", multiple=True, type=click.Choice(NODE_STATES), help="Only nodes in this state."
)
def nodes(asked: Asked, states: tuple[str, ...]) -> None:
    """List nodes: their state, what is used of what they have, and the jobs on them."""

    async def question(source: Source) -> NodesAnswer:
        found = await source.nodes()
        items = [node for node in found.items if not states or node.state in states]
        return replace(found, items=items, total=len(items))

    show(asked, question, lambda found: nodes_text(found.items, asked.wide))
