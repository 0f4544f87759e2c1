"""The memo: values valid for the session, and values valid until the state changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from maar.model.reasons import Reason
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node


@pytest.fixture
def session(opened: Callable[..., Session]) -> Session:
    return opened(cluster(node("n1", gpu=4), gang("a", gpu=1)))


def bind(session: Session) -> None:
    session.state.bind(0, 0, np.array([0]), np.array([0]), np.array([1]))


def used(session: Session) -> list[int]:
    return session.memo.current("test", "used", lambda: session.state.used[0].tolist())


def test_what_is_fixed_is_made_once_for_each_owner_and_key(session: Session) -> None:
    made: list[str] = []

    def fixed(owner: str, key: str) -> str:
        def make() -> str:
            made.append(owner + key)
            return owner + key

        return session.memo.fixed(owner, key, make)

    assert ["xa", "xb", "ya", "xa"] == [fixed("x", "a"), fixed("x", "b"), fixed("y", "a"), fixed("x", "a")]
    bind(session)
    assert "xa" == fixed("x", "a")
    assert ["xa", "xb", "ya"] == made


def test_what_is_current_follows_changes_rollbacks_and_commits(session: Session) -> None:
    before = used(session)
    with session.statement():
        bind(session)
        during = used(session)
        assert before != during
    assert before == used(session)
    with session.statement() as statement:
        bind(session)
        statement.commit()
    assert during == used(session)


def test_what_is_current_is_made_once_while_nothing_changes(session: Session) -> None:
    made: list[int] = []
    for _ in range(3):
        session.memo.current("test", 1, lambda: made.append(1))
    assert [1] == made
    assert session.state.version == session.state.version
    bind(session)
    session.memo.current("test", 1, lambda: made.append(2))
    assert [1, 2] == made


def test_what_was_current_before_a_rolled_back_attempt_is_known_after_it(session: Session) -> None:
    made: list[int] = []
    for _ in range(3):
        session.memo.current("test", 1, lambda: made.append(1))
        with session.statement():
            bind(session)
    assert [1] == made


def test_no_version_is_given_to_two_states(session: Session) -> None:
    with session.statement():
        bind(session)
        bound = used(session)
    with session.statement():
        session.state.bind(0, 0, np.array([0]), np.array([0]), np.array([1]))
        session.state.evict(0)
        evicted = session.memo.current("test", "status", lambda: session.state.status.tolist())
    with session.statement():
        bind(session)
        session.state.soften(soft=not session.state.soft)
        assert evicted != session.memo.current("test", "status", lambda: session.state.status.tolist())
        assert bound == used(session)


def test_a_note_changes_nothing_that_is_current(session: Session) -> None:
    made: list[int] = []
    for _ in range(2):
        session.memo.current("test", 1, lambda: made.append(1))
        session.note(session.job(0), Reason("test", "Waits", "waits"))
    assert [1] == made
