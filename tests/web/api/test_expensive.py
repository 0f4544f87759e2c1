"""Expensive questions to `maar web`, over sockets: limits on sums, memory, clients that have gone, and other users."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.patience import PATIENCE, until
from tests.support.web import ADMIN, MINE, USER, Client, Web, webbing
from tests.web.api.test_api import Story, scene
from tests.web.api.test_writes import JOBS, job

from maar.web.api.errors import Refused
from maar.web.api.guard import Guard, UserTurns
from maar.web.api.question import MOST_EDITS, MOST_PODS
from maar.web.limits import HttpLimits, Rate
from maar.web.workers.pool import KEPT, TOO_LONG, TOO_MUCH, WorkerPool
from maar.whatif.node_edits import MOST_NODES

HUGE = 1_000_000_000
CHEAP = {"edits": [{"edit": "cordon", "nodes": ["n0"]}], "seconds": 0}
FREE = HttpLimits(
    user_requests=Rate(1e6, 1e6), requests_each=Rate(1e6, 1e6), computing=Rate(1e6, 1e6), reading=Rate(1e6, 1e6)
)
LONG_YAML = "[" + "a," * 500_000 + "]"
"""1 MB of text that takes 170 MB to read."""


def told(tmp_path: Path, story: Story, **options: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, **{"limits": FREE, **options}) as web:
            await scene(web)
            await story(web)

    asyncio.run(main())


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def memory(pid: int | str, field: str = "VmHWM") -> int:
    """Bytes of a process: the most that it had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def workers() -> set[int]:
    """The workers of this process."""
    found = set()
    for file in Path("/proc/self/task").glob("*/children"):
        for pid in map(int, file.read_text().split()):
            if b"maar.web.workers" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
    return found


@asynccontextmanager
async def sent(client: Client, body: Any, *, path: str = "/api/v1/what-if") -> AsyncIterator[asyncio.StreamReader]:
    """A request whose answer is not waited for; leaving closes the connection."""
    host, port = client.base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    data = msgspec.json.encode(body)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: {client.headers['Authorization']}\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    try:
        yield reader
    finally:
        writer.transport.abort()


async def stopped_worker(client: Client) -> int:
    """A worker that will never answer: it is stopped, and has the next question."""
    before = workers()
    await client.post("/what-if", CHEAP)
    (pid,) = workers() - before or workers()
    os.kill(pid, signal.SIGSTOP)
    return pid


# -- sums


def template(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]
    return {"spec": {"restartPolicy": "Never", "containers": containers, **spec}}


def batch(name: str, many: int) -> dict[str, Any]:
    spec = {"parallelism": many, "completions": many, "completionMode": "Indexed", "template": template()}
    return made("batch/v1", "Job", name, spec)


