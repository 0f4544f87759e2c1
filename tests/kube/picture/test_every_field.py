"""Every field of a pod that is decoded: a change of it alone is seen live as it is seen from scratch.

The fields come from the structs themselves. A field that is added to them must appear in `POD`, and is then compared.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec.structs import fields
from tests.support.objects import Json, decoded, from_scratch

from maar.kube.picture.picture import Picture
from maar.kube.read.pod_changes import alike
from maar.kube.wire.pods import Pod
from maar.model.snapshot import Cluster, Snapshot
from maar.model.tasks import Status, Task

NOW, MAAR = 1000.0, frozenset({"maar"})
Path = tuple[str | int, ...]


def near(key: str) -> Json:
    selector = {"matchLabels": {key: "x"}, "matchExpressions": [{"key": key, "operator": "In", "values": ["x"]}]}
    names = {"namespaces": ["ns"], "matchLabelKeys": ["app"], "mismatchLabelKeys": ["tier"]}
    return {"topologyKey": "zone", "labelSelector": selector, "namespaceSelector": selector, **names}


def terms() -> Json:
    expressions = [{"key": "gpu", "operator": "In", "values": ["a100"]}]
    return {
        "matchExpressions": expressions,
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }


def pods_near(key: str) -> Json:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [near(key)],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": near(key)}],
    }


def container(name: str) -> Json:
    port = {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1", "protocol": "UDP"}
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "3Gi"}}
    more = {"ports": [port], "restartPolicy": "Always"}
    return {"name": name, "image": "train:1", "resources": resources, **more}


def container_status(name: str) -> Json:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    return {"name": name, "allocatedResources": {"cpu": "1", "memory": "1Gi"}, "resources": resources}


POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 1,
        "labels": {"app": "x", "tier": "y"}, "annotations": {"volcano.sh/preemptable": "true"},
        "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "o", "controller": True},
        ],
    },
    "spec": {
        "nodeName": "n1", "schedulerName": "maar", "priority": 5, "priorityClassName": "high",
        "preemptionPolicy": "PreemptLowerPriority", "containers": [container("a")], "initContainers": [container("s")],
        "resources": {"requests": {"memory": "4Gi"}, "limits": {"memory": "5Gi"}}, "overhead": {"cpu": "1"},
        "nodeSelector": {"zone": "z"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [terms()]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2, "preference": terms()}],
            },
            "podAffinity": pods_near("near"),
            "podAntiAffinity": pods_near("apart"),
        },
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2,
             "labelSelector": near("app")["labelSelector"], "nodeAffinityPolicy": "Honor",
             "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["app"]},
        ],
        "hostNetwork": True, "schedulingGates": [{"name": "gate"}], "resourceClaims": [{"name": "claim"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}, "ephemeral": {}}],
        "schedulingGroup": {"podGroupName": "g"}, "activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5,
    },
    "status": {
        "phase": "Running", "nominatedNodeName": "n2", "startTime": "2026-01-01T00:00:00Z", "resize": "Deferred",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "later"}],
        "containerStatuses": [container_status("a")], "initContainerStatuses": [container_status("s")],
        "allocatedResources": {"memory": "4Gi"}, "resources": {"requests": {"memory": "4Gi"}, "limits": {}},
    },
}  # fmt: skip
"""A pod with every field. Not all of them make sense together."""

ODD: tuple[tuple[str, str], ...] = (
    ("metadata", "deletionTimestamp"), ("spec", "volumes"), ("spec", "schedulingGates"), ("spec", "resourceClaims"),
    ("spec", "schedulingGroup"), ("spec", "affinity"),
)  # fmt: skip
GONE: dict[str, tuple[tuple[str, str], ...]] = {
    "bound": ODD,
    "resized": (*ODD, ("spec", "resources"), ("status", "resources"), ("status", "allocatedResources")),
    "waiting": (*ODD, ("spec", "nodeName")),
    "everything": (),
}
"""What is left out of `POD` for pods that make sense."""


def base(name: str) -> Json:
    item = copy.deepcopy(POD)
    for part, field in GONE[name]:
        del item[part][field]
    return item


def struct_in(hint: Any) -> type[msgspec.Struct] | None:
    """The struct that a type is, may be or has items of."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next((found for arg in get_args(hint) if (found := struct_in(arg)) is not None), None)


def missing_fields(struct: type[msgspec.Struct], items: list[Any], path: str) -> Iterator[str]:
    """The fields of a struct that none of these objects has, and those of the structs in them."""
    hints = get_type_hints(struct)
    for field in fields(struct):
        where, values = f"{path}.{field.encode_name}", [i[field.encode_name] for i in items if field.encode_name in i]
        inner = struct_in(hints[field.name])
        if not values:
            yield where
        elif inner is not None:
            flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
            yield from missing_fields(inner, flat, where)


