"""What is asked of an autoscaler for one gang, and when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.subgroups import divided

from maar.controller.snapshots.cache import Cache
from maar.controller.writing.provisioning import (
    LINGERS,
    TRY_AGAIN,
    Provisioning,
    RequestedGang,
    RequestState,
    SeenRequest,
    Steps,
    missing_pods,
    next_steps,
    read,
)
from maar.kube.client.errors import Forbidden
from maar.kube.kinds import cluster as kinds
from maar.kube.kinds import volcano_podgroup
from maar.kube.picture.picture import Picture
from maar.kube.wire import annotations as known
from maar.kube.wire.api_resources import PROVISIONING_REQUESTS
from maar.kube.wire.base import Metadata
from maar.kube.wire.pods import Pod
from maar.kube.wire.provisioning import (
    ProvisioningRequest,
    ProvisioningSpec,
    ProvisioningStatus,
    StatusCondition,
)
from maar.kube.write.outcomes import Done, Failed, Outcome
from maar.kube.write.provisioning import AskForNodes, Withdraw, request_name
from maar.kube.write.work import Patch, Work
from maar.model.snapshot import Snapshot
from maar.testing.builders import Gang as Gang_
from maar.testing.builders import cluster, gang, node

CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
FIRST = SeenRequest("train-1", 1, "d", 1, CLASS)
PODS = {"ns/a": "", "ns/b": ""}
GANG = RequestedGang("d", lacks_nodes=True, since=0.0, consumes=PODS)


def named(request: str) -> dict[str, str]:
    return dict.fromkeys(PODS, request)


def test_a_gang_that_lacks_nodes_is_asked_for_once() -> None:
    assert Steps(ask=1) == next_steps(GANG, CLASS, 1.0)
    pending = replace(GANG, asked=(FIRST,), consumes=named("train-1"))
    assert Steps(consume="train-1") == next_steps(pending, CLASS, 1.0)


def test_pods_are_annotated_before_conditions_may_say_unschedulable() -> None:
    steps = next_steps(replace(GANG, asked=(FIRST,)), CLASS, 1.0)
    assert ("ns/a", "ns/b") == steps.annotate
    assert not steps.is_settled
    late = next_steps(replace(GANG, asked=(FIRST,), consumes=named("train-1") | {"ns/c": ""}), CLASS, 1.0)
    assert (("ns/c",), False) == (late.annotate, late.is_settled)
    assert next_steps(replace(GANG, asked=(FIRST,), consumes=named("train-1")), CLASS, 1.0).is_settled


@pytest.mark.parametrize(
    ("state", "pause"), [(RequestState.FAILED, 60.0), (RequestState.EXPIRED, 5.0), (RequestState.REVOKED, 5.0)]
)
def test_a_request_that_is_over_is_made_again_after_growing_pauses(state: RequestState, pause: float) -> None:
    for attempt, wait in ((1, pause), (2, 2 * pause), (30, 3600.0)):
        over = SeenRequest(f"train-{attempt}", attempt, "d", 1, CLASS, state, since=100.0)
        gang = replace(GANG, asked=(over,), consumes=named(over.name))
        assert Steps(consume=over.name, due=100.0 + wait) == next_steps(gang, CLASS, 99.0 + wait)
        assert attempt + 1 == next_steps(gang, CLASS, 100.0 + wait).ask


def test_the_earlier_request_is_withdrawn_once_no_pod_names_it() -> None:
    second = replace(FIRST, name="train-2", attempt=2)
    gang = replace(GANG, asked=(FIRST, second), consumes=named("train-1"))
    assert ((), ("ns/a", "ns/b")) == (next_steps(gang, CLASS, 1.0).withdraw, next_steps(gang, CLASS, 1.0).annotate)
    assert (FIRST,) == next_steps(replace(gang, consumes=named("train-2")), CLASS, 1.0).withdraw


def test_another_demand_or_class_is_asked_for_again() -> None:
    gang = replace(GANG, asked=(FIRST,), consumes=named("train-1"))
    assert Steps(ask=2) == next_steps(replace(gang, demand="more"), CLASS, 1.0)
    assert Steps(ask=2) == next_steps(gang, "check-capacity.autoscaling.x-k8s.io", 1.0)


def test_the_request_of_a_gang_that_has_started_is_withdrawn_at_once() -> None:
    assert Steps(withdraw=(FIRST,)) == next_steps(replace(GANG, demand="", asked=(FIRST,)), CLASS, 1.0)


def test_the_request_of_a_gang_that_waits_for_something_else_stays_a_while() -> None:
    gang = replace(GANG, lacks_nodes=False, since=100.0, asked=(FIRST,))
    assert Steps(due=100.0 + LINGERS) == next_steps(gang, CLASS, 101.0)
    assert Steps(withdraw=(FIRST,)) == next_steps(gang, CLASS, 100.0 + LINGERS)


def test_the_last_condition_in_the_life_of_a_request_counts() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    conditions = tuple(StatusCondition(t, "True", t, at) for t in ("Accepted", "Provisioned", "BookingExpired"))
    notes = {"maar.dev/job": "ns/train", "maar.dev/attempt": "3", "maar.dev/pod-sets": "2", "maar.dev/demand": "d"}
    item = ProvisioningRequest(
        Metadata("train-3", "ns", annotations=notes), ProvisioningSpec(CLASS), ProvisioningStatus(conditions)
    )
    assert SeenRequest("train-3", 3, "d", 2, CLASS, RequestState.EXPIRED, at.timestamp(), "BookingExpired") == read(
        item
    )


@pytest.mark.parametrize("notes", [{}, {"maar.dev/attempt": "x", "maar.dev/pod-sets": "1"}])
def test_annotations_that_maar_does_not_write_are_not_a_request_of_ours(notes: dict[str, str]) -> None:
    assert read(ProvisioningRequest(Metadata("train-3", "ns", annotations=notes))) is None


# -- with a picture of the cluster

KEY = "ns/train"
REQUEST = request_name(KEY, "g", 1)


class Scene:
    """A gang that lacks nodes, and the writes that are sent for it."""

    def __init__(self, minimum: int = 2) -> None:
        self.picture = Picture()
        self.picture.served[kinds.PROVISIONING_REQUESTS] = PROVISIONING_REQUESTS
        self.cache = Cache(self.picture)
        self.class_name = CLASS
        self.sent: list[tuple[Work, Callable[[Work, Outcome], None]]] = []
        self.provisioning = Provisioning(
            self.cache,
            lambda: self.class_name,
            lambda work, done: self.sent.append((work, done)),
            lambda regarding, kind, reason, message: None,
        )
        group = {"metadata": {"namespace": "ns", "name": "train", "uid": "g"}, "spec": {"minMember": minimum}}
        kind = volcano_podgroup.KIND
        self.picture.put(kind, msgspec.convert(group, kind.resource.struct))
        for i in range(minimum):
            self.pod(i)

    def pod(self, number: int, request: str = "") -> None:
        notes = {"scheduling.k8s.io/group-name": "train"} | ({known.CONSUMES_REQUEST: request} if request else {})
        container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
        metadata = {"namespace": "ns", "name": f"train-{number}", "uid": f"u{number}", "annotations": notes}
        pod = {"metadata": metadata, "spec": {"schedulerName": "maar", "containers": [container]}}
        self.picture.put(kinds.PODS, msgspec.convert(pod, Pod))

    def cycle(self, now: float) -> list[Work]:
        """The writes of one cycle."""
        self.cache.snapshot(now)
        before = len(self.sent)
        self.provisioning.after([KEY], now)
        return [work for work, _ in self.sent[before:]]

    def answer(self, outcome: Outcome) -> None:
        work, done = self.sent[-1]
        done(work, outcome)

    def settle(self) -> None:
        """Until the request exists, and every pod names it."""
        (asks,) = self.cycle(10.0)
        assert isinstance(asks, AskForNodes)
        self.answer(Done())
        item = {
            "metadata": {"namespace": "ns", "name": asks.name, "annotations": asks.notes},
            "spec": {"provisioningClassName": asks.class_name},
        }
        self.picture.put(kinds.PROVISIONING_REQUESTS, msgspec.convert(item, ProvisioningRequest))
        assert 2 == len(self.cycle(11.0))
        for _, done in self.sent[-2:]:
            done(self.sent[-1][0], Done())
        for i in range(2):
            self.pod(i, REQUEST)
        assert [] == self.cycle(12.0)
        assert self.provisioning.may_be_unschedulable(KEY)


def test_a_pod_that_replaces_another_one_asks_for_no_node_before_it_names_the_request() -> None:
    scene = Scene()
    scene.settle()
    scene.picture.drop(kinds.PODS, "ns/train-1")
    scene.pod(2)
    scene.cache.snapshot(13.0)
    assert not scene.provisioning.may_be_unschedulable(KEY), "conditions are decided before requests"
    (patch,) = scene.cycle(13.0)
    assert isinstance(patch, Patch)
    assert "/api/v1/namespaces/ns/pods/train-2" == patch.path
    scene.answer(Done())
    scene.pod(2, REQUEST)
    assert [] == scene.cycle(14.0)
    assert scene.provisioning.may_be_unschedulable(KEY)


def test_a_refused_request_is_not_repeated_in_every_cycle() -> None:
    scene = Scene()
    assert 1 == len(scene.cycle(10.0))
    scene.answer(Failed(Forbidden("exceeded quota")))
    assert [] == scene.cycle(10.1) == scene.cycle(9.0 + TRY_AGAIN)
    assert 10.0 + TRY_AGAIN == scene.provisioning.due()
    assert 1 == len(scene.cycle(10.0 + TRY_AGAIN))


def test_when_requests_are_switched_off_no_pod_names_one_any_more() -> None:
    """Autoscalers would leave such pods out for ever."""
    scene = Scene()
    scene.settle()
    scene.class_name = ""
    patches = scene.cycle(13.0)
    notes = {"metadata": {"annotations": {known.CONSUMES_REQUEST: None, known.CONSUMES_CLASS: None}}}
    assert [notes, notes] == [patch.body for patch in patches if isinstance(patch, Patch)]
    for i in range(2):
        scene.pod(i)
    (withdraws,) = scene.cycle(13.0 + LINGERS)
    assert isinstance(withdraws, Withdraw)


def test_a_request_that_vanishes_before_a_cycle_sees_it_is_made_again() -> None:
    scene = Scene()
    assert 1 == len(scene.cycle(10.0))
    scene.answer(Done())
    assert [] == scene.cycle(11.0)
    assert 1 == len(scene.cycle(10.0 + TRY_AGAIN))


def test_nothing_is_due_once_there_is_nothing_to_do() -> None:
    """Otherwise cycles would follow each other without a pause."""
    scene = Scene()
    scene.settle()
    scene.class_name = ""
    scene.cycle(13.0)
    assert scene.provisioning.due() is not None
    scene.picture.drop(kinds.PROVISIONING_REQUESTS, f"ns/{REQUEST}")
    assert scene.provisioning.due() is None


def pods(made: Gang_) -> list[str]:
    snapshot = Snapshot(cluster(node("n1", gpu=8), made))
    return sorted(t.key for found in missing_pods(snapshot, snapshot.jobs.jobs[0]).values() for t in found)


def test_only_pods_of_the_minimum_ask_for_nodes() -> None:
    """Role minimums above the minimum of the gang do not count; subgroups are asked for whole."""
    ignored = gang("a", roles={"m": 1, "w": 3}, minimum=2, role_min={"m": 1, "w": 3})
    assert ["ns/a-m-0", "ns/a-w-0"] == pods(ignored)
    counted = gang("a", roles={"w": 3, "m": 1}, minimum=2, role_min={"m": 1})
    assert ["ns/a-m-0", "ns/a-w-0"] == pods(counted)
    begun = divided("a", [2, 2, 2], size=2, least=2, minimum=2, on=["n1"] * 3)
    assert ["ns/a-3"] == pods(begun)
    assert ["ns/a-0", "ns/a-1", "ns/a-2", "ns/a-3"] == pods(divided("a", [2, 2, 2], size=2, least=2, minimum=2))
