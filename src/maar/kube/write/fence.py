"""A fence: a write that surely moves the version of an object, so that no request for an earlier version succeeds.

It settles a request without an answer, and at a take-over everything that the predecessor announced. A read would prove
nothing about a request that is still on its way. On pods it is a condition in the status, on other objects an
annotation. Both contain the epoch and the time, so that every fence changes something.
"""

from __future__ import annotations

from datetime import UTC, datetime

from maar.kube.client.api import Api
from maar.kube.client.errors import NotFound
from maar.kube.wire.annotations import FENCED

CONDITION = "maar.dev/Fenced"


def is_pod(path: str) -> bool:
    """Whether a path is that of a pod."""
    return path.startswith("/api/v1/namespaces/") and path.rpartition("/")[0].endswith("/pods")


async def fence(api: Api, path: str, epoch: int) -> bytes | None:
    """Move the version of an object; returns the object after that, `None` if no object has this path."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    text = f"epoch {epoch}, {now}"
    try:
        if not is_pod(path):
            return await api.patch(path, {"metadata": {"annotations": {FENCED: text}}})
        condition = {
            "type": CONDITION,
            "status": "True",
            "reason": "Settled",
            "message": text,
            "lastTransitionTime": f"{now[:19]}Z",
        }
        return await api.patch(f"{path}/status", {"status": {"conditions": [condition]}}, "strategic")
    except NotFound:
        return None