def test_the_pod_has_every_field_that_is_decoded() -> None:
    assert [] == list(missing_fields(Pod, [POD], ""))


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths to everything in an object, from the outside in."""
    inside: list[Any] = list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, item in inside:
        yield (*path, key)
        yield from leaves(item, (*path, key))


OTHERS = {
    "True": "False", "DoNotSchedule": "ScheduleAnyway", "Honor": "Ignore", "In": "NotIn", "Equal": "Exists",
    "NoSchedule": "NoExecute", "PreemptLowerPriority": "Never", "Running": "Failed", "Deferred": "Infeasible",
    "Always": "", "10.0.0.1": "10.0.0.2", "UDP": "TCP", "n1": "n2", "n2": "n1",
}  # fmt: skip


def other(value: Any) -> Any:
    """Another value of the same kind; `None` if it is a list or an object."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if not isinstance(value, str):
        return None
    if value in OTHERS:
        return OTHERS[value]
    number = value.removesuffix("Gi")
    if number.isdecimal():
        return f"{int(number) + 6}{value[len(number) :]}"
    return value.replace("2026", "2025") if value.startswith("2026") else f"{value}x"


def variants(item: Json) -> Iterator[tuple[str, Json]]:
    """The object with one thing in it left out, or with another value."""
    for path in leaves(item):
        if path in (("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")):
            continue
        for change in ("without", "other"):
            made = copy.deepcopy(item)
            inside: Any = made
            for key in path[:-1]:
                inside = inside[key]
            value = other(inside[path[-1]])
            if change == "without":
                del inside[path[-1]]
            elif value is not None:
                inside[path[-1]] = value
            if made != item and _decodes(made):
                yield f"{change} {'.'.join(map(str, path))}", made


def _decodes(item: Json) -> bool:
    try:
        decoded(item)
    except Exception:  # noqa: BLE001 a bug of ours affects this object only
        return False
    return True


AROUND: list[Json] = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "64"}}}
    for name in ("n1", "n2")
]


def normal(cluster: Cluster) -> Json:
    return msgspec.structs.asdict(cluster)


@pytest.mark.parametrize("name", GONE)
def test_a_changed_field_is_read_live_as_from_scratch(name: str) -> None:
    changes, missed = dict(variants(base(name))), []
    assert len(changes) > 100
    for what, to in changes.items():
        if not (_is_followed(base(name), to) and _is_followed(to, base(name))):
            missed.append(what)
    assert [] == missed


def _is_followed(before: Json, after: Json) -> bool:
    """Whether a picture, and the next snapshot of it, are as new ones after a change of the pod."""
    picture = Picture(MAAR, settling=None)
    for item in (*AROUND, before):
        picture.put(*decoded(item))
    picture.read_short()
    first = Snapshot(picture.cluster(picture.take(NOW).around))
    news = picture.put(*decoded(after))
    picture.read_short()
    update = picture.take(NOW)
    live, scratch = picture.cluster(update.around), from_scratch([*AROUND, after], MAAR, NOW)
    if normal(live) != normal(scratch) or (not news and normal(live) != normal(first.cluster)):
        return False
    following = None if update.rebuild else first.after(update.around, update.changed)
    return following is None or _uses(following) == _uses(Snapshot(scratch))


@pytest.mark.parametrize("name", GONE)
def test_pods_of_one_gang_are_read_together_as_alone(name: str) -> None:
    """Most pods of a gang are equal; a field in which two differ is read of both."""
    missed = [what for what, to in variants(base(name)) if _together(base(name), to) != _alone(base(name), to)]
    assert [] == missed
    assert _together(base(name), base(name)) == _alone(base(name), base(name))


def _numbered(*items: Json) -> list[Json]:
    return [
        {**item, "metadata": {**item["metadata"], "name": f"p-{i}", "uid": f"u{i}"}} for i, item in enumerate(items)
    ]


def _together(*items: Json) -> Json:
    return normal(from_scratch([*AROUND, *_numbered(*items)], MAAR, NOW))


def _alone(*items: Json) -> Json:
    picture = Picture(MAAR, settling=None)
    for item in (*AROUND, *_numbered(*items)):
        picture.put(*decoded(item))
        picture.read_short()
        around = picture.take(NOW).around
    return normal(picture.cluster(around))


def _uses(snapshot: Snapshot) -> list[dict[str, int]]:
    """What is used of each node."""
    return [{k: v for k, v in snapshot.axes.amounts(row).items() if v} for row in snapshot.used.tolist()]


@pytest.mark.parametrize("name", GONE)
def test_what_a_task_shows_of_a_pod_makes_pods_differ(name: str) -> None:
    """Two versions of a pod that `alike` takes for the same give the same task, but for where it stands."""
    was, task = decoded(base(name))[1], _task(base(name))
    equal = [(what, to) for what, to in variants(base(name)) if alike(was, decoded(to)[1])]
    assert len(equal) > 5
    assert [] == [what for what, to in equal if _task(to) != task]


def _task(item: Json) -> Task:
    """The task of a pod, without its state, and without its age: a pod of the same uid keeps it."""
    (task,) = from_scratch([*AROUND, item], MAAR, NOW).tasks
    return msgspec.structs.replace(task, status=Status.PENDING, node="", started=None, leaves=None, created=0.0)
