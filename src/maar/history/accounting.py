"""Accounting: computes from the events of a job when it waited, ran and ended, and how many GPU seconds it used."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from maar.history.records import Event, EventKind


class Account(msgspec.Struct):
    """One job so far. Times are seconds since 1970."""

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
    evictions: int = 0
    waited: float = 0.0
    """Seconds without workers, from its submission to its end."""
    gpu_seconds: float = 0.0
    last: float = 0.0
    """The time until which `gpu_seconds` is counted."""

    @property
    def job(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def state(self) -> str:
        if self.ended is not None:
            return self.how or "ended"
        return "running" if self.workers else "waiting"


def accounts(events: Iterable[Event], now: float) -> list[Account]:
    """The accounts of all jobs, oldest first; running jobs are counted up to now."""
    found: dict[tuple[str, str], Account] = {}
    for event in sorted(events, key=lambda e: (e.at, e.id)):
        account = found.setdefault(
            (event.job, event.uid), Account(event.namespace, event.name, event.uid, last=event.at)
        )
        _apply(account, event)
    for account in found.values():
        _count(account, now)
    return list(found.values())


def _apply(account: Account, event: Event) -> None:
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
            account.ended, account.how = None, ""
        case EventKind.RESIZED:
            account.resizes += 1
            account.workers = event.after
        case EventKind.SUSPENDED:
            account.suspensions += 1
            account.workers = 0
        case EventKind.EVICTED:
            account.evictions += 1
            account.workers = 0
        case EventKind.STOPPED:
            account.workers = 0
        case EventKind.ENDED:
            account.ended, account.how, account.workers = event.at, event.how, 0


def _count(account: Account, until: float) -> None:
    """Add the GPU seconds and the waiting time since the last count."""
    if account.submitted is not None and account.ended is None and not account.workers:
        account.waited += max(0.0, until - account.last)
    account.gpu_seconds += account.workers * account.gpus_per_worker * max(0.0, until - account.last)
    account.last = max(account.last, until)
