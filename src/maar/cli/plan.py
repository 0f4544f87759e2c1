"""`maar plan`: shows the plan for a cluster described by manifests, or replays a recording.

Reads manifests (`maar.kube.picture.manifests`), decides (`maar.decide`) and prints text or JSON. This module passes the
time to the decision: an option, or the clock. It prints nothing on standard output after an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from maar.cli.reports.plan_json import as_json
from maar.cli.reports.plan_text import Cycle, WithoutPods, as_text
from maar.cli.support.exits import BadInput, CannotRun, Problem
from maar.cli.support.inputs import LENIENT, OUTPUT
from maar.cli.support.manifests import CONFIG, SCHEDULER_NAMES, as_moment, chosen_config, read_cluster
from maar.cli.support.output import say, say_json, tell
from maar.config.config import Config
from maar.config.file import read_config
from maar.controller.record import RecordingError, is_recording, length, read_recording
from maar.controller.settings.brakes import Brakes, BrakeSettings
from maar.decide import decide
from maar.kube.picture.manifests import Manifests
from maar.kube.picture.picture import Picture
from maar.kube.picture.shards import sharing_of
from maar.kube.read.shards import BrokenMap
from maar.model.outcome import carry_out
from maar.model.queues import ROOT
from maar.model.snapshot import Cluster, Snapshot
from maar.model.words import count
from maar.registry import catalog
from maar.shards.map import ShardMap
from maar.shards.public_view import after as after_step
from maar.shards.public_view import standing_of, with_room_of_others
from maar.shards.scope import own_jobs
from maar.shards.shard import decide_as
from maar.shards.sharing import Sharing


class Asked(msgspec.Struct, frozen=True):
    """The arguments and options of one `maar plan`."""

    paths: tuple[str, ...]
    live: bool
    added: tuple[str, ...]
    kubeconfig: str | None
    context: str | None
    config_file: str | None
    lenient: bool
    cycles: int
    now: float
    output: str
    names: tuple[str, ...]
    shard: int | None


@click.command()
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--live",
    is_flag=True,
    help="Plan the cluster of the kubeconfig, with what -f adds. Nothing is written.",
)
@click.option("-f", "--file", "added", multiple=True, metavar="PATH", help="With --live: manifests to add.")
@click.option("--kubeconfig", metavar="FILE", help="With --live: the kubeconfig. Default: as for kubectl.")
@click.option("--context", metavar="NAME", help="With --live: context of the kubeconfig.")
@CONFIG
@LENIENT
@click.option(
    "--cycles", type=click.IntRange(1), default=1, show_default=True, metavar="N",
    help="Number of cycles to decide, one second apart.",
)  # fmt: skip
@click.option(
    "--now", callback=as_moment, metavar="TIME",
    help="Time of the first cycle, in RFC 3339 or in seconds since 1970. Default: now.",
)  # fmt: skip
@OUTPUT
@SCHEDULER_NAMES
@click.option(
    "--shard", type=click.IntRange(0), metavar="K",
    help="Decide as shard K of the ShardMap in the input (docs/shards.md). Default: as one Maar for the whole cluster.",
)  # fmt: skip
def plan(**given: Any) -> None:
    """Show what Maar would decide for the cluster that the manifests in PATH... describe.

    A PATH is a file (YAML or JSON, with one or more objects), a folder, or - for standard input. Maar reads nodes,
    pods, jobs, pod groups, queues and other objects that it schedules by, including their status, and ignores other
    kinds. A job without pods is planned as if its controller had created them. Between cycles the plan takes effect:
    bound pods run, evicted pods are gone.

    If PATH is a recording (`maar run --record FILE`), Maar decides each recorded cycle again, with the recorded
    configuration or with --config.

    With --live there is no PATH: the cluster is read with your own rights, which must include all nodes and pods.

    With --shard K the plan is what that shard does with its nodes and queues, what it wants from other shards and what
    it lends. The ShardMap and the Shards must be in the input. Between cycles the other shards do nothing.
    """
    asked = Asked(**given | {"now": time.time() if given["now"] is None else given["now"]})
    paths = asked.paths
    if asked.live == bool(paths) or (asked.added and not asked.live):
        raise click.UsageError("expected PATH..., or --live with manifests in -f")
    if asked.live:
        _plan_live(asked)
    elif len(paths) == 1 and is_recording(Path(paths[0])):
        if asked.shard is not None:
            raise click.UsageError("--shard is for manifests: a recording is decided as the shard that made it")
        _replay(Path(paths[0]), asked)
    else:
        config, read, warnings = read_cluster(paths, asked.config_file, asked.lenient, asked.names, asked.now)
        _plan(asked, read, config, warnings)


def _plan(
    asked: Asked,
    given: Manifests,
    config: Config,
    warnings: Sequence[str],
    brakes: BrakeSettings = BrakeSettings(),  # noqa: B008
) -> None:
    """Decide for what was read, as one Maar or as one of its shards."""
    without_pods = WithoutPods(given.expected, given.skipped)
    if asked.shard is None:
        made = _decide(given.cluster, config, asked.cycles, asked.now, Brakes(brakes))
        _show(made, asked.cycles, asked.output, without_pods, warnings)
        return
    sharing = _sharing(given.picture, asked.shard)
    head = _head(sharing.owners, asked.shard, Snapshot(given.cluster))
    made = _decide_as(sharing, asked.shard, given.cluster, config, asked.cycles, asked.now, Brakes(brakes))
    _show(made, asked.cycles, asked.output, without_pods, warnings, head)


def _sharing(picture: Picture, shard: int) -> Sharing:
    """The shards in the input, of which this one is to decide."""
    try:
        sharing = sharing_of(picture)
    except BrokenMap as error:
        raise BadInput(str(error)) from None
    if sharing is None:
        raise BadInput("--shard: the input has no ShardMap (`kubectl get shardmaps,shards -o yaml` lists it)")
    if shard not in sharing.owners.members():
        known = ", ".join(map(str, sharing.owners.members()))
        raise BadInput(f"--shard: the ShardMap has no shard {shard}; it has {known}")
    return sharing


def _head(owners: ShardMap, shard: int, snapshot: Snapshot) -> str:
    nodes, queues = snapshot.nodes.names, [queue.name for queue in snapshot.queues.queues if queue.name != ROOT]
    own = sum(owners.owner_of(name) == shard for name in nodes)
    mine = [name for name in queues if owners.shard_of(name) == shard]
    owns = f"owns {own:,} of {count(len(nodes), 'node')}"
    return f"shard {shard}: {owns}, decides for queues: {', '.join(mine) or 'none'}"


def _decide_as(
    sharing: Sharing, shard: int, cluster: Cluster, config: Config, cycles: int, now: float, brakes: Brakes
) -> Iterator[Cycle]:
    """The same for one shard: its wants are written and its lends done, and the other shards do nothing."""
    snapshot = Snapshot(cluster)
    for i in range(cycles):
        standing = standing_of(sharing, shard, snapshot)
        taken = decide_as(standing, snapshot, config, now + i)
        plan = brakes.apply(taken.plan, snapshot, now + i)
        own = own_jobs(snapshot, standing.uses, standing.queues)
        after = Snapshot(carry_out(snapshot.cluster, with_room_of_others(plan, snapshot, own), now + i))
        yield Cycle(plan, snapshot, after, taken)
        snapshot, sharing = after, after_step(sharing, shard, taken)


def _plan_live(asked: Asked) -> None:
    """Plan a cluster as it is now, with manifests added to it."""
    # Imported late: it takes long, and plans of files need none of it.
    from maar.cli.asking.configuration import configuration
    from maar.cli.asking.options import connected, guarded, notes_about
    from maar.cli.asking.reading import read
    from maar.controller.process import LEASE_NAMESPACE, NAME
    from maar.kube.client.access import load_access, load_namespace
    from maar.kube.picture.manifests import read_into

    ours = asked.names or (NAME,)

    async def main() -> None:
        async with connected(load_access(asked.kubeconfig, asked.context)) as api:
            chosen = await configuration(api, asked.config_file, asked.lenient, ours, LEASE_NAMESPACE)
            mine = (load_namespace(asked.kubeconfig, asked.context),)
            reading = await read(api, mine, chosen.names, LEASE_NAMESPACE, chosen.nodes, chosen.without)
        if not reading.whole:
            raise CannotRun(f"nothing can be decided here: you may not list {', '.join(reading.unseen)}")
        given = read_into(reading.picture, asked.added, chosen.names, asked.now)
        warnings = (f"warning: {warning}" for warning in (*chosen.warnings, *given.warnings))
        for note in (*notes_about(reading, chosen), *warnings):
            tell(note)
        _plan(asked, given, chosen.config, given.warnings, chosen.brakes)

    guarded(main)


def _show(
    cycles: Iterable[Cycle],
    count: int,
    output: str,
    without_pods: WithoutPods | None = None,
    warnings: Sequence[str] = (),
    head: str = "",
) -> None:
    if output == "json":
        say_json(as_json(cycles, without_pods, warnings))
    else:
        say(as_text(cycles, count, without_pods, head))


def _replay(path: Path, asked: Asked) -> None:
    """Decide a recording again. With its own configuration, a plan that differs from the recorded one is an error."""
    differ: list[str] = []
    try:
        _show(_decide_again(path, asked.config_file, asked.lenient, differ), length(path), asked.output)
    except RecordingError as error:
        raise BadInput(str(error)) from None
    if differ:
        raise Problem(f"plans differ from the recording in cycles: {', '.join(differ)}")


def _decide_again(path: Path, config_file: str | None, lenient: bool, differ: list[str]) -> Iterator[Cycle]:
    """Decide one recorded cycle after the other: a week of cycles does not fit in memory.

    The recorded configuration was in use, perhaps by `maar run --lenient`, so it is always read leniently.
    """
    config, text = chosen_config(config_file, lenient)[0], None
    for number, cycle in enumerate(read_recording(path), 1):
        if config_file is None and cycle.config is not None and cycle.config != text:
            source = f"{path}: configuration"
            config, text = read_config(cycle.config, source, catalog(), lenient=True).config, cycle.config
        snapshot = Snapshot(cycle.cluster)
        rows = snapshot.jobs.number
        snapshot.resting = frozenset(rows[job] for job in cycle.resting if job in rows)
        taken = decide_as(cycle.standing, snapshot, config, cycle.now)
        plan = taken.plan
        if config_file is None and plan != cycle.plan:
            differ.append(str(number))
        shared = None if cycle.standing is None else taken
        yield Cycle(plan, snapshot, Snapshot(carry_out(cycle.cluster, plan, cycle.now)), shared)


def _decide(cluster: Cluster, config: Config, cycles: int, now: float, brakes: Brakes) -> Iterator[Cycle]:
    """Decide one cycle after the other, each on the cluster after the one before."""
    snapshot = Snapshot(cluster)
    for i in range(cycles):
        decided = brakes.apply(decide(snapshot, config, now + i), snapshot, now + i)
        after = Snapshot(carry_out(snapshot.cluster, decided, now + i))
        yield Cycle(decided, snapshot, after)
        snapshot = after