def made(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": MINE}, "spec": spec}


def jobset(replicas: int, parallelism: int, parts: int = 1) -> dict[str, Any]:
    inner = {"parallelism": parallelism, "completions": parallelism, "template": template()}
    jobs = [{"name": f"part-{i}", "replicas": replicas, "template": {"spec": inner}} for i in range(parts)]
    return made("jobset.x-k8s.io/v1alpha2", "JobSet", "set", {"replicatedJobs": jobs})


def kubeflow(many: int) -> dict[str, Any]:
    roles = {"Master": {"replicas": 1, "template": template()}, "Worker": {"replicas": many, "template": template()}}
    return made("kubeflow.org/v1", "PyTorchJob", "torch", {"pytorchReplicaSpecs": roles})


def volcano(tasks: int, many: int) -> dict[str, Any]:
    listed = [{"name": f"t{i}", "replicas": many, "template": template()} for i in range(tasks)]
    return made("batch.volcano.sh/v1alpha1", "Job", "volcano", {"tasks": listed, "minAvailable": 1})


def leaders(replicas: int, size: int) -> dict[str, Any]:
    spec = {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": template()}}
    return made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws", spec)


def ray(groups: int, many: int) -> dict[str, Any]:
    workers = [{"groupName": f"g{i}", "replicas": many, "template": template()} for i in range(groups)]
    spec = {"headGroupSpec": {"template": template()}, "workerGroupSpecs": workers}
    return made("ray.io/v1", "RayCluster", "ray", spec)


SUMS: dict[str, list[dict[str, Any]]] = {
    "100 jobs of 10,000 pods": [batch(f"job-{i}", 10_000) for i in range(100)],
    "2 jobs of 6,000 pods": [batch(f"job-{i}", 6_000) for i in range(2)],
    "a list of lists": [
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [{"apiVersion": "v1", "kind": "List", "items": [batch(n, 9_000)]}],
        }
        for n in ("a", "b")
    ],
    "one job": [batch("one", HUGE)],
    "Jobs in a JobSet": [jobset(HUGE, HUGE)],
    "parts of a JobSet": [jobset(200, 10, 90)],
    "roles": [kubeflow(HUGE)],
    "tasks": [volcano(90, 200)],
    "groups of pods": [leaders(HUGE, HUGE)],
    "groups of workers": [ray(90, 200)],
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_checked_before_anything_is_built(name: str, tmp_path: Path) -> None:
    manifests = SUMS[name]

    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        for given in (manifests, "\n---\n".join(msgspec.json.encode(item).decode() for item in manifests)):
            status, body = await user.ask("/api/v1/what-if", {"manifests": given, "seconds": 0})
            answer = msgspec.json.decode(body)
            expected = f"expected at most {MOST_PODS:,} pods in all, got more"
            assert (422, expected, "manifests") == (status, answer["error"], answer.get("field"))
        (pid,) = workers()
        assert memory(pid) < KEPT, "bytes"
        await user.post("/what-if", CHEAP)
        assert {pid} == workers(), "it goes on"

    told(tmp_path, story)


def test_the_largest_question_is_answered_within_the_ceiling(tmp_path: Path) -> None:
    """As many pods and nodes as there may be."""

    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        edits = [{"edit": "add-nodes-like", "like": "n0", "count": MOST_NODES // 4}] * 4
        question = {"manifests": [batch(f"job-{i}", MOST_PODS // 10) for i in range(10)], "edits": edits, "seconds": 0}
        answer = await user.post("/what-if", question)
        assert MOST_PODS == len([job for job in answer["whatIf"]["starts"] if job.startswith(f"{MINE}/job-")])

    told(tmp_path, story)


def test_sums_of_edits_are_checked(tmp_path: Path) -> None:
    nodes = [{"edit": "add-nodes-like", "like": "n0", "count": MOST_NODES}] * 2
    many = [{"edit": "open-queue", "queue": "red"}] * (MOST_EDITS + 1)

    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        for edits, error, field in (
            (nodes, f"expected at most {MOST_NODES} new nodes in all, got {2 * MOST_NODES}", "edits[1].count"),
            (many, f"expected at most {MOST_EDITS} edits, got {MOST_EDITS + 1}", "edits"),
        ):
            status, body = await user.ask("/api/v1/what-if", {"edits": edits, "manifests": LONG_YAML})
            answer = msgspec.json.decode(body)
            assert (422, error, field) == (status, answer["error"], answer.get("field")), (
                "before the manifests are read"
            )

    told(tmp_path, story, pool=WorkerPool(memory=220 << 20))


# -- memory


def test_a_question_that_needs_too_much_memory_is_refused_and_ends_its_worker_only(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user, admin = await web.as_user(USER), await web.as_user(ADMIN)
        await user.post("/what-if", CHEAP)
        (first,) = workers()
        before = memory("self", "VmRSS")
        for path, more in (("what-if", {"seconds": 0}), ("jobs", {"dryRun": True})):
            status, body = await user.ask(f"/api/v1/{path}", {"manifests": LONG_YAML, **more})
            assert (422, TOO_MUCH) == (status, msgspec.json.decode(body)["error"]), path
        assert memory("self", "VmRSS") - before < 100 << 20, "bytes of the process that serves"
        await until(lambda: not alive(first))
        await admin.post("/what-if", CHEAP)
        assert workers().isdisjoint({first})

    told(tmp_path, story, writes=True, pool=WorkerPool(memory=220 << 20))


def test_a_worker_that_is_killed_for_its_memory_is_replaced(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        pid = await stopped_worker(user)
        asking = asyncio.create_task(user.ask("/api/v1/what-if", CHEAP))
        await until(lambda: bool(web.answers.pool.working))
        os.kill(pid, signal.SIGKILL)
        status, body = await asking
        assert (422, TOO_MUCH) == (status, msgspec.json.decode(body)["error"])
        await user.post("/what-if", CHEAP)

    told(tmp_path, story)


def test_a_question_that_takes_too_long_ends(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        pid = await stopped_worker(user)
        web.answers.pool.seconds = 0.1
        status, body = await user.ask("/api/v1/what-if", CHEAP)
        assert (422, TOO_LONG) == (status, msgspec.json.decode(body)["error"])
        await until(lambda: not alive(pid))

    told(tmp_path, story)


def test_idle_workers_end(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        await (await web.as_user(USER)).post("/what-if", CHEAP)
        await until(lambda: not workers())

    told(tmp_path, story, pool=WorkerPool(idle=0.1))


# -- clients that have gone, and other users


@pytest.mark.parametrize("question", ["what-if", "why", "submit"])
def test_a_question_ends_when_its_client_has_gone(question: str, tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        pid = await stopped_worker(user)
        host, port = web.base.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        token = f"Host: localhost\r\nAuthorization: {user.headers['Authorization']}\r\n"
        data = msgspec.json.encode({"manifests": [job()]} if question == "submit" else CHEAP)
        body = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
        head, rest = {
            "what-if": ("POST /api/v1/what-if", body),
            "submit": ("POST /api/v1/jobs", body),
            "why": (f"GET /api/v1/jobs/{MINE}/waits", b"\r\n"),
        }[question]
        writer.write(f"{head} HTTP/1.1\r\n{token}".encode() + rest)
        await until(lambda: bool(web.answers.pool.working))
        assert alive(pid)
        writer.transport.abort()
        await until(lambda: not alive(pid))
        assert not web.answers.pool.working
        await user.post("/what-if", CHEAP)

    told(tmp_path, story, writes=True)


def test_a_client_that_has_gone_leaves_the_queue(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        await stopped_worker(user)
        async with sent(user, CHEAP):
            await until(lambda: bool(web.answers.pool.working))
            for _ in range(5):  # more than may wait, one after the other
                async with sent(user, CHEAP):
                    await until(lambda: web.guard.waiting == 1)
                await until(lambda: web.guard.waiting == 0)
        await user.post("/what-if", CHEAP)

    told(tmp_path, story)


def test_a_write_that_has_begun_is_finished_without_its_client(tmp_path: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        begun = asyncio.Event()

        def permits(who: str, method: str, path: str) -> bool:
            if method == "POST" and path.endswith("/jobs"):
                begun.set()
            return True

        web.server.handler.permits = permits
        web.server.faults.lag = 0.2
        async with sent(user, {"manifests": [job("one"), job("two")], "seconds": 0}, path="/api/v1/jobs"):
            await begun.wait()

        async def created() -> bool:
            return len((await web.cluster.get(JOBS))["items"]) == 2

        await until(created, "both jobs are created")

    told(tmp_path, story, writes=True)


def test_questions_of_other_users_go_on(tmp_path: Path) -> None:
    """One user has a question that never ends, and as many behind it as may wait."""
    limits = msgspec.structs.replace(FREE, computing_waiting_each=2)

    async def story(web: Web) -> None:
        user, admin = await web.as_user(USER), await web.as_user(ADMIN)
        await stopped_worker(user)
        async with sent(user, CHEAP):
            await until(lambda: bool(web.answers.pool.working))
            async with sent(user, CHEAP), sent(user, CHEAP):
                await until(lambda: web.guard.waiting == 2)
                status, body = await user.ask("/api/v1/what-if", CHEAP)
                assert (429, b"too many of your questions are waiting") == (status, body.split(b'"')[3])
                await admin.post("/what-if", CHEAP)
                await admin.get(f"/jobs/{MINE}/waits")
                assert 200 == (await admin.ask("/readyz"))[0]

    told(tmp_path, story, limits=limits)


def test_bodies_are_limited_in_sum_and_for_each_user(tmp_path: Path) -> None:
    """Requests whose bodies never arrive hold room for them."""
    limits = msgspec.structs.replace(FREE, body=1000, bodies=5000, bodies_each=2000)

    async def story(web: Web) -> None:
        user, admin = await web.as_user(USER), await web.as_user(ADMIN)
        host, port = web.base.removeprefix("http://").split(":")
        held = []
        for _ in range(2):
            _, writer = await asyncio.open_connection(host, int(port))
            head = "POST /api/v1/what-if HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writer.write(
                f"{head}Authorization: {user.headers['Authorization']}\r\nContent-Length: 1000\r\n\r\n{{".encode()
            )
            held.append(writer)
        await until(lambda: web.guard.held == 2000)
        status, body = await user.ask("/api/v1/what-if", CHEAP)
        assert (429, b"too many large requests at once") == (status, body.split(b'"')[3])
        await admin.post("/what-if", CHEAP)
        for writer in held:
            writer.transport.abort()
        await until(lambda: web.guard.held == 0)
        await user.post("/what-if", CHEAP)

    told(tmp_path, story, limits=limits)


def test_users_have_their_turns_in_rotation() -> None:
    async def story() -> None:
        turns, order, hold = UserTurns(1, 10, 3), list[str](), asyncio.Event()

        async def ask(user: str) -> None:
            async with turns.taken(user):
                order.append(user)
                await hold.wait()

        tasks = []
        for user in ("a", "a", "a", "b", "c", "b"):
            tasks.append(asyncio.create_task(ask(user)))
            await asyncio.sleep(0)
        tasks[2].cancel()  # she has gone
        await asyncio.sleep(0)
        hold.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert ["a", "a", "b", "c", "b"] == order

    asyncio.run(story())


def test_a_turn_that_is_cancelled_when_it_comes_is_given_to_the_next() -> None:
    async def story() -> None:
        turns, done = UserTurns(1, 10, 3), list[str]()

        async def ask(user: str) -> None:
            async with turns.taken(user):
                done.append(user)

        async with turns.taken("a"):
            second, third = asyncio.create_task(ask("b")), asyncio.create_task(ask("c"))
            await asyncio.sleep(0)
        second.cancel()  # its turn has come, and it does not know yet
        await asyncio.gather(second, third, return_exceptions=True)
        assert ["c"] == done
        await ask("b")
        assert ["c", "b"] == done

    asyncio.run(story())


def test_no_more_than_two_questions_are_computed_at_once() -> None:
    async def story() -> None:
        guard, hold = Guard(HttpLimits()), asyncio.Event()
        working = 0

        async def ask(user: str) -> None:
            nonlocal working
            async with guard.computing(user):
                working += 1
                await hold.wait()

        tasks = [asyncio.create_task(ask(f"user-{i}")) for i in range(18)]
        await until(lambda: guard.waiting == 16)
        assert 2 == working
        with pytest.raises(Refused, match="too many questions are waiting"):
            await ask("one more")
        hold.set()
        await asyncio.gather(*tasks)
        assert 18 == working

    asyncio.run(story())
