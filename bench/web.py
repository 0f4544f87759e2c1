"""Measures `maar web` on a large cluster: `make bench-web`.

An embedded API server in a process of its own has 5,000 nodes with 8 GPUs and 50,000 pods in gangs of 8, most of them
running. `maar web` reads them, decides, and answers. Its memory is the highest that the kernel counted (VmHWM), after
all answers. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from bench import processes
from maar.embedded.objects.kinds import NODES, PODS
from maar.embedded.server import EmbeddedServer

LIMIT_MB = 500
"""The bar for memory, in MB of 1024 * 1024 bytes."""
GANG = 8
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.nodes, options.pods)
        return
    with processes.cluster("bench.web", nodes=options.nodes, pods=options.pods) as kubeconfig:
        measure(kubeconfig, options.pods)


def measure(kubeconfig: Path, pods: int) -> None:
    begun = time.perf_counter()
    with processes.web(kubeconfig) as (pid, base):
        ready = time.perf_counter() - begun
        after = processes.memory_mb(pid)
        print(f"ready after {ready:.1f} s with {after:.0f} MB")
        seconds: dict[str, float] = {}
        waiting = f"jobs/default/train-{pods // GANG - 1:05}"
        for path in (*PATHS, f"{waiting}?unblock=false"):
            status, size, took = processes.ask(f"{base}/api/v1/{path}")
            assert 200 == status, (path, status)
            seconds[path] = round(took, 3)
            print(f"{path:36} {took:7.3f} s {size:10,d} bytes")
        most = processes.memory_mb(pid)
        result = {
            "memory_mb": round(most),
            "resident_mb": round(processes.memory_mb(pid, "VmRSS")),
            "ready_s": round(ready, 1),
            "seconds": seconds,
            "ok": most < LIMIT_MB,
        }
        print(json.dumps(result))


if __name__ == "__main__":
    main()
