"""The requests of a pod, compared with what Kubernetes computes."""

from typing import Any

import pytest
import yaml

from maar.kube.read.requests import negative_request, pod_limits, pod_requests
from maar.kube.wire.decoding import decode
from maar.kube.wire.errors import FieldError
from maar.kube.wire.pods import Pod
from maar.model.resources import LARGEST_POD


def pod(text: str) -> Pod:
    parts: dict[str, Any] = yaml.safe_load(text)
    return decode({"metadata": {"name": "p"}, **parts}, Pod)


def requests(text: str) -> dict[str, int]:
    found = dict(pod_requests(pod(text)))
    assert 1 == found.pop("pods")
    return found


def test_containers_add_up() -> None:
    text = """
    spec:
      containers:
      - {resources: {requests: {cpu: 500m, memory: 1Gi}}}
      - {resources: {requests: {cpu: 1.5, memory: 1e3, nvidia.com/gpu: 2}}}
    """
    assert {"cpu": 2000, "memory": 2**30 + 1000, "nvidia.com/gpu": 2} == requests(text)


def test_nothing_asked_is_one_slot() -> None:
    assert (("pods", 1),) == pod_requests(pod("spec: {containers: [{name: a}]}"))


def test_zero_is_left_out() -> None:
    assert {} == requests("spec: {containers: [{resources: {requests: {cpu: 0, memory: 0Gi}}}]}")


def test_a_limit_without_a_request_is_one() -> None:
    text = "spec: {containers: [{resources: {limits: {nvidia.com/gpu: 4, cpu: 8}, requests: {cpu: 1}}}]}"
    assert {"nvidia.com/gpu": 4, "cpu": 1000} == requests(text)


def test_the_largest_init_container_counts_where_it_is_larger() -> None:
    text = """
    spec:
      initContainers:
      - {resources: {requests: {cpu: 4, memory: 1Gi}}}
      - {resources: {requests: {cpu: 1, memory: 3Gi}}}
      containers:
      - {resources: {requests: {cpu: 2, memory: 2Gi}}}
    """
    assert {"cpu": 4000, "memory": 3 * 2**30} == requests(text)


def test_sidecars_run_beside_containers() -> None:
    text = """
    spec:
      initContainers:
      - {name: log, restartPolicy: Always, resources: {requests: {cpu: 1}}}
      containers:
      - {resources: {requests: {cpu: 2}}}
    """
    assert {"cpu": 3000} == requests(text)


def test_init_containers_run_beside_the_sidecars_started_before_them_only() -> None:
    text = """
    spec:
      initContainers:
      - {name: early, resources: {requests: {cpu: 5}}}
      - {name: log, restartPolicy: Always, resources: {requests: {cpu: 1}}}
      - {name: late, resources: {requests: {cpu: 4500m}}}
      - {name: mesh, restartPolicy: Always, resources: {requests: {cpu: 1}}}
      containers:
      - {resources: {requests: {cpu: 2}}}
    """
    # early alone: 5; late with log: 5.5; containers with both sidecars: 4.
    assert {"cpu": 5500} == requests(text)


def test_overhead_is_added() -> None:
    text = "spec: {overhead: {cpu: 250m}, containers: [{resources: {requests: {cpu: 1}}}]}"
    assert {"cpu": 1250} == requests(text)


def test_what_the_pod_says_as_a_whole_replaces_the_sum() -> None:
    text = """
    spec:
      resources: {requests: {cpu: 8}}
      overhead: {cpu: 1}
      containers:
      - {resources: {requests: {cpu: 1, memory: 1Gi}}}
    """
    assert {"cpu": 9000, "memory": 2**30} == requests(text)


def test_a_whole_pods_limit_counts_where_nobody_requests() -> None:
    text = """
    spec:
      resources: {limits: {cpu: 8, memory: 4Gi}}
      containers:
      - {resources: {requests: {cpu: 1}}}
    """
    assert {"cpu": 1000, "memory": 4 * 2**30} == requests(text)


