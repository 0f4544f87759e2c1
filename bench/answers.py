"""Measures what `maar why` and `maar when` cost: `make bench-answers`.

The cluster of `bench.backlog`, full and with a long backlog, is on an embedded API server in a process of its own.
Pods are as large as those of a real cluster, with managed fields, and all jobs declare how long they run. Each command
is a process. It is asked about three jobs: near the beginning, the middle and the end of the backlog; the worst counts.

- *alone*: the command reads the cluster from the API server and decides by itself. Its CPU time counts.
- *web*: the command asks a running `maar web` (`--server`). The CPU time of `maar web` and its workers counts, without
  the process that makes forecasts all the time, and the time that passes is printed. The second question about the
  same moment, by another user, is told apart from the first one.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.support.patience import wait_until

from bench import backlog, processes
from bench.size import family
from bench.web import CRDS
from maar.embedded.objects.kinds import NODES, PODS, PRIORITY_CLASSES, Kind
from maar.embedded.server import EmbeddedServer
from maar.model.jobs import Job
from maar.model.tasks import Task
from maar.testing.builders import GPU, NAMESPACE

SIZES = ((600, 1_300), (5_000, 5_000))
"""Nodes and waiting gangs."""
BARS = {(600, "alone"): 3.0, (600, "web"): 1.0, (5_000, "alone"): 10.0, (5_000, "web"): 2.0}
"""CPU seconds by nodes and way."""
COMMANDS = ("why", "when")
ASKED = (0.1, 0.5, 0.9)
"""The places of the jobs in the backlog that are asked about."""
DAY = 86400.0
EDITED = ("spec", "containers", "image", "resources", "limits", "requests", "env", "name", "value", "schedulerName")
CLASSES = {10: "low", 100: "middle", 1000: "high"}
SAMPLED = 0.02
"""Seconds between two looks at the processes of `maar web`."""


# -- the API server


def serve(folder: Path, nodes: int, jobs: int) -> None:
    """Run an API server with the cluster until its input ends."""
    server = EmbeddedServer(bare=True).start()
    try:
        server.call(fill, server, nodes, jobs)
        server.kubeconfig(folder / "kubeconfig.new").rename(folder / "kubeconfig")
        sys.stdin.read()
    finally:
        server.stop()


def fill(server: EmbeddedServer, nodes: int, jobs: int) -> None:
    """The scene as objects. Pods are written past the checks, which would remove their managed fields."""
    api, scene, dice = server.api, backlog.scene(nodes, jobs, differ=True, seed=0), random.Random(0)
    for file in sorted(CRDS.glob("*.yaml")):
        for crd in yaml.safe_load_all(file.read_text()):
            api.create(api.kind("apiextensions.k8s.io", "v1", "customresourcedefinitions"), "", crd)
    groups, queues = (api.kind("scheduling.volcano.sh", "v1beta1", plural) for plural in ("podgroups", "queues"))
    api.create(api.kind("", "v1", "namespaces"), "", {"metadata": {"name": NAMESPACE}})
    for value, name in CLASSES.items():
        api.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
    for queue in scene.queues:
        api.create(queues, "", {"metadata": {"name": queue.name}, "spec": {"weight": queue.weight}})
    for i, node in enumerate(scene.nodes):
        has = {"cpu": "96", "memory": "768Gi", "pods": "110", GPU: "8"}
        labels = {"kubernetes.io/hostname": node.name, "topology.kubernetes.io/rack": f"r{i // 32}"}
        status = {"allocatable": has, "capacity": has, "conditions": [{"type": "Ready", "status": "True"}]}
        api.create(NODES, "", {"metadata": {"name": node.name, "labels": labels}, "status": status})
    by_job: dict[str, list[Task]] = {}
    for task in scene.tasks:
        by_job.setdefault(task.job, []).append(task)
    for job in scene.jobs:
        made = _Made(job, f"{dice.randint(1, 48)}h")
        api.create(groups, NAMESPACE, made.group)
        for number, task in enumerate(by_job[job.key]):
            _put(server, PODS, made.pod(number, task))


def _put(server: EmbeddedServer, kind: Kind, obj: dict[str, Any]) -> None:
    server.api.store.write(kind, (obj["metadata"]["namespace"], obj["metadata"]["name"]), obj)


class _Made:
    """One gang as objects. What its pods share is one object."""

    def __init__(self, job: Job, limit: str) -> None:
        self._name = job.key.partition("/")[2]
        self._job = job
        self._notes = {"scheduling.k8s.io/group-name": self._name, "maar.dev/max-runtime": limit}
        self._spec: dict[str, Any] = {}
        at = time.time() - (2 * DAY if self._name.startswith("runs") else DAY) + job.created
        self._at = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def group(self) -> dict[str, Any]:
        spec = {"minMember": self._job.min_member, "queue": self._job.queue}
        spec["priorityClassName"] = CLASSES[self._job.priority]
        phase = "Running" if self._name.startswith("runs") else "Inqueue"
        metadata = {"name": self._name, "annotations": {"maar.dev/max-runtime": self._notes["maar.dev/max-runtime"]}}
        return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}

    def pod(self, number: int, task: Task) -> dict[str, Any]:
        amounts = dict(task.shape.requests)
        requests = {
            "cpu": str(amounts["cpu"] // 1000),
            "memory": f"{amounts['memory'] >> 30}Gi",
            GPU: str(amounts[GPU]),
        }
        name = f"{self._name}-{number}"
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"5f0c1a52-7d8e-4c7b-9d5e-{hash(name) & 0xFFFFFFFFFFFF:012x}",
            "creationTimestamp": self._at,
            "labels": {"app": "train", "job": self._name, "index": str(number)},
            "annotations": self._notes,
            "managedFields": _managed(self._at),
        }
        self._spec = self._spec or _spec(requests, CLASSES[self._job.priority], self._job.priority)
        bound = {"nodeName": task.node} if task.node else {}
        return {"metadata": metadata, "spec": {**self._spec, **bound}, "status": _status(bool(bound), self._at)}


def _managed(at: str) -> list[dict[str, Any]]:
    """About as much as kubectl, a controller and a kubelet leave on a pod."""
    fields: dict[str, Any] = {f"f:{name}": {} for name in EDITED}
    nested = {"f:metadata": {"f:labels": {"f:app": {}, "f:job": {}}}, "f:spec": {'k:{"name":"main"}': fields, **fields}}
    entry = {"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": nested, "operation": "Update", "time": at}
    return [{**entry, "manager": name} for name in ("kube-controller-manager", "kubelet")]


def _spec(requests: dict[str, str], priority_class: str, priority: int) -> dict[str, Any]:
    mount = {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:2026-10-31",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml"],
        "env": [{"name": f"TRAIN_OPTION_{i}", "value": f"value-of-option-{i}"} for i in range(8)],
        "resources": {"limits": requests, "requests": requests},
        "terminationMessagePath": "/dev/termination-log",
        "volumeMounts": [mount],
    }
    source = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    ready = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}
    return {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": priority,
        "priorityClassName": priority_class,
        "restartPolicy": "Never",
        "schedulerName": "maar",
        "securityContext": {},
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [{"key": f"node.kubernetes.io/{key}", **ready} for key in ("not-ready", "unreachable")],
        "volumes": [{"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [source]}}],
    }


def _status(runs: bool, at: str) -> dict[str, Any]:
    condition = {"lastProbeTime": None, "lastTransitionTime": at, "status": "True"}
    if not runs:
        why = "0/600 nodes fit: 600 short of nvidia.com/gpu (needs 4, best has 0 free)"
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
        return {"phase": "Pending", "qosClass": "Guaranteed", "conditions": [{**condition, **waits}]}
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    state = {"name": "main", "ready": True, "restartCount": 0, "started": True, "state": {"running": {"startedAt": at}}}
    conditions = [{**condition, "type": kind} for kind in types]
    return {"phase": "Running", "startTime": at, "conditions": conditions, "containerStatuses": [state]}


# -- the questions


class Cost(NamedTuple):
    """What one question took."""

    cpu: float
    """Of the command and what it starts."""
    passed: float
    answer: dict[str, Any]


def question(command: str, job: str, kubeconfig: Path, *more: str) -> Cost:
    """Run a command, and read its answer."""
    asked = [sys.executable, "-m", "maar.cli.main", command, job, "-o", "json", "--kubeconfig", str(kubeconfig), *more]
    begun = time.monotonic()
    with subprocess.Popen(
        asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=processes.ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert 0 == process.returncode, text
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - begun, json.loads(text))


class Meter:
    """CPU seconds of a process and all that it starts, also of what ends meanwhile, without the one for forecasts."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Meter:
        self._seen = self._now()
        self._before = dict(self._seen)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._seen |= self._now()

    @property
    def seconds(self) -> float:
        return sum(seconds - self._before.get(pid, 0.0) for pid, seconds in self._seen.items())

    def _look(self) -> None:
        while not self._ended.wait(SAMPLED):
            self._seen |= self._now()

    def _now(self) -> dict[int, float]:
        found = {}
        for pid in _family(self._pid):
            try:
                if b"maar.web.forecasting" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    found[pid] = sum(map(int, fields[11:13])) / processes.TICKS
            except OSError:
                continue  # it has just ended
        return found


