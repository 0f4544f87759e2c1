"""A fence: a write that surely moves the version of an object, so that no request for an earlier version succeeds.

It settles a request without an answer, and at a take-over everything that the predecessor announced. A read would prove
nothing about a request that is still on its way. On pods it is a condition in the status, on other objects an
annotation. Both contain the epoch and the time, so that every fence changes something.

A server may refuse one form and accept another: a policy protects the status, or an owner has filled the 256 kB that
the annotations of an object may have. Then the next form is tried.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from maar.kube.client.api import Api, PatchKind
from maar.kube.client.errors import Forbidden, Invalid, NotFound
from maar.kube.wire.annotations import FENCED

CONDITION = "maar.dev/Fenced"
REFUSED = (Forbidden, Invalid)
"""Errors that mean: the server does not accept this form of a fence."""


def is_pod(path: str) -> bool:
    """Whether a path is that of a pod."""
    return path.startswith("/api/v1/namespaces/") and path.rpartition("/")[0].endswith("/pods")


async def fence(api: Api, path: str, epoch: int) -> bytes | None:
    """Move the version of an object; returns the object after that, `None` if no object has this path."""
    refused = None
    for where, body, kind in _forms(path, epoch, datetime.now(UTC)):
        try:
            return await api.patch(where, body, kind)
        except NotFound:
            return None
        except REFUSED as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _forms(path: str, epoch: int, time: datetime) -> list[tuple[str, dict[str, Any], PatchKind]]:
    now = time.isoformat(timespec="microseconds").replace("+00:00", "Z")
    text = f"epoch {epoch}, {now}"
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": "Settled",
        "message": text,
        "lastTransitionTime": f"{now[:19]}Z",
    }
    status: dict[str, Any] = {"status": {"conditions": [condition]}}
    label = f"{epoch}-{round(time.timestamp() * 1e6)}"
    forms: list[tuple[str, dict[str, Any], PatchKind]] = [
        (path, {"metadata": {"annotations": {FENCED: text}}}, "merge"),
        (path, {"metadata": {"labels": {FENCED: label}}}, "merge"),
    ]
    return [(f"{path}/status", status, "strategic"), *forms] if is_pod(path) else forms