@pytest.mark.parametrize("field", ["allocatedResources: {cpu: 4}", "resources: {requests: {cpu: 4}}"])
def test_the_larger_of_spec_and_status_counts_during_a_resize(field: str) -> None:
    text = """
    spec: {containers: [{name: a, resources: {requests: {cpu: 1, memory: 2Gi}}}, {name: b}]}
    status: {containerStatuses: [{name: a, FIELD}]}
    """.replace("FIELD", field)
    assert {"cpu": 4000, "memory": 2**31} == requests(text)


def test_a_resize_of_a_sidecar_counts_too() -> None:
    text = """
    spec: {initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 1}}}]}
    status: {initContainerStatuses: [{name: s, allocatedResources: {cpu: 3}}]}
    """
    assert {"cpu": 3000} == requests(text)


def test_a_resize_of_the_whole_pod_counts_too() -> None:
    text = """
    spec: {resources: {requests: {cpu: 1}}, containers: [{name: a}]}
    status: {allocatedResources: {cpu: 2, memory: 1Gi}}
    """
    assert {"cpu": 2000} == requests(text)


def test_an_init_container_that_is_no_sidecar_is_not_resized() -> None:
    text = """
    spec: {initContainers: [{name: i, resources: {requests: {cpu: 1}}}]}
    status: {initContainerStatuses: [{name: i, allocatedResources: {cpu: 3}, resources: {requests: {cpu: 3}}}]}
    """
    assert {"cpu": 1000} == requests(text)


INFEASIBLE = ["conditions: [{type: PodResizePending, status: 'True', reason: Infeasible}]", "resize: Infeasible"]
"""As Kubernetes says it since 1.33, and before."""


@pytest.mark.parametrize("says", INFEASIBLE)
@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        # What the pod has counts, not what is asked for in vain; the larger of allocated and in use.
        (
            "containers: [{name: a, resources: {requests: {cpu: 64, memory: 1Gi, nvidia.com/gpu: 2}}}]",
            "containerStatuses: [{name: a, allocatedResources: {cpu: 2, memory: 2Gi}, "
            "resources: {requests: {cpu: 3}}}]",
            {"cpu": 3000, "memory": 2**31, "nvidia.com/gpu": 2},
        ),
        # A resize can add a request.
        (
            "containers: [{name: a, resources: {requests: {cpu: 64, memory: 1Gi}}}]",
            "containerStatuses: [{name: a, resources: {requests: {memory: 1Gi}}}]",
            {"memory": 2**30},
        ),
        # A node that reports nothing of a container says nothing about it.
        ("containers: [{name: a, resources: {requests: {cpu: 4}}}]", "containerStatuses: [{name: a}]", {"cpu": 4000}),
        ("containers: [{name: a, resources: {requests: {cpu: 4}}}]", "phase: Running", {"cpu": 4000}),
        (
            "initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 9}}}]",
            "initContainerStatuses: [{name: s, resources: {requests: {cpu: 1}}}]",
            {"cpu": 1000},
        ),
        (
            "resources: {requests: {cpu: 9}}, containers: [{name: a, resources: {requests: {cpu: 1, memory: 1}}}]",
            "resources: {requests: {cpu: 2, memory: 8}}, allocatedResources: {cpu: 3}",
            {"cpu": 3000, "memory": 1},
        ),
    ],
)
def test_an_infeasible_resize_counts_what_the_pod_has(
    says: str, spec: str, status: str, expected: dict[str, int]
) -> None:
    assert expected == requests(f"spec: {{{spec}}}\nstatus: {{{status}, {says}}}")


@pytest.mark.parametrize("says", ["resize: Deferred", "conditions: [{type: PodResizePending, reason: Deferred}]"])
def test_a_deferred_resize_counts_what_is_asked_for(says: str) -> None:
    spec = "containers: [{name: a, resources: {requests: {cpu: 8}}}]"
    status = "containerStatuses: [{name: a, resources: {requests: {cpu: 2}}}]"
    assert {"cpu": 8000} == requests(f"spec: {{{spec}}}\nstatus: {{{status}, {says}}}")


