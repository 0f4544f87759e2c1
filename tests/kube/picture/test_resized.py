"""Pods that are resized in place: whatever their kubelets report, live reading equals reading from scratch."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.support.objects import Json, decoded, from_scratch

from maar.kube.picture.picture import Picture
from maar.model.snapshot import Snapshot

NOW, MAAR = 1000.0, frozenset({"maar"})
NODE: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}}
AMOUNTS = st.one_of(st.none(), st.fixed_dictionaries({"cpu": st.sampled_from(["1", "2", "5"])}))
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS.filter(bool), "limits": AMOUNTS.filter(bool)})


@st.composite
def statuses(draw: st.DrawFn) -> Json:
    """What a kubelet may report of a pod."""

    def given_to(name: str) -> Json:
        made: Json = {"name": name}
        if (allocated := draw(AMOUNTS)) is not None:
            made["allocatedResources"] = allocated
        if draw(st.booleans()):
            made["resources"] = draw(RESOURCES)
        return made

    whole = {key: value for key, value in given_to("").items() if key != "name"}
    found: Json = {"phase": draw(st.sampled_from(["Pending", "Running"])), **whole}
    for key, name in (("containerStatuses", "c"), ("initContainerStatuses", "s")):
        if draw(st.booleans()):
            found[key] = [given_to(name)]
    reason = draw(st.sampled_from(["", "Deferred", "Infeasible"]))
    if reason:
        found["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return found


def pod(name: str, cpu: str, whole: bool, status: Json) -> Json:
    resources = {"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "6"}}}
    spec: dict[str, Any] = {
        "schedulerName": "maar",
        "nodeName": "n1",
        "containers": [{"name": "c", **resources}],
        "initContainers": [{"name": "s", "restartPolicy": "Always", **resources}],
        **(resources if whole else {}),
    }
    metadata = {"name": name, "namespace": "ns", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


MOVES = st.lists(
    st.tuples(
        st.builds(pod, st.sampled_from(["a", "b"]), st.sampled_from(["1", "4"]), st.booleans(), statuses()),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(MOVES)
def test_safety_reported_resources_are_read_live_as_from_scratch(moves: list[tuple[Json, bool]]) -> None:
    """A true second value runs a cycle after the move."""
    picture, there = Picture(MAAR, settling=None), {"": NODE}
    picture.put(*decoded(NODE))
    snapshot = Snapshot(picture.cluster(picture.take(NOW).around))
    for item, cycle in (*moves, (moves[-1][0], True)):
        there[item["metadata"]["name"]] = item
        picture.put(*decoded(item))
        if cycle:
            update = picture.take(NOW)
            following = None if update.rebuild else snapshot.after(update.around, update.changed)
            snapshot = following or Snapshot(picture.cluster(update.around))
    scratch = from_scratch(there.values(), MAAR, NOW)
    live = picture.cluster(snapshot.cluster)
    assert sorted(map(repr, scratch.tasks)) == sorted(map(repr, live.tasks))
    assert _columns(Snapshot(scratch)) == _columns(snapshot)


def _columns(of: Snapshot) -> list[dict[str, int]]:
    """What nodes and jobs hold."""
    rows = [*of.used.tolist(), *of.jobs.allocated.tolist()]
    return [{name: n for name, n in of.axes.amounts(row).items() if n} for row in rows]
