"""Intents: what is announced when, how much stands at once, and what a successor reads."""

from __future__ import annotations

import json
from functools import partial

import pytest

from maar.kube.write.intents import LONGEST, Intents, read_paths, write_paths

PODS = "/api/v1/namespaces/default/pods"


class Lease:
    """A lease that counts how often it is asked for a write."""

    epoch = 1
    leading = True
    succeeds = False
    lost = False

    def __init__(self, intents: Intents) -> None:
        self.rings = 0
        self.intents = intents
        self.page = intents.page(self, self.ring)

    def ring(self) -> None:
        self.rings += 1

    def write(self) -> list[str]:
        """Write a draft; returns what it says."""
        draft = self.intents.draft()
        self.intents.written(self.page, draft.number)
        return read_paths(draft.text)


class Desk:
    """Intents for one lease or more, and what happens to the writes."""

    def __init__(self, few: int = 2, most: int = 4, leases: int = 1) -> None:
        self.intents = Intents(few, most)
        self.leases = [Lease(self.intents) for _ in range(leases)]
        self.said: list[str] = []

    def want(self, *names: str) -> None:
        for name in names:
            fix, then = partial(self.said.append, f"fix {name}"), partial(self.said.append, f"send {name}")
            self.intents.announce(f"{PODS}/{name}", fix, then)

    def settle(self, *names: str) -> None:
        for name in names:
            self.intents.settled(f"{PODS}/{name}")


def paths(*names: str) -> list[str]:
    return [f"{PODS}/{name}" for name in names]


def test_a_write_is_sent_once_its_intent_is_written_with_the_version_known_before() -> None:
    desk = Desk()
    desk.want("a", "b")
    assert ([], True) == (desk.said, desk.leases[0].rings > 0)
    draft = desk.intents.draft()
    assert (["fix a", "fix b"], paths("a", "b")) == (desk.said, read_paths(draft.text))
    desk.want("late")
    desk.intents.written(0, draft.number)
    assert ["fix a", "fix b", "send a", "send b"] == desk.said
    assert paths("a", "b", "late") == desk.leases[0].write()
    assert ["fix late", "send late"] == desk.said[4:]


def test_without_announcements_writes_are_sent_at_once() -> None:
    desk = Desk()
    desk.intents.announcing = False
    desk.want("a")
    desk.intents.decide(list, partial(desk.said.append, "evict"))
    assert (["fix a", "send a", "evict"], []) == (desk.said, desk.leases[0].write())


def test_a_write_for_another_version_waits_for_another_intent() -> None:
    desk = Desk()
    desk.want("a")
    desk.leases[0].write()
    desk.want("a")
    assert ["fix a", "send a"] == desk.said
    assert paths("a") == desk.leases[0].write()
    assert ["fix a", "send a"] == desk.said[2:]


def test_what_is_settled_is_dropped_from_the_next_draft() -> None:
    desk = Desk()
    desk.want("a", "b")
    desk.leases[0].write()
    desk.settle("a")
    assert paths("b") == desk.leases[0].write()
    desk.settle("b")
    assert ([], "") == (desk.leases[0].write(), desk.intents.text())


def test_a_large_batch_is_split_and_the_next_part_is_asked_for_in_time() -> None:
    desk = Desk(few=2, most=4)
    desk.want(*"abcdef")
    assert paths(*"abcd") == desk.leases[0].write()
    rings = desk.leases[0].rings
    desk.settle("a")
    assert rings == desk.leases[0].rings, "three stand: the executor has enough to send"
    desk.settle("b")
    assert rings < desk.leases[0].rings
    assert paths(*"cdef") == desk.leases[0].write()
    assert ["send e", "send f"] == desk.said[-2:]


def test_long_names_fit_into_the_annotation() -> None:
    desk = Desk(few=500, most=1000)
    names = [f"{'x' * 240}{i}" for i in range(1000)]
    desk.want(*names)
    sent: set[str] = set()
    while len(sent) < 1000:
        written = desk.leases[0].write()
        assert len(write_paths(written)) < LONGEST < 256 * 1024
        desk.settle(*(path.rpartition("/")[2] for path in written))
        sent.update(written)
    assert set(paths(*names)) == sent


def test_with_several_leases_a_write_needs_an_intent_on_each() -> None:
    desk = Desk(leases=2)
    desk.want("a")
    first, second = desk.leases
    assert paths("a") == first.write()
    desk.want("b")
    assert ["fix a"] == desk.said
    assert paths("a", "b") == second.write()
    assert ["fix a", "fix b", "send a"] == desk.said
    first.write()
    assert "send b" == desk.said[-1]


def test_what_is_inherited_is_dropped_one_by_one() -> None:
    """So that a successor which takes over from a successor need not begin again."""
    desk = Desk()
    desk.intents.inherit(paths("a", "b", "c"))
    desk.intents.fenced_one(paths("b")[0])
    assert (paths("a", "c"), frozenset(paths("a", "c"))) == (desk.leases[0].write(), desk.intents.inherited)


def test_what_is_inherited_stays_until_it_is_fenced() -> None:
    desk = Desk()
    desk.intents.inherit(paths("old"))
    desk.want("new")
    assert paths("new", "old") == desk.leases[0].write()
    assert frozenset(paths("old")) == desk.intents.inherited
    desk.intents.fenced()
    assert (paths("new"), frozenset()) == (desk.leases[0].write(), desk.intents.inherited)


def test_the_text_is_short_and_names_objects_of_any_kind() -> None:
    jobs = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs"
    text = write_paths([f"{PODS}/b", f"{jobs}/t", f"{PODS}/a"])
    assert {PODS: ["a", "b"], jobs: ["t"]} == json.loads(text)
    assert [f"{PODS}/a", f"{PODS}/b", f"{jobs}/t"] == read_paths(text)
    assert ("", []) == (write_paths([]), read_paths(""))


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_a_text_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expected|malformed|truncated"):
        read_paths(text)