def _family(pid: int) -> list[int]:
    try:
        return family(pid)
    except OSError:
        return [pid]  # a child has just ended


def rests(pid: int) -> bool:
    """Whether the process and what it starts use almost no CPU for a second."""
    with Meter(pid) as meter:
        time.sleep(1.0)
    return meter.seconds < 0.05


def measure(nodes: int, jobs: int, commands: list[str], ways: list[str]) -> list[dict[str, Any]]:
    names = [f"{NAMESPACE}/waits-{int(jobs * place):05}" for place in ASKED]
    rows = []
    with processes.cluster("bench.answers", nodes=nodes, jobs=jobs) as kubeconfig:
        for command in commands if "alone" in ways else ():
            costs = [question(command, name, kubeconfig) for name in names]
            for name, cost in zip(names, costs, strict=True):
                _say(nodes, jobs, command, "alone", name, cost.cpu, cost)
            rows.append(_row(nodes, jobs, command, "alone", [(cost.cpu, cost.passed) for cost in costs]))
        if "web" in ways:
            with processes.web(kubeconfig) as (pid, address):
                wait_until(lambda: rests(pid), "maar web rests", processes.PATIENCE)
                for command in commands:
                    found = []
                    for name in names:
                        with Meter(pid) as meter:
                            cost = question(command, name, kubeconfig, "--server", address)
                        _say(nodes, jobs, command, "web", name, meter.seconds, cost)
                        found.append((meter.seconds, cost.passed))
                    rows.append(_row(nodes, jobs, command, "web", found))
    return rows


