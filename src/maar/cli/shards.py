"""`maar shards`: which shards there are and what they own; `maar shards set` changes their number."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import click
import msgspec
from rich.console import RenderableType
from rich.table import Table

from maar.cli.asking.options import connected, guarded
from maar.cli.support.exits import BadInput, CannotRun
from maar.cli.support.inputs import CONTEXT, KUBECONFIG, WIDE_OUTPUT
from maar.cli.support.output import say, say_json, tell
from maar.cli.support.printing import printed
from maar.kube.client.access import load_access
from maar.kube.client.api import Api
from maar.kube.client.errors import Conflict, Forbidden, NotFound
from maar.kube.client.streams import Broken
from maar.kube.read.queues import queue
from maar.kube.read.shards import BrokenMap
from maar.kube.wire.annotations import SHARD
from maar.kube.wire.api_resources import NODES, QUEUES
from maar.kube.wire.shards import ShardStatus
from maar.kube.write.shards import ShardFigures, StoredMap, read_map, read_shards, write_map
from maar.model.queues import QueueTree
from maar.model.words import count
from maar.shards.map import ShardMap
from maar.shards.proposals import Proposals, proposals
from maar.shards.slots import SLOTS, balanced, check_number

NO_MAP = "this cluster has no ShardMap: it has no shards"
TRIES = 10
"""Writes of the map before `set` gives up; tuned by hand. Holders write it too."""
HERE = (KUBECONFIG, CONTEXT)


class Where(NamedTuple):
    """The cluster that a caller names."""

    kubeconfig: str | None
    context: str | None


class Row(msgspec.Struct, frozen=True):
    """One shard. What the caller may not list is `None`."""

    shard: int
    wanted: bool
    """False if it only gives away what it has."""
    holder: str
    epoch: int
    slots: int
    nodes: int | None
    queues: int | None
    lent: int | None = None
    borrowed: int | None = None
    waiting: int | None = None
    """These three as its holder has written them."""


class Owned(NamedTuple):
    """Nodes and queues of a cluster, as far as the caller may list them."""

    nodes: list[str] | None
    tree: QueueTree | None


@click.group(invoke_without_command=True)
@HERE[0]
@HERE[1]
@WIDE_OUTPUT
@click.pass_context
def shards(ctx: click.Context, kubeconfig: str | None, context: str | None, output: str) -> None:
    """List the shards in a cluster's ShardMap, with their holders, nodes and queues.

    `maar run --shards N` creates the ShardMap, and its processes share the cluster. docs/shards.md says how.
    """
    ctx.obj = Where(kubeconfig, context)
    if ctx.invoked_subcommand is None:
        _run(ctx.obj, lambda api: _list(api, output))


@shards.command(name="set")
@click.argument("number", type=int, metavar="N")
@HERE[0]
@HERE[1]
@click.pass_context
def change(ctx: click.Context, number: int, kubeconfig: str | None, context: str | None) -> None:
    """Change the number of shards in the ShardMap to N, and say what will move.

    Only the slots that must move do, one by one, when their shards have let them go.
    """
    try:
        check_number(number)
    except ValueError as error:
        raise BadInput(str(error)) from None
    group: Where = ctx.obj
    _run(Where(kubeconfig or group.kubeconfig, context or group.context), lambda api: _set(api, number))


def _run(where: Where, do: Callable[[Api], Awaitable[None]]) -> None:
    async def main() -> None:
        async with connected(load_access(where.kubeconfig, where.context)) as api:
            try:
                await do(api)
            except BrokenMap as error:
                raise CannotRun(str(error)) from None

    guarded(main)


async def _list(api: Api, output: str) -> None:
    stored = await _map(api)
    found = await read_shards(api)
    owned = await _owned(api)
    pins = _proposed(stored.map, owned).problems
    for problem in (*found.problems, *(f"Queue `{name}`: `{SHARD}`: {wrong}" for name, wrong in pins.items())):
        tell(f"warning: {problem}")
    items = rows(stored.map, found, owned)
    moving = slots_to_move(stored.map)
    if output == "json":
        body = {"shards": stored.map.shards, "slots_to_move": moving, "items": msgspec.to_builtins(items)}
        say_json(json.dumps(body, indent=2))
    else:
        say(printed(_text(stored.map, items, moving, output == "wide")))


async def _set(api: Api, number: int) -> None:
    await _map(api)  # without one, nothing else is read
    owned = await _owned(api)
    for _ in range(TRIES):
        stored = await _map(api)
        if stored.map.shards == number:
            say(printed([f"shards: {number} already, nothing changes"]))
            return
        after = stored.map.resized(number)
        try:
            await write_map(api, stored, after)
        except Conflict:
            continue
        say(printed([f"shards: {stored.map.shards} to {number}", *what_moves(after, owned)]))
        return
    raise CannotRun(f"the ShardMap was changed by others {TRIES} times in a row: try again")


async def _map(api: Api) -> StoredMap:
    stored = await read_map(api)
    if stored is None:
        raise CannotRun(NO_MAP)
    return stored


async def _owned(api: Api) -> Owned:
    nodes, tree = None, None
    try:
        nodes = [item.name for item in (await api.list(NODES)).items]
    except Forbidden:
        tell("nodes are not counted: you may not list them")
    try:
        listed = (await api.list(QUEUES)).items
        tree = QueueTree(queue(item, time.time()) for item in listed if not isinstance(item, Broken))
    except NotFound:
        tree = QueueTree([])
    except Forbidden:
        tell("queues are not counted: you may not list them")
    return Owned(nodes, tree)


def rows(shard_map: ShardMap, found: ShardFigures, owned: Owned) -> list[Row]:
    """All shards that are wanted or own something."""
    slots = Counter(shard_map.slots)
    nodes = Counter(map(shard_map.owner_of, owned.nodes or ()))
    queues = Counter(shard_map.shard_of(one.name) for one in (owned.tree.queues if owned.tree else ()))
    return [
        Row(
            shard,
            shard < shard_map.shards,
            shard_map.holders.get(shard, ""),
            shard_map.epochs.get(shard, 0),
            slots[shard],
            None if owned.nodes is None else nodes[shard],
            None if owned.tree is None else queues[shard],
            *_figures(found.statuses.get(shard)),
        )
        for shard in shard_map.members()
    ]


def _figures(status: ShardStatus | None) -> tuple[int | None, int | None, int | None]:
    return (None, None, None) if status is None else (status.lent, status.borrowed, status.waiting)


def slots_to_move(shard_map: ShardMap) -> int:
    """How many slots do not belong to the shard that they should belong to."""
    wanted = balanced(shard_map.slots, shard_map.shards)
    return sum(now != then for now, then in zip(shard_map.slots, wanted, strict=True))


def what_moves(shard_map: ShardMap, owned: Owned) -> list[str]:
    """What the number of shards in a map makes move, in words."""
    found = _proposed(shard_map, owned)
    takers = Counter((move.owner, move.to) for move in found.slots)
    lines = [f"slots to move: {len(found.slots)} of {SLOTS}"]
    lines += [f"  shard {owner} to shard {to}: {count}" for (owner, to), count in sorted(takers.items())]
    if owned.nodes is not None:
        leaving = [move for move in found.nodes if move.owner >= shard_map.shards]
        nodes = sum(len(move.nodes) for move in found.slots) + len(leaving)
        lines.append(f"nodes to move: {nodes} of {len(owned.nodes)}, more or fewer where racks are kept together")
    if owned.tree is not None:
        lines.append(f"queues to move: {len(found.leaving_queues())} of {len(owned.tree)}")
    return lines


def _proposed(shard_map: ShardMap, owned: Owned) -> Proposals:
    """What will be proposed when every shard has a holder."""
    epochs = {shard: max(shard_map.epochs.get(shard, 0), 1) for shard in range(shard_map.shards)}
    held = msgspec.structs.replace(shard_map, epochs={**shard_map.epochs, **epochs})
    return proposals(held, dict.fromkeys(owned.nodes or (), ""), owned.tree or QueueTree([]))


def _text(shard_map: ShardMap, items: Sequence[Row], moving: int, wide: bool) -> list[RenderableType]:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    for column in ("SHARD", "HOLDER", "EPOCH", "NODES", "QUEUES"):
        table.add_column(column, justify="left" if column == "HOLDER" else "right")
    for column in ("SLOTS", "LENT", "BORROWED", "WAITING") if wide else ():
        table.add_column(column, justify="right")
    for row in items:
        counts = (row.epoch, row.nodes, row.queues)
        more = (row.slots, row.lent, row.borrowed, row.waiting) if wide else ()
        table.add_row(str(row.shard), row.holder or "-", *("-" if n is None else str(n) for n in (*counts, *more)))
    foot = [f"wanted: {count(shard_map.shards, 'shard')}"]
    if leaving := [str(row.shard) for row in items if not row.wanted]:
        foot.append(f"no longer wanted, and still own something: {', '.join(leaving)}")
    if moving:
        foot.append(f"slots that have to move: {moving} of {SLOTS}")
    return [table, "", *foot]
