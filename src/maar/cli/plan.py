"""`maar plan`: shows the plan for a cluster described by manifests, or replays a recording.

Reads manifests (`maar.kube.picture.manifests`), decides (`maar.decide`) and prints text or JSON. This module passes the
time to the decision: an option, or the clock. It prints nothing on standard output after an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from maar.cli.reports.plan_json import as_json
from maar.cli.reports.plan_text import Cycle, WithoutPods, as_text
from maar.cli.support.exits import BadInput, CannotRun, Problem
from maar.cli.support.inputs import LENIENT, OUTPUT
from maar.cli.support.manifests import CONFIG, SCHEDULER_NAMES, as_moment, chosen_config, read_cluster
from maar.cli.support.output import say, say_json, tell
from maar.config.config import Config
from maar.config.file import ConfigError, read_config
from maar.controller.record import RecordingError, is_recording, length, read_recording
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
from maar.shards.outside import after as after_step
from maar.shards.outside import standing_of, with_promises_to_others
from maar.shards.scope import own_jobs
from maar.shards.shard import decide_as
from maar.shards.sharing import Sharing


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
def plan(
    paths: tuple[str, ...],
    live: bool,
    added: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    config_file: str | None,
    lenient: bool,
    cycles: int,
    now: float | None,
    output: str,
    names: tuple[str, ...],
    shard: int | None,
) -> None:
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
    start = time.time() if now is None else now
    if live == bool(paths) or (added and not live):
        raise click.UsageError("expected PATH..., or --live with manifests in -f")
    if live:
        _plan_live(added, kubeconfig, context, config_file, lenient, cycles, start, output, names, shard)
        return
    if len(paths) == 1 and is_recording(Path(paths[0])):
        if shard is not None:
            raise click.UsageError("--shard is for manifests: a recording is decided as the shard that made it")
        _replay(Path(paths[0]), config_file, lenient, output)
        return
    config, given, warnings = read_cluster(paths, config_file, lenient, names, start)
    _plan(given, config, cycles, start, shard, output, warnings)


def _plan(
    given: Manifests,
    config: Config,
    cycles: int,
    start: float,
    shard: int | None,
    output: str,
    warnings: Sequence[str],
) -> None:
    """Decide for what was read, as one Maar or as one of its shards."""
    without_pods = WithoutPods(given.expected, given.skipped)
    if shard is None:
        _show(_decide(given.cluster, config, cycles, start), cycles, output, without_pods, warnings)
        return
    sharing = _sharing(given.picture, shard)
    head = _head(sharing.owners, shard, Snapshot(given.cluster))
    made = _decide_as(sharing, shard, given.cluster, config, cycles, start)
    _show(made, cycles, output, without_pods, warnings, head)


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
    sharing: Sharing, shard: int, cluster: Cluster, config: Config, cycles: int, now: float
) -> Iterator[Cycle]:
    """The same for one shard: its wants are written and its lends done, and the other shards do nothing."""
    snapshot = Snapshot(cluster)
    for i in range(cycles):
        standing = standing_of(sharing, shard, snapshot)
        taken = decide_as(standing, snapshot, config, now + i)
        own = own_jobs(snapshot, standing.uses, standing.queues)
        after = Snapshot(carry_out(snapshot.cluster, with_promises_to_others(taken.plan, snapshot, own), now + i))
        yield Cycle(taken.plan, snapshot, after, taken)
        snapshot, sharing = after, after_step(sharing, shard, taken)


def _plan_live(
    added: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    config_file: str | None,
    lenient: bool,
    cycles: int,
    start: float,
    output: str,
    names: tuple[str, ...],
    shard: int | None,
) -> None:
    """Plan a cluster as it is now, with manifests added to it."""
    # Imported late: it takes long, and plans of files need none of it.
    from maar.cli.asking.asked import guarded, notes_about
    from maar.cli.asking.configuration import configuration
    from maar.cli.asking.reading import read
    from maar.controller.main import LEASE_NAMESPACE, NAME
    from maar.kube.client.access import load_access, load_namespace
    from maar.kube.client.api import Api
    from maar.kube.picture.manifests import read_into
    from maar.kube.wire.errors import ManifestError

    ours = names or (NAME,)

    async def main() -> None:
        api = await Api.open(load_access(kubeconfig, context))
        try:
            chosen = await configuration(api, config_file, lenient, ours, LEASE_NAMESPACE)
            mine = (load_namespace(kubeconfig, context),)
            reading = await read(api, mine, chosen.names, LEASE_NAMESPACE, chosen.nodes, chosen.without)
        finally:
            await api.close()
        if not reading.whole:
            raise CannotRun(f"nothing can be decided here: you may not list {', '.join(reading.unseen)}")
        try:
            given = read_into(reading.picture, added, chosen.names, start)
        except ManifestError as error:
            raise BadInput(str(error)) from None
        for note in (
            *notes_about(reading, chosen),
            *(f"warning: {w}" for w in (*chosen.warnings, *given.warnings)),
        ):
            tell(note)
        _plan(given, chosen.config, cycles, start, shard, output, given.warnings)

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


def _replay(path: Path, config_file: str | None, lenient: bool, output: str) -> None:
    """Decide a recording again. With its own configuration, a plan that differs from the recorded one is an error."""
    differ: list[str] = []
    try:
        _show(_decide_again(path, config_file, lenient, differ), length(path), output)
    except RecordingError as error:
        raise BadInput(str(error)) from None
    except ConfigError as error:
        raise BadInput(*error.problems) from None
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


def _decide(cluster: Cluster, config: Config, cycles: int, now: float) -> Iterator[Cycle]:
    """Decide one cycle after the other, each on the cluster after the one before."""
    snapshot = Snapshot(cluster)
    for i in range(cycles):
        decided = decide(snapshot, config, now + i)
        after = Snapshot(carry_out(snapshot.cluster, decided, now + i))
        yield Cycle(decided, snapshot, after)
        snapshot = after
