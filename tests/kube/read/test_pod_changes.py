"""Which changes of a pod matter to a decision about it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from maar.kube.read.devices import SHARED_ANNOTATIONS
from maar.kube.read.pod_changes import DOMAINS, alike
from maar.kube.wire import annotations as known
from maar.kube.wire.base import Metadata
from maar.kube.wire.pods import Container, Pod, PodSpec, PodStatus, Resources

POD = Pod(
    Metadata(name="a", uid="u", resource_version="1", labels={"l": "1"}, annotations={"example.com/x": "1"}),
    PodSpec(containers=(Container(resources=Resources(requests={"cpu": "1"})),)),
)


def changed(**metadata: Any) -> Pod:
    return replace(POD, metadata=replace(POD.metadata, **metadata))


@pytest.mark.parametrize(
    "now",
    [
        changed(resource_version="2"),
        changed(annotations={"example.com/x": "2"}),
        changed(annotations={}),
        replace(POD, status=PodStatus(phase="Running", nominated_node_name="n1")),
    ],
)
def test_what_no_decision_uses_does_not_matter(now: Pod) -> None:
    assert alike(POD, now)


@pytest.mark.parametrize(
    "now",
    [
        changed(uid="v"),
        changed(labels={"l": "2"}),
        changed(annotations={"example.com/x": "1", "maar.dev/max-runtime": "1h"}),
        changed(annotations={"example.com/x": "1", "gpu-fraction": "0.5"}),
        replace(POD, spec=PodSpec(node_name="n1", containers=POD.spec.containers)),
        replace(POD, spec=PodSpec()),
        replace(POD, status=PodStatus(phase="Succeeded")),
    ],
)
def test_what_a_decision_uses_matters(now: Pod) -> None:
    assert not alike(POD, now)


def test_every_annotation_that_maar_reads_matters() -> None:
    names = [value for name, value in vars(known).items() if name.isupper() and isinstance(value, (str, tuple))]
    keys = [key for value in names for key in ((value,) if isinstance(value, str) else value)]
    assert "volcano.sh/preemptable" in keys
    # Maar writes those of the autoscaler to waiting pods; where a pod may run does not depend on them.
    keys = [key for key in keys if key not in (known.CONSUMES_REQUEST, known.CONSUMES_CLASS)]
    assert set() == {k.partition("/")[0] for k in (*keys, *SHARED_ANNOTATIONS) if "/" in k} - DOMAINS
