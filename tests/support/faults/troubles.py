"""The faults, one function each. Tests run them one by one, the soak at random; the witness is always the same.

A trouble begins, waits until Maar has bound more pods in spite of it, and ends. So there is always load while it lasts.
Each returns how often it was felt: a fault that reached nothing shows nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.support.faults import flood, shaken
from tests.support.faults import hostile as attacks
from tests.support.faults.jobs import PATHS
from tests.support.faults.replicas import LEASE_S
from tests.support.faults.stage import Stage
from tests.support.postgres import Postgres
from tests.support.proxy import ANSWERED_500

from maar.kube.wire.api_resources import QUEUES

HOUR = 3600.0
DELAY_S = 0.2
CUT_EVERY_S = 1.0
FAIL_SHARE = 0.5
QUEUE_COUNT = 5000
FAN_OUT = 8
"""Children of a queue in the tree: 5,000 queues are 5 levels."""
STORED_QUEUES = "scheduling.volcano.sh/queues"
"""Where the API server stores queues."""
CONNECTIONS = 10_000
BINDS = 12
"""Binds that a trouble outlasts in a short test."""

NUMBERS = itertools.count()

Trouble = Callable[[Stage], Awaitable[int]]


async def slow_server(stage: Stage, binds: int = BINDS) -> int:
    """Every request is answered 200 ms late."""
    before = stage.proxy.requests
    stage.proxy.delay = DELAY_S
    await stage.progress(binds)
    stage.proxy.delay = 0.0
    return stage.proxy.requests - before


async def cut_watches(stage: Stage, binds: int = BINDS) -> int:
    """All watches are cut every second."""
    before = stage.proxy.cuts
    stage.proxy.cut_every = CUT_EVERY_S
    await stage.progress(binds)
    await stage.until(lambda: stage.proxy.cuts > before, "a watch was cut")
    stage.proxy.cut_every = 0.0
    return stage.proxy.cuts - before


async def failing_writes(stage: Stage, binds: int = BINDS) -> int:
    """Half of all writes are answered with 500: some were carried out, some were not."""
    fates = stage.proxy.fates
    before = {fate: fates[fate] for fate in ANSWERED_500}
    stage.proxy.failures, stage.proxy.fail_share = ANSWERED_500, FAIL_SHARE
    await stage.progress(binds)
    await stage.until(lambda: all(fates[fate] > before[fate] for fate in ANSWERED_500), "both kinds of 500")
    stage.proxy.fail_share = 0.0
    return sum(fates[fate] - before[fate] for fate in ANSWERED_500)


async def clock_steps(stage: Stage, binds: int = BINDS) -> int:
    """The wall clock of all replicas jumps an hour ahead, two hours back, and to the true time again."""
    felt = 0
    for seconds in (HOUR, -HOUR, 0.0):
        for replica in stage.replicas.running:
            shaken.step(replica.clock, seconds)
            felt += 1
        await stage.progress(binds // 3)
    return felt


async def kill(stage: Stage) -> int:
    """A replica is killed with SIGKILL, at a random moment."""
    await asyncio.sleep(stage.dice.uniform(0.0, 1.0))
    await stage.replicas.kill(stage.replicas.pick())
    return 1


async def freeze(stage: Stage) -> int:
    """A replica is stopped for longer than its lease, and goes on."""
    await stage.replicas.freeze(stage.replicas.pick(), LEASE_S + stage.dice.uniform(0.5, 3.0))
    return 1


async def restart_the_server(stage: Stage) -> int:
    """The API server is killed and starts again."""
    await asyncio.to_thread(stage.cluster.restart_api_server)
    return 1


async def no_postgres(stage: Stage, postgres: Postgres, binds: int = BINDS) -> int:
    """PostgreSQL ends, and comes back after some binds."""
    await asyncio.to_thread(postgres.stop)
    try:
        await stage.progress(binds)
    finally:
        await asyncio.to_thread(postgres.start)
    return 1


async def full_disk(stage: Stage) -> int:
    """All replicas start again, and record their cycles on disks that are soon full."""
    stage.replicas.full_disks = True
    try:
        for replica in stage.replicas.running:
            await stage.replicas.kill(replica)
        # Those that run now: others may be killed in the meantime, and their successors record too.
        await stage.until(lambda: any(r.says("recording stopped") for r in stage.replicas.running), "a disk is full")
        await stage.progress(1)
    finally:
        stage.replicas.full_disks = False
    return 1


async def many_queues(stage: Stage, count: int = QUEUE_COUNT, binds: int = BINDS) -> int:
    """A tree of thousands of queues appears, and goes away again."""
    async with queue_tree(stage, count) as made:
        await stage.progress(binds)
        return made


@asynccontextmanager
async def queue_tree(stage: Stage, count: int) -> AsyncIterator[int]:
    """A tree of queues below `root`."""

    def queue(number: int) -> dict[str, Any]:
        parent = f"tree-{(number - 1) // FAN_OUT}" if number else "root"
        spec = {"weight": 1, "parent": parent, "reclaimable": True}
        head = {"apiVersion": QUEUES.api_version, "kind": "Queue"}
        return {**head, "metadata": {"name": f"tree-{number}"}, "spec": spec}

    await stage.etcd.put_all(STORED_QUEUES, [queue(i) for i in range(count)])
    try:
        yield count
    finally:
        await stage.etcd.delete_all(f"{STORED_QUEUES}/tree-")


async def connections(stage: Stage, count: int = CONNECTIONS, binds: int = BINDS) -> int:
    """Thousands of connections to the HTTP port of the leader, which send half a request or nothing."""
    leader = await stage.leader()
    arguments = ["-P", str(flood.__file__), str(leader.port), str(count)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(stage.patience):
            held = int(await process.stdout.readline())
        await stage.progress(binds)
    finally:
        process.stdin.close()
        await process.wait()
    return held


async def lose_a_node(stage: Stage) -> int:
    """A node is removed with its pods; the jobs that had pods there start again. Later it returns."""
    await stage.users.remove_node()
    await stage.progress(1)
    await stage.users.return_nodes()
    return 1


async def hostile(stage: Stage) -> int:
    """A hostile user creates objects that attack the scheduler, and deletes them later."""
    made = attacks.some(next(NUMBERS), stage.dice)
    for resource, thing in made:
        await stage.users.write(lambda live, r=resource, t=thing: live.create(PATHS[r], t))  # type: ignore[misc]
    await stage.progress(1)
    for resource, thing in made:
        await stage.users.remove(resource, thing["metadata"]["name"])
    return 1


async def cordon(stage: Stage) -> int:
    """A node is cordoned for a while."""
    node = f"n{stage.dice.randrange(stage.users.nodes)}"
    await stage.users.cordon(node)
    await stage.progress(1)
    await stage.users.cordon(node, False)
    return 1
