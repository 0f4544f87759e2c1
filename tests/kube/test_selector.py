"""The selector gathers while the loop is busy, and looks at once where it was idle."""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections.abc import Iterator

import pytest

from maar.kube.client import gathering as selector
from maar.kube.client.gathering import Gathering, gathering_loop

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that are made; nobody sleeps, but others come meanwhile, as a test says."""
    made: list[float] = []
    monkeypatch.setattr("maar.kube.client.gathering.time.sleep", made.append)
    return made


@pytest.fixture(autouse=True)
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One on which a busy loop takes long from one look to the next."""
    monkeypatch.setattr(selector, "BUSY", 30.0)


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_idle_it_looks_at_once_and_busy_it_gathers(pauses: list[float], pair: Pair) -> None:
    ours, theirs = pair
    with Gathering() as gathering:
        gathering.register(ours, selectors.EVENT_READ)
        theirs.send(b"1")
        assert 1 == len(gathering.select(60.0))
        assert [] == pauses
        assert 1 == len(gathering.select(60.0))
        assert [selector.PAUSE] == pauses
        gathering.select(0)
        assert [selector.PAUSE] == pauses, "there is something else to do"
        ours.recv(1)
        assert [] == gathering.select(0.001)
        assert [selector.PAUSE] == pauses, "nothing is there to be gathered"


def test_what_comes_in_the_pause_is_there_too(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    ours, theirs = pair
    monkeypatch.setattr("maar.kube.client.gathering.time.sleep", lambda _: ours.send(b"later"))
    with Gathering() as gathering:
        gathering.register(ours, selectors.EVENT_READ)
        gathering.register(theirs, selectors.EVENT_READ)
        theirs.send(b"first")
        assert {ours} == {key.fileobj for key, _ in gathering.select(60.0)}
        assert {ours, theirs} == {key.fileobj for key, _ in gathering.select(60.0)}


def test_a_loop_runs_on_it() -> None:
    async def story() -> float:
        begun = time.monotonic()
        await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(5)))
        return time.monotonic() - begun

    with asyncio.Runner(loop_factory=gathering_loop) as runner:
        assert 0.01 <= runner.run(story())
