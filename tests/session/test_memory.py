"""What a session remembers: undone with statements, and only of what exists."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from maar.model.facts import About
from maar.session.memory import Moment, Remember, Remembered, later
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node

AT = Remember("at", About.JOB, Moment, later)
ALL = Remember("all", About.CLUSTER, Moment, later)


def test_it_is_undone_with_its_statement(opened: Callable[..., Session]) -> None:
    found: list[Remembered[Moment]] = []

    def plugin(session: Session, on: Register) -> None:
        found.append(on.remember(AT))

    session = opened(cluster(node("n1"), gang("a", uid="uid-a"), gang("b")), [plugin], now=5.0)
    (at,) = found
    with session.statement() as statement:
        at.set(Moment(1.0), "ns/a")
        statement.commit()
    with session.statement():
        at.set(Moment(2.0), "ns/a")
        at.set(Moment(2.0), "ns/b")
        at.forget("ns/a")
    assert [("ns/a", Moment(1.0))] == at.items()
    (fact,) = session.memory.facts()
    assert ("plugin-0-0", "at", 5.0, {"at": 1.0}, About.JOB, "ns/a", "uid-a") == msgspec.structs.astuple(fact)


def test_nothing_is_remembered_of_what_does_not_exist(opened: Callable[..., Session]) -> None:
    session = opened(cluster(node("n1"), gang("a")))
    with pytest.raises(KeyError, match="ns/gone"):
        session.memory.declare("p", AT).set(Moment(1.0), "ns/gone")
    with pytest.raises(KeyError, match="a key"):
        session.memory.declare("p", ALL).set(Moment(1.0), "a key")


def test_a_name_stands_for_one_thing(opened: Callable[..., Session]) -> None:
    session = opened(cluster(node("n1")))
    session.memory.declare("p", AT)
    with pytest.raises(ValueError, match="plugin `p` remembers two things by the name `at`"):
        session.memory.declare("p", Remember("at", About.NODE, Moment, later))
