"""Measures `maar web` on a large cluster: `make bench-web`.

An embedded API server in a process of its own has 5,000 nodes with 8 GPUs and 50,000 pods in gangs of 8, most of them
running. `maar web` reads them, decides, and answers. Its memory is the highest that the kernel counted (VmHWM), after
all answers. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from bench.processes import memory_mb
from maar.embedded.objects.kinds import NODES, PODS
from maar.embedded.server import EmbeddedServer

LIMIT_MB = 500
"""The bar for memory, in MB of 1024 * 1024 bytes."""
GANG = 8
PATIENCE = 600.0
CRDS = Path(__file__).parents[1] / "deploy" / "crds"
PATHS = ("cluster", "queues", "nodes?limit=5000", "jobs?limit=500", "jobs?state=waiting", "decisions")


def serve(folder: Path, nodes: int, pods: int) -> None:
    """Run an API server with this many objects until its input ends."""
    server = EmbeddedServer(bare=True).start()
    try:
        server.call(fill, server, nodes, pods)
        server.kubeconfig(folder / "kubeconfig.new").rename(folder / "kubeconfig")
        sys.stdin.read()
    finally:
        server.stop()


def fill(server: EmbeddedServer, nodes: int, pods: int) -> None:
    for file in sorted(CRDS.glob("*.yaml")):
        for crd in yaml.safe_load_all(file.read_text()):
            server.api.create(server.api.kind("apiextensions.k8s.io", "v1", "customresourcedefinitions"), "", crd)
    groups = server.api.kind("scheduling.volcano.sh", "v1beta1", "podgroups")
    has = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    for i in range(nodes):
        labels = {"topology.kubernetes.io/rack": f"r{i // 32}", "kubernetes.io/hostname": f"node-{i:05}"}
        status = {"allocatable": has, "capacity": has, "conditions": [{"type": "Ready", "status": "True"}]}
        server.api.create(NODES, "", {"metadata": {"name": f"node-{i:05}", "labels": labels}, "status": status})
    room = nodes * 8
    for gang in range(pods // GANG):
        name = f"train-{gang:05}"
        group = {"metadata": {"name": name}, "spec": {"minMember": GANG}, "status": {"phase": "Running"}}
        server.api.create(groups, "default", group)
        for i in range(GANG):
            number = gang * GANG + i
            resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "4", "memory": "32Gi"}}
            container = {"name": "c", "image": "registry.example/train:1", "resources": resources}
            spec: dict[str, Any] = {"schedulerName": "maar", "containers": [container]}
            if number < room:
                spec["nodeName"] = f"node-{number // 8:05}"
            metadata = {"name": f"{name}-{i}", "annotations": {"scheduling.k8s.io/group-name": name}}
            server.api.create(PODS, "default", {"metadata": metadata, "spec": spec})


def ask(url: str) -> tuple[int, int, float]:
    """Status, bytes and seconds of an answer."""
    begun = time.perf_counter()
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, len(answer.read()), time.perf_counter() - begun
    except urllib.error.HTTPError as error:
        with error:
            return error.code, 0, 0.0
    except OSError:
        return 0, 0, 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.nodes, options.pods)
        return
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), options.nodes, options.pods)


def measure(folder: Path, nodes: int, pods: int) -> None:
    sizes = ["--nodes", str(nodes), "--pods", str(pods)]
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.web", "--serve", str(folder), *sizes], stdin=subprocess.PIPE
    )
    log, web = folder / "log", None
    try:
        while not (folder / "kubeconfig").exists():
            assert server.poll() is None
            time.sleep(0.1)
        begun = time.perf_counter()
        command = [sys.executable, "-m", "maar.cli.main", "web", "--port", "0", "--history", "none", "--anonymous"]
        with log.open("w") as out:
            web = subprocess.Popen([*command, "--kubeconfig", str(folder / "kubeconfig")], stderr=out)
        while not (found := re.search(r"serving at (http://\S+)/\n", log.read_text())):
            assert web.poll() is None, log.read_text()
            time.sleep(0.1)
        base = found[1]
        while ask(f"{base}/readyz")[0] != 200:
            assert web.poll() is None, log.read_text()
            time.sleep(0.2)
        ready = time.perf_counter() - begun
        after = memory_mb(web.pid)
        print(f"ready after {ready:.1f} s with {after:.0f} MB")
        seconds: dict[str, float] = {}
        waiting = f"jobs/default/train-{pods // GANG - 1:05}"
        for path in (*PATHS, f"{waiting}?unblock=false"):
            status, size, took = ask(f"{base}/api/v1/{path}")
            assert 200 == status, (path, status)
            seconds[path] = round(took, 3)
            print(f"{path:36} {took:7.3f} s {size:10,d} bytes")
        most = memory_mb(web.pid)
        result = {
            "memory_mb": round(most),
            "resident_mb": round(memory_mb(web.pid, "VmRSS")),
            "ready_s": round(ready, 1),
            "seconds": seconds,
            "ok": most < LIMIT_MB,
        }
        print(json.dumps(result))
    finally:
        for process in (web, server):
            if process is not None:
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