@pytest.mark.parametrize(("says", "expected"), [("", 8000), (INFEASIBLE[0], 4000)])
def test_limits_follow_a_resize(says: str, expected: int) -> None:
    spec = "containers: [{name: a, resources: {requests: {cpu: 1}, limits: {cpu: 8}}}]"
    has = "{requests: {cpu: 1}, limits: {cpu: 4}}"
    found = pod(f"spec: {{{spec}}}\nstatus: {{containerStatuses: [{{name: a, resources: {has}}}], {says}}}")
    assert {"cpu": expected} == dict(pod_limits(found, pod_requests(found)))
    whole = "{requests: {cpu: 1}, limits: {cpu: 8}}"
    found = pod(f"spec: {{containers: [{{name: a}}], resources: {whole}}}\nstatus: {{resources: {has}, {says}}}")
    assert {"cpu": expected} == dict(pod_limits(found, pod_requests(found)))


def test_absurd_amounts_saturate() -> None:
    text = "spec: {containers: [{resources: {requests: {memory: 1000E}}}, {resources: {requests: {memory: 1000E}}}]}"
    assert {"memory": LARGEST_POD} == requests(text)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("containers: [{}, {resources: {requests: {cpu: abc}}}]", "spec.containers[1].resources.requests.cpu"),
        ("containers: [{resources: {limits: {memory: abc}}}]", "spec.containers[0].resources.limits.memory"),
        (
            "initContainers: [{resources: {requests: {cpu: abc}}}]",
            "spec.initContainers[0].resources.requests.cpu",
        ),
        ("overhead: {a.io/b: abc}", "spec.overhead.a.io/b"),
        ("resources: {requests: {cpu: abc}}", "spec.resources.requests.cpu"),
    ],
)
def test_what_is_no_quantity_is_named_with_its_field(spec: str, field: str) -> None:
    with pytest.raises(FieldError) as caught:
        requests(f"spec: {{{spec}}}")
    assert field == caught.value.field
    assert caught.value.problem.startswith("not a quantity: `abc`")


def test_a_negative_request_is_found_and_counts_as_nothing() -> None:
    text = "spec: {containers: [{resources: {requests: {cpu: -1, memory: 1Gi}}}]}"
    assert {"memory": 2**30} == requests(text)
    expected = "spec.containers[0].resources.requests.cpu: expected an amount of at least 0, got `-1`"
    assert expected == negative_request(pod(text))
    assert "" == negative_request(pod("spec: {containers: [{resources: {requests: {cpu: 1}}}]}"))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 2, memory: 1Gi}}}]", {"cpu": 2000}),
        ("containers: [{resources: {requests: {cpu: 2}, limits: {cpu: 2}}}]", {}),
        ("containers: [{resources: {requests: {cpu: 2}}}, {resources: {limits: {nvidia.com/gpu: 2}}}]", {}),
        # A container without a limit adds nothing.
        (
            "containers: [{resources: {requests: {cpu: 1}}}, {resources: {requests: {cpu: 1}, limits: {cpu: 4}}}]",
            {"cpu": 4000},
        ),
        (
            "containers: [{resources: {requests: {memory: 1}, limits: {memory: 5}}}], "
            "initContainers: [{resources: {limits: {memory: 8}, requests: {memory: 1}}}, "
            "{restartPolicy: Always, resources: {requests: {memory: 1}, limits: {memory: 4}}}], overhead: {memory: 3}",
            {"memory": 12},
        ),
        (
            "containers: [{resources: {requests: {memory: 1}, limits: {memory: 5}}}], "
            "initContainers: [{resources: {limits: {memory: 8}, requests: {memory: 1}}}]",
            {"memory": 8},
        ),
        (
            "containers: [{resources: {requests: {cpu: 1}, limits: {cpu: 2}}}], resources: {limits: {cpu: 3}}",
            {"cpu": 3000},
        ),
    ],
)
def test_limits_count_where_they_are_above_the_requests(spec: str, expected: dict[str, int]) -> None:
    found = pod(f"spec: {{{spec}}}")
    assert expected == dict(pod_limits(found, pod_requests(found)))
