"""Simulated kubelets: they run pods without running containers. Nodes can be killed and revived.

The life of a pod:

    bound ──► does it fit? ──no──► Failed (OutOfcpu, ...)
                  │ yes
                  ▼ `start` seconds
               Running ──`maar.dev/pretend-runtime`──► Succeeded, or Failed if so annotated
                  │ deleted
                  ▼ `stop` seconds, never more than its grace
                gone

A killed node stops all of this: its pods do not start, end or go. As in a real cluster, the node is marked unreachable.
Later its pods are deleted, and they stay in Terminating until the node is back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from maar.embedded.objects.api import Api
from maar.embedded.objects.errors import ApiError, Obj
from maar.embedded.objects.kinds import NODES, PODS
from maar.embedded.objects.metadata import now
from maar.embedded.objects.pods import set_condition
from maar.embedded.objects.store import Event, Item, Key
from maar.embedded.parts import lives
from maar.embedded.parts.dirty import Dirty
from maar.kube.read.requests import pod_requests
from maar.kube.wire.pods import Pod
from maar.model.resources import allocatable

RUNTIME = "maar.dev/pretend-runtime"
"""How long a pod runs, in seconds. Without it, the pod never ends."""
STOP = "maar.dev/pretend-stop"
"""How long a deleted pod takes to stop, in seconds, at most its grace period."""

UNREACHABLE = "node.kubernetes.io/unreachable"


@dataclass(slots=True)
class Running:
    """A pod that a kubelet has admitted."""

    key: Key
    node: str
    requests: dict[str, int]
    timer: asyncio.TimerHandle | None = None
    stopping: bool = False


Room = Counter[str]
"""The resources in use on a node."""


class Kubelets:
    """A kubelet for every node."""

    def __init__(
        self, *, start: float = 0.2, stop: float = 0.1, evict_after: float = 2.0, forget_after: float | None = None
    ) -> None:
        """`start` and `stop`: seconds until a pod runs, and until a deleted pod is gone.

        `evict_after`: seconds until the pods of a dead node are deleted (300 in a real cluster).
        `forget_after`: seconds after that until they are removed by force; never by default, as in a real cluster.
        """
        self.start, self.stop = start, stop
        self.evict_after, self.forget_after = evict_after, forget_after
        self.rooms: dict[str, Room] = {}
        self.pods: dict[str, Running] = {}
        """Admitted pods by uid."""
        self.dead: set[str] = set()
        self._timers: dict[str, list[asyncio.TimerHandle]] = {}
        """Pending actions on the pods of a dead node."""
        self._dirty_pods: Dirty[Key] = Dirty(self._look)
        self._dirty_nodes: Dirty[str] = Dirty(self._look_at_node)

    def open(self, api: Api) -> None:
        """Take over all nodes and pods, and start listening."""
        self.api = api
        api.store.table(PODS).listeners.append(self._listen)
        api.store.table(NODES).listeners.append(self._listen_to_nodes)
        for key in api.store.table(NODES).items:
            self.rooms[key[1]] = Room()
            self._dirty_nodes.add(key[1])
        for key in api.store.table(PODS).items:
            self._dirty_pods.add(key)

    def close(self) -> None:
        self.api.store.table(PODS).listeners.remove(self._listen)
        self.api.store.table(NODES).listeners.remove(self._listen_to_nodes)
        self._dirty_pods.close()
        self._dirty_nodes.close()
        for running in self.pods.values():
            _cancel(running)
        for node in tuple(self._timers):
            self._cancel_node(node)

    def kill(self, node: str) -> None:
        self.dead.add(node)
        for running in self._on(node):
            _cancel(running)
        self._mark(node, "Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        for running in self._on(node):
            self._status(running.key, lives.unreachable)
        self._later(node, self.evict_after, self._evict)

    def revive(self, node: str) -> None:
        """Bring a dead node back. Pods deleted in the meantime go; the others continue to run."""
        self.dead.discard(node)
        self._cancel_node(node)
        self._mark(node, "True", "KubeletReady", "kubelet is posting ready status")
        for running in self._on(node):
            running.stopping = False
            self._dirty_pods.add(running.key)
        for item in self._bound_to(node):
            self._dirty_pods.add(_key(item.obj))

    def _on(self, node: str) -> list[Running]:
        return [running for running in self.pods.values() if running.node == node]

    def _bound_to(self, node: str) -> list[Item]:
        return [item for item in self.api.objects(PODS) if item.obj["spec"].get("nodeName") == node]

    def _mark(self, node: str, ready: str, reason: str, message: str) -> None:
        """Set the Ready condition of a node, and the taints that follow from it."""

        def marked(obj: Obj) -> Obj:
            set_condition(obj["status"], "Ready", ready, reason, message)
            return obj

        def tainted(obj: Obj) -> Obj:
            spec = obj.setdefault("spec", {})
            taints = [taint for taint in spec.get("taints") or [] if taint["key"] != UNREACHABLE]
            if ready != "True":
                times = {"timeAdded": now()}
                taints += [{"key": UNREACHABLE, "effect": "NoSchedule", **times}]
                taints += [{"key": UNREACHABLE, "effect": "NoExecute", **times}]
            spec["taints"] = taints
            if not taints:
                del spec["taints"]
            return obj

        self.api.change(NODES, "", node, marked, part="status")
        self.api.change(NODES, "", node, tainted)

    def _later(self, node: str, seconds: float, do: Callable[[str], None]) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, do, node)
        self._timers.setdefault(node, []).append(timer)

    def _cancel_node(self, node: str) -> None:
        for timer in self._timers.pop(node, []):
            timer.cancel()

    def _evict(self, node: str) -> None:
        """Delete the pods of a dead node, except pods that tolerate it without a time limit."""
        for item in self._bound_to(node):
            if not lives.stays(item.obj, UNREACHABLE) and item.obj["status"].get("phase") not in lives.FINISHED:
                self._status(_key(item.obj), lives.doomed)
                self._delete(_key(item.obj), {})
        if self.forget_after is not None:
            self._later(node, self.forget_after, self._forget)

    def _forget(self, node: str) -> None:
        for item in self._bound_to(node):
            if item.obj["metadata"].get("deletionTimestamp"):
                self._delete(_key(item.obj), {"gracePeriodSeconds": 0})

    def _delete(self, key: Key, options: Obj) -> None:
        with suppress(ApiError):  # already gone
            self.api.delete(PODS, *key, options)

    def _listen(self, event: Event) -> None:
        if event.item.obj["spec"].get("nodeName"):
            self._dirty_pods.add(event.key)
            if event.type == "DELETED":
                self._release(event.item.obj["metadata"]["uid"])

    def _listen_to_nodes(self, event: Event) -> None:
        self._dirty_nodes.add(event.key[1])

    def _look_at_node(self, node: str) -> None:
        """Mark a new node as ready. Remove the pods of a deleted node."""
        item = self.api.store.table(NODES).items.get(("", node))
        if item is None:
            self._cancel_node(node)
            self.dead.discard(node)
            for pod in self._bound_to(node):
                self._delete(_key(pod.obj), {"gracePeriodSeconds": 0})
        elif not any(c["type"] == "Ready" for c in item.obj["status"].get("conditions") or []):
            self._mark(node, "True", "KubeletReady", "kubelet is posting ready status")
        if item is not None:
            for pod in self._bound_to(node) if node not in self.rooms else []:
                self._dirty_pods.add(_key(pod.obj))
            self.rooms.setdefault(node, Room())

    def _release(self, uid: str) -> None:
        running = self.pods.pop(uid, None)
        if running is not None:
            _cancel(running)
            self.rooms[running.node].subtract(running.requests)

    def _look(self, key: Key) -> None:
        """Take the next step in the life of one pod."""
        item = self.api.store.table(PODS).items.get(key)
        node = item.obj["spec"].get("nodeName", "") if item else ""
        if item is None or node in self.dead or ("", node) not in self.api.store.table(NODES).items:
            return
        pod, uid = item.obj, item.obj["metadata"]["uid"]
        if pod["status"].get("phase") in lives.FINISHED:
            self._release(uid)
            return
        if pod["metadata"].get("deletionTimestamp"):
            self._stop(pod, self.pods.get(uid) or Running(key, node, {}))
            return
        running = self.pods.get(uid) or self._take(item, node)
        if running is None or running.timer is not None:
            return
        loop = asyncio.get_running_loop()
        if pod["status"].get("phase") == "Pending":
            running.timer = loop.call_later(self.start, self._run, uid)
        elif (seconds := _annotated(pod, RUNTIME)) is not None:
            running.timer = loop.call_later(seconds, self._finish, uid)

    def _take(self, item: Item, node: str) -> Running | None:
        """Admit a pod if it fits on the node; otherwise mark it as failed."""
        key = _key(item.obj)
        room = self.rooms.setdefault(node, Room())
        try:
            requests = dict(pod_requests(msgspec.convert(item.obj, Pod)))
        except ValueError as error:  # valid for the API server, but not for Maar
            self._status(key, partial(lives.rejected, reason="UnexpectedAdmissionError", message=str(error)))
            return None
        capacity = self.api.store.table(NODES).items["", node].obj["status"]
        offered = allocatable(capacity.get("allocatable") or capacity.get("capacity") or {})
        if short := _short_of(room, requests, offered):
            counts = f"requested: {requests[short]}, used: {room[short]}, capacity: {offered.get(short, 0)}"
            why = f"Node didn't have enough resource: {short}, {counts}"
            self._status(key, partial(lives.rejected, reason=f"OutOf{short}", message=why))
            return None
        room.update(requests)
        running = self.pods[item.obj["metadata"]["uid"]] = Running(key, node, requests)
        return running

    def _run(self, uid: str) -> None:
        running = self.pods[uid]
        running.timer = None
        self._status(running.key, lives.running)

    def _finish(self, uid: str) -> None:
        running = self.pods[uid]
        running.timer = None
        self._status(running.key, lives.finished)

    def _stop(self, pod: Obj, running: Running) -> None:
        if running.stopping:
            return
        _cancel(running)
        running.stopping = True
        self.pods.setdefault(pod["metadata"]["uid"], running)
        self.rooms.setdefault(running.node, Room())
        wanted = _annotated(pod, STOP)
        grace = pod["metadata"].get("deletionGracePeriodSeconds") or 0
        seconds = min(self.stop if wanted is None else wanted, grace)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        running.timer = asyncio.get_running_loop().call_later(seconds, self._delete, running.key, options)

    def _status(self, key: Key, change: Callable[[Obj], None]) -> None:
        """Write the status of a pod that exists and has not ended."""

        def changed(pod: Obj) -> Obj | None:
            if pod["status"].get("phase") in lives.FINISHED:
                return None
            change(pod)
            return pod

        with suppress(ApiError):  # already gone
            self.api.change(PODS, *key, changed, part="status")


def _key(pod: Obj) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _cancel(running: Running) -> None:
    if running.timer is not None:
        running.timer.cancel()
        running.timer = None


def _short_of(room: Room, requests: Mapping[str, int], capacity: Mapping[str, int]) -> str:
    """The first resource that is short; empty if all fit."""
    order = sorted(requests, key=lambda name: (name != "pods", name))
    return next((name for name in order if room[name] + requests[name] > capacity.get(name, 0)), "")


def _annotated(pod: Obj, name: str) -> float | None:
    """Seconds from an annotation; `None` if it is missing or not a number."""
    text = (pod["metadata"].get("annotations") or {}).get(name)
    try:
        return None if text is None else max(float(text), 0.0)
    except ValueError:
        return None
