"""Measures whether clients of the HTTP server delay binds: `make bench-http`.

On a real API server: the time from the creation of a pod to its bind, in turns without clients and with 200 clients
that send 1,000 requests a second in total at nice 19: metrics, health, and measurements with ServiceAccount tokens.
Each client has its own address, so that the limit of one address does not make it easier. The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.patience import until
from tests.support.real.cluster import RealCluster

from bench.cluster import Maar, Watcher, make_nodes, one_by_one, p99_of, singles
from maar.kube.client.access import load_access
from maar.kube.client.api import Api

TEAMS = 4
"""Namespaces whose jobs report."""
REPORTING, PROBING = 5, 10
"""One of this many clients reports measurements once a second, and one asks for health; the others ask for metrics."""
NICE = 19


# -- clients, in a process of their own


def request(number: int, turn: int, tokens: list[str]) -> bytes:
    if number % REPORTING == 0:
        team = number // REPORTING % TEAMS
        body = json.dumps({"epoch": turn, "seconds": 60.0, "workers": 4}).encode()
        head = (
            f"POST /v1/jobs/team-{team}/job-{number}/measurements HTTP/1.1\r\nAuthorization: Bearer {tokens[team]}\r\n"
        )
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    path = "/healthz" if number % PROBING == 1 else "/metrics"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


async def client(number: int, port: int, every: float, tokens: list[str], seen: Counter[str]) -> None:
    """Send a request at fixed times; connect again if the server closes."""
    loop, turn = asyncio.get_running_loop(), 0
    due = loop.time() + every * (number % 97) / 97
    while True:
        try:
            source = (f"127.0.{1 + number // 250}.{1 + number % 250}", 0)
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=source)
            while True:
                await asyncio.sleep(max(due - loop.time(), 0.0))
                due, turn = max(due + every, loop.time() - 1.0), turn + 1
                writer.write(request(number, turn, tokens))
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                seen[head[9:12].decode()] += 1
        except (OSError, asyncio.IncompleteReadError):
            seen["cut"] += 1


async def clients(port: int, connections: int, rate: float, tokens: list[str]) -> None:
    """Run until standard input ends; then print what was seen."""
    seen: Counter[str] = Counter()
    reporting = len(range(0, connections, REPORTING))
    every = (connections - reporting) / max(rate - reporting, 1.0)
    tasks = [
        asyncio.create_task(client(n, port, every if n % REPORTING else 1.0, tokens, seen)) for n in range(connections)
    ]
    await until(lambda: seen, "the first answer")
    begun = time.perf_counter()
    await asyncio.to_thread(sys.stdin.read)
    seconds = time.perf_counter() - begun
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps({"seconds": seconds, "seen": seen}))


class Load:
    """The clients, while they run."""

    def __init__(self, port: int, connections: int, rate: float, tokens: list[str]) -> None:
        setting = json.dumps({"port": port, "connections": connections, "rate": rate, "tokens": tokens})
        command = ["nice", "-n", str(NICE), sys.executable, "-m", "bench.http", "--clients", setting]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end(self) -> dict[str, Any]:
        out, _ = self._process.communicate("", timeout=60)
        found: dict[str, Any] = json.loads(out)
        return found


# -- the measurement


def tokens_of(cluster: RealCluster) -> list[str]:
    """A token of each team."""
    tokens = []
    for team in range(TEAMS):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{team}"}}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "t", "namespace": f"team-{team}"}}
        cluster.apply([space])
        cluster.apply([account])
        path = f"/api/v1/namespaces/team-{team}/serviceaccounts/t/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        tokens.append(cluster.request("POST", path, body)["status"]["token"])
    return tokens


async def measure(cluster: RealCluster, given: argparse.Namespace, history: Path) -> dict[str, Any]:
    api = await Api.open(load_access(str(cluster.kubeconfig)))
    await make_nodes(api, given.nodes)
    tokens = tokens_of(cluster)
    child = Maar(cluster.kubeconfig, "--no-leader-elect", "--history", str(history))
    quiet, loaded, seen, seconds = list[float](), list[float](), Counter[str](), 0.0
    try:
        await child.started()
        watcher = Watcher(api)
        await watcher.synced()
        await one_by_one(api, watcher, singles("warm", 10))
        for turn in range(given.rounds):
            quiet += await one_by_one(api, watcher, singles(f"quiet-{turn}", given.binds))
            load = Load(child.port, given.connections, given.rate, tokens)
            try:
                await one_by_one(api, watcher, singles(f"between-{turn}", 10))  # The clients start meanwhile.
                loaded += await one_by_one(api, watcher, singles(f"loaded-{turn}", given.binds))
            finally:
                found = load.end()
            seen.update(found["seen"])
            seconds += found["seconds"]
        await watcher.close()
    finally:
        child.stop()
        await api.close()
    served = sum(count for code, count in seen.items() if code.startswith("2"))
    refused = sum(count for code, count in seen.items() if code in ("429", "503", "cut"))
    p99 = {name: p99_of(taken) for name, taken in (("quiet", quiet), ("loaded", loaded))}
    for name, taken in (("quiet", quiet), ("loaded", loaded)):
        print(f"{name}: {len(taken)} binds, median {statistics.median(taken):.0f} ms, p99 {p99[name]:.0f} ms")
    print(f"responses by status code: {dict(sorted(seen.items()))}")
    return {
        "connections": given.connections,
        "p99_quiet_ms": round(p99["quiet"], 1),
        "p99_loaded_ms": round(p99["loaded"], 1),
        "ratio": round(p99["loaded"] / p99["quiet"], 2),
        "served_per_s": round(served / seconds),
        "refused_per_s": round(refused / seconds),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binds", type=int, default=50, help="binds of each round, without and with clients")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--rate", type=float, default=1_000.0, help="requests per second in total")
    parser.add_argument("--clients", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.clients:
        asyncio.run(clients(**json.loads(given.clients)))
        return
    with RealCluster() as cluster, tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(cluster, given, Path(folder) / "history.db"))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
