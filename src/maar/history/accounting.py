"""Accounting: from what happened to a job to when it waited, ran and ended, and how many GPU seconds it had."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from maar.history.records import Event, EventKind


class Account(msgspec.Struct):
    """One job's life so far. Times are seconds since 1970."""

    namespace: str
    name: str
    uid: str = ""
    category: str = ""
    accelerator: str = ""
    submitted: float | None = None
    first_start: float | None = None
    ended: float | None = None
    how: str = ""
    workers: int = 0
    gpus_per_worker: int = 1
    resizes: int = 0
    suspensions: int = 0
    gpu_seconds: float = 0.0
    last: float = 0.0
    """Until when `gpu_seconds` are counted."""

    @property
    def job(self) -> str:
        """`namespace/name`"""
        return f"{self.namespace}/{self.name}"

    @property
    def state(self) -> str:
        """In a word."""
        if self.ended is not None:
            return self.how or "ended"
        return "running" if self.workers else "waiting"


def accounts(events: Iterable[Event], now: float) -> list[Account]:
    """The lives of all jobs, oldest first; of those that run, up to now."""
    found: dict[tuple[str, str], Account] = {}
    for event in sorted(events, key=lambda e: (e.at, e.id)):
        account = found.setdefault(
            (event.job, event.uid), Account(event.namespace, event.name, event.uid, last=event.at)
        )
        _hear(account, event)
    for account in found.values():
        _count(account, now)
    return list(found.values())


def _hear(account: Account, event: Event) -> None:
    _count(account, event.at)
    if event.attained is not None:
        account.gpu_seconds = event.attained
    account.gpus_per_worker = event.gpus_per_worker
    account.category = event.category or account.category
    account.accelerator = event.accelerator or account.accelerator
    match event.kind:
        case EventKind.SUBMITTED:
            account.submitted = event.at
        case EventKind.STARTED:
            account.first_start = event.at if account.first_start is None else account.first_start
            account.workers = event.after
        case EventKind.RESIZED:
            account.resizes += 1
            account.workers = event.after
        case EventKind.SUSPENDED:
            account.suspensions += 1
            account.workers = 0
        case EventKind.ENDED:
            account.ended, account.how, account.workers = event.at, event.how, 0


def _count(account: Account, until: float) -> None:
    """Add what it has had since it was last counted."""
    account.gpu_seconds += account.workers * account.gpus_per_worker * max(0.0, until - account.last)
    account.last = max(account.last, until)
