"""Objects of hostile users: every value is admitted by the API server, and none may touch the jobs of others."""

from __future__ import annotations

import random
from typing import Any

from tests.support.faults.gangs import PODGROUPS
from tests.support.faults.jobs import GROUP
from tests.support.live import GPU, NAMESPACE

DIGITS = "9" * 5000
FUTURE, PAST = "2099-01-01T00:00:00Z", "1970-01-01T00:00:01Z"

Hostile = tuple[str, dict[str, Any]]
"""The resource and the object."""


def pod(name: str, *, notes: dict[str, str] | None = None, request: str = "1", **spec: Any) -> Hostile:
    resources = {"requests": {"cpu": request}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": notes or {}},
        "spec": {
            "schedulerName": "maar",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "train", "resources": resources}],
            **spec,
        },
    }
    return "pods", body


def group(name: str, notes: dict[str, str] | None = None, **spec: Any) -> Hostile:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": notes or {}}
    return PODGROUPS, {**head, "metadata": metadata, "spec": {"minMember": 1, **spec}}


def some(number: int, dice: random.Random) -> list[Hostile]:
    """One kind of attack, with names that no other attack has."""
    name = f"hostile{number}"
    elected = {"maar.dev/elected-since": PAST, "maar.dev/locked-for": f"{NAMESPACE}/{name}"}
    forged = {"maar.dev/elastic": '{"last_resize":4102444800}', "maar.dev/holds": '{"n0":1000}'}
    attacks = [
        [pod(name, request=DIGITS)],
        [group(name, minResources={"cpu": DIGITS, GPU: DIGITS})],
        [group(name, minMember=2**31 - 1), pod(f"{name}-0", notes={GROUP: name})],
        [group(name, queue="no-such-queue"), pod(f"{name}-0", notes={GROUP: name})],
        [group(name, elected, minMember=1000), pod(f"{name}-0", notes={**elected, GROUP: name})],
        [pod(name, notes={**elected, **forged}, request="1000")],
        [pod(name, notes={"maar.dev/max-runtime": "0s", "volcano.sh/preemptable": "maybe"}, request="1000")],
        [pod(name, notes={"volcano.sh/sla-waiting-time": "-1h", "volcano.sh/cooldown-time": DIGITS}, request="1000")],
        [pod(name, notes={"maar.dev/last-checkpoint-time": FUTURE, "maar.dev/min-workers": DIGITS}, request="1000")],
        [pod(name, nodeName="no-such-node", request="1m")],
        [pod(name, request="1m", nodeName="n0")],
    ]
    return dice.choice(attacks)
