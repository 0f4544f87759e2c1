"""What is asked of an autoscaler for one gang, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from maar.controller.provisioning import LINGERS, Asked, Gang, State, Steps, next_steps, read
from maar.kube.wire.base import Metadata
from maar.kube.wire.provisioning import (
    ProvisioningRequest,
    ProvisioningSpec,
    ProvisioningStatus,
    StatusCondition,
)

CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
FIRST = Asked("train-1", 1, "d", 1, CLASS)
PODS = {"ns/a": "", "ns/b": ""}
GANG = Gang("d", lacks_nodes=True, since=0.0, consumes=PODS)


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


@pytest.mark.parametrize(("state", "pause"), [(State.FAILED, 60.0), (State.EXPIRED, 5.0), (State.REVOKED, 5.0)])
def test_a_request_that_is_over_is_made_again_after_growing_pauses(state: State, pause: float) -> None:
    for attempt, wait in ((1, pause), (2, 2 * pause), (30, 3600.0)):
        over = Asked(f"train-{attempt}", attempt, "d", 1, CLASS, state, since=100.0)
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
    assert Asked("train-3", 3, "d", 2, CLASS, State.EXPIRED, at.timestamp(), "BookingExpired") == read(item)


@pytest.mark.parametrize("notes", [{}, {"maar.dev/attempt": "x", "maar.dev/pod-sets": "1"}])
def test_annotations_that_maar_does_not_write_are_not_a_request_of_ours(notes: dict[str, str]) -> None:
    assert read(ProvisioningRequest(Metadata("train-3", "ns", annotations=notes))) is None
