"""Which pods belong together: those of one controller and those of one Service, unless they are a gang."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.objects import Json, decoded

from maar.kube.kinds.cluster import SERVICES
from maar.kube.picture.picture import Picture
from maar.kube.picture.siblings import MOST_IN_COMMON, MOST_SERVICES
from maar.model.snapshot import Changed


def controller(kind: str, api: str = "apps/v1", uid: str = "u1", **more: Any) -> Json:
    return {
        "ownerReferences": [{"apiVersion": api, "kind": kind, "name": "web", "uid": uid, "controller": True, **more}]
    }


def pod(name: str, namespace: str = "ns", labels: Json | None = None, **metadata: Any) -> Json:
    about = {"name": name, "namespace": namespace, "labels": labels or {}, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": {"containers": [{"name": "c"}]}}


def service(name: str, namespace: str = "ns", **selector: str) -> Json:
    about = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": {"selector": selector}}


def put(picture: Picture, *items: Json) -> dict[str, Changed]:
    """The jobs that change by these objects."""
    for item in items:
        picture.put(*decoded(item))
    return picture.take(0.0).changed


def siblings(*items: Json) -> dict[str, tuple[str, ...]]:
    changed = put(Picture(), *items)
    return {key: found[0].siblings for key, found in changed.items() if found is not None}


@pytest.mark.parametrize(
    ("kind", "api"), [("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")]
)
def test_pods_of_one_controller(kind: str, api: str) -> None:
    found = siblings(pod("a", **controller(kind, api)), pod("b", **controller(kind, api, uid="u2")))
    assert {"ns/a": (f"{kind} ns/u1",), "ns/b": (f"{kind} ns/u2",)} == found


def test_manifests_may_name_a_controller_without_its_uid() -> None:
    assert {"ns/a": ("ReplicaSet ns/web",)} == siblings(pod("a", **controller("ReplicaSet", uid="")))


@pytest.mark.parametrize(
    "metadata",
    [
        controller("ReplicaSet", "example.com/v1"),
        controller("DaemonSet"),
        controller("ReplicaSet", controller=False),
    ],
)
def test_other_owners_have_no_siblings(metadata: Json) -> None:
    assert {"ns/a": ()} == siblings(pod("a", **metadata))


def test_a_pod_cannot_join_the_pods_of_another_namespace() -> None:
    found = siblings(pod("a", **controller("ReplicaSet")), pod("a", "other", **controller("ReplicaSet")))
    assert {"ns/a": ("ReplicaSet ns/u1",), "other/a": ("ReplicaSet other/u1",)} == found


def test_pods_of_a_service() -> None:
    services = (service("all", app="x"), service("web", app="x", tier="web"), service("none"))
    elsewhere = service("all", "other", app="x")
    found = siblings(*services, elsewhere, pod("a", labels={"app": "x"}), pod("b", labels={"app": "x", "tier": "web"}))
    assert {"ns/a": ("Service ns/all",), "ns/b": ("Service ns/all", "Service ns/web")} == found


def test_pods_of_a_gang_have_no_siblings() -> None:
    gang: Json = {"annotations": {"pod_group": "g", "pod_group_size": "1"}}
    assert {"ns/g": ()} == siblings(service("all", app="x"), pod("a", labels={"app": "x"}, **gang))


def test_only_the_pods_of_a_changed_service_are_made_again() -> None:
    picture = Picture()
    labelled, other = pod("a", labels={"app": "x"}), pod("b", labels={"app": "y"})
    put(picture, labelled, other, pod("a", "other", labels={"app": "x"}))
    came = put(picture, service("s", app="x"))
    assert {"ns/a"} == set(came)
    assert {"ns/a", "ns/b"} == set(put(picture, service("s", app="y")))
    picture.drop(SERVICES, "ns/s")
    gone = picture.take(0.0).changed["ns/b"]
    assert gone is not None
    assert () == gone[0].siblings


def test_a_service_alone_is_no_reason_to_decide() -> None:
    assert not Picture().put(*decoded(service("s", app="x")))


def test_the_number_of_services_is_limited() -> None:
    """More than count of one namespace, then one less: all its pods are made again, and no others."""
    picture = Picture()
    put(picture, pod("a", labels={"app": "x"}), pod("b", **controller("ReplicaSet")), pod("a", "other"))
    many = [service(f"s{i:04}", app="x", **({} if i < 20 else {"y": str(i)})) for i in range(MOST_SERVICES)]
    changed = put(picture, *many)["ns/a"]
    assert changed is not None
    assert tuple(f"Service ns/s{i:04}" for i in range(MOST_IN_COMMON)) == changed[0].siblings
    for item, siblings in ((service("last", z="1"), 0), (service("last"), MOST_IN_COMMON)):
        found = put(picture, item)
        assert {"ns/a", "ns/b"} == set(found)
        changed = found["ns/a"]
        assert changed is not None
        assert siblings == len(changed[0].siblings)
