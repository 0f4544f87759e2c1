"""A decision that fails because of one job: the job is set aside with the reason, and all others are decided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.objects import Json, decoded

from maar.config.config import Config, Registration
from maar.config.file import read_config
from maar.controller.brakes import Brakes
from maar.controller.cache import SET_ASIDE, Cache
from maar.controller.isolation import culprits
from maar.controller.loop import Cycle, Loop
from maar.controller.settings import Settings
from maar.kube.picture.picture import Picture
from maar.model.plan import Plan
from maar.registry import catalog
from maar.session.register import Register
from maar.session.session import Session


@given(st.integers(1, 40), st.sets(st.integers(0, 39), max_size=5))
def test_safety_without_the_culprits_nothing_fails(count: int, bad: set[int]) -> None:
    suspects = [str(i) for i in range(count)]
    guilty = frozenset(str(i) for i in bad if i < count)
    assert guilty == culprits(lambda aside: bool(guilty - aside), suspects)


def test_if_it_fails_without_all_jobs_no_job_is_to_blame() -> None:
    assert culprits(lambda aside: True, ["a", "b"]) is None


class Fragile:
    """A plugin with a bug: it fails for jobs with one label value, whatever their state."""

    def __init__(self, arguments: object = None) -> None:
        pass

    def open(self, session: Session, on: Register) -> None:
        for task in session.snapshot.tasks.tasks:
            if any(r.values == ("fatal",) for r in task.shape.node_selector):
                raise ZeroDivisionError("a bug")


def config() -> Config:
    known = catalog()
    fragile = Registration("fragile", Fragile)
    known = msgspec.structs.replace(known, plugins={**known.plugins, "fragile": fragile})
    text = "actions: allocate\ntiers:\n- plugins: [{name: fragile}, {name: gang}, {name: predicates}]\n"
    return read_config(text, "test", known).config


def pod(name: str, on: str = "", **spec: Any) -> Json:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "ns", "uid": f"u-{name}", "labels": {"app": name}}
    of = {"schedulerName": "maar", "nodeName": on, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": of}


def node(name: str, cpu: int) -> Json:
    status = {"allocatable": {"cpu": str(cpu)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


FATAL: dict[str, Any] = {"nodeSelector": {"x": "fatal"}}


class Scene:
    """A loop without a server."""

    def __init__(self, *items: Json) -> None:
        self.picture = Picture(frozenset({"maar"}))
        self.cache, self.now = Cache(self.picture), 1000.0
        self.loop = Loop(self.cache, None, lambda: (CONFIG, None), Settings(), Brakes(), clock=lambda: self.now)
        self.plans: list[Plan] = []
        self.loop.on_cycle.append(self._seen)
        self.put(*items)

    def _seen(self, cycle: Cycle) -> None:
        self.plans.append(cycle.plan)

    def put(self, *items: Json) -> None:
        for item in items:
            self.picture.put(*decoded(item))

    def cycle(self) -> Plan:
        self.cache.wake_all()
        asyncio.run(self.loop.once())
        return self.plans[-1]


CONFIG = config()


def binds(plan: Plan) -> list[str]:
    return sorted(bind.task for bind in plan.bind)


def waits(plan: Plan) -> dict[str, str]:
    return {wait.job: wait.reasons[0].message for wait in plan.waiting}


def many(count: int) -> Iterable[Json]:
    return (pod(f"good-{i:02}") for i in range(count))


@pytest.mark.parametrize("count", [3, 30], ids=["in the loop", "in a thread"])
def test_safety_one_job_does_not_stop_the_decisions_about_others(count: int, caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(node("n1", 100), *many(count), pod("bad", **FATAL))
    plan = scene.cycle()
    assert count == len(binds(plan))
    why = "left out for 10 minutes: cannot be read because of a bug: ZeroDivisionError: a bug"
    assert {"ns/bad": why} == waits(plan)
    assert {"job": 1} == scene.picture.problems.counts()
    looked = [r for r in caplog.records if "looking for the cause" in r.getMessage()]
    for _ in range(3):
        scene.now += 1
        scene.cycle()
    assert 1 == len(looked) == len([r for r in caplog.records if "looking for the cause" in r.getMessage()])


def test_safety_a_running_job_that_is_set_aside_keeps_its_room() -> None:
    scene = Scene(node("n1", 3), *many(5), pod("bad", "n1", **FATAL))
    assert 2 == len(binds(scene.cycle())), "its room counts"
    assert "ns/bad" in waits(scene.plans[-1])


def test_liveness_a_job_is_tried_again_after_a_while_and_forgotten_when_it_is_gone() -> None:
    scene = Scene(node("n1", 9), pod("bad", **FATAL))
    assert ["ns/bad"] == list(waits(scene.cycle()))
    scene.put(pod("bad"))
    scene.now += 1
    assert [] == binds(scene.cycle()), "a job that changes often does not cost a search each time"
    scene.now += SET_ASIDE
    assert ["ns/bad"] == binds(scene.cycle())
    assert {} == scene.picture.problems.counts()
    scene.put(pod("worse", **FATAL))
    scene.cycle()
    assert {"job": 1} == scene.picture.problems.counts()
    kind, item = decoded(pod("worse"))
    scene.picture.drop(kind, kind.key_of(item))
    scene.cycle()
    assert {} == scene.picture.problems.counts()


def test_if_no_job_is_to_blame_the_error_ends_the_loop() -> None:
    scene = Scene(node("n1", 9), pod("a"))

    def broken() -> tuple[Config, None]:
        raise ZeroDivisionError("not a job")

    loop = Loop(scene.cache, None, broken, Settings(), Brakes())
    with pytest.raises(ZeroDivisionError, match="not a job"):
        asyncio.run(loop.once())


def test_a_listener_that_fails_does_not_stop_the_cycle_or_the_next_listener() -> None:
    scene = Scene(node("n1", 9), pod("a"))

    def fails(cycle: Cycle) -> None:
        raise KeyError("a bug")

    scene.loop.on_cycle.insert(0, fails)
    assert ["ns/a"] == binds(scene.cycle())
    assert 1 == scene.picture.problems.bugs