def _say(nodes: int, jobs: int, command: str, way: str, job: str, seconds: float, cost: Cost) -> None:
    detail = cost.answer["detail"]
    said = f"p50 {detail['forecast'].get('startP50')}, {detail['forecast']['words']}"
    if command == "why":
        found, end = detail["unblock"], "" if detail["unblock"]["complete"] else ", ended early"
        kinds = " ".join(change["kind"] for change in found["changes"])
        said = f"{found['decisions']} decisions, changes: {kinds or 'none'}{end}"
    what = f"{nodes:>6,} nodes, {jobs:>6,} waiting gangs, {command:<4} {way:<5} {job}"
    print(f"{what}: {seconds:6.2f} CPU s, {cost.passed:6.2f} s passed; {said}", flush=True)


def _row(nodes: int, jobs: int, command: str, way: str, costs: list[tuple[float, float]]) -> dict[str, Any]:
    cpu, passed = (max(column) for column in zip(*costs, strict=True))
    bar = BARS.get((nodes, way))
    row = {"nodes": nodes, "jobs": jobs, "command": command, "way": way, "cpu": round(cpu, 2)}
    return {**row, "passed": round(passed, 2), "bar": bar, "ok": None if bar is None else cpu <= bar}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, help="only a cluster with this many nodes")
    parser.add_argument("--jobs", type=int, help="how many gangs wait there")
    parser.add_argument("--commands", nargs="*", choices=COMMANDS, default=COMMANDS)
    parser.add_argument("--ways", nargs="*", choices=("alone", "web"), default=("alone", "web"))
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve, given.nodes, given.jobs)
        return
    sizes = [size for size in SIZES if given.nodes in (None, size[0])] or [(given.nodes, given.jobs)]
    rows = []
    for nodes, jobs in sizes:
        rows += measure(nodes, given.jobs or jobs, given.commands, given.ways)
    print(json.dumps({"answers": rows}))


if __name__ == "__main__":
    main()
