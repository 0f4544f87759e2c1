"""Images on nodes: found for the pods that use them, with bounded memory, live and from files."""

from __future__ import annotations

import tracemalloc
from typing import Any

from tests.support.objects import Json, decoded, from_scratch

from maar.config.file import default_config
from maar.decide import decide
from maar.kube.kinds.cluster import NODES, PODS
from maar.kube.picture.images import Images
from maar.kube.picture.picture import Picture
from maar.kube.wire.cluster import Image as WireImage
from maar.model.nodes import Image
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog

NOW = 1000.0
BIG = 900 * 2**20


def node(name: str, *images: str) -> Json:
    listed = [{"names": [image], "sizeBytes": BIG} for image in images]
    status = {"allocatable": {"cpu": "8", "pods": "10"}, "images": listed}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, image: str) -> Json:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "ns", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def decided(cluster: Cluster) -> dict[str, str]:
    plan = decide(Snapshot(cluster), default_config(catalog()), NOW)
    return {bind.task: bind.node for bind in plan.bind}


def test_live_and_from_files_a_pod_goes_where_its_image_is() -> None:
    items = [node("n1"), node("n2", "train:1"), pod("a", "train:1")]
    picture = Picture()
    for item in items:
        picture.put(*decoded(item))
    assert {"ns/a": "n2"} == decided(picture.cluster(picture.take(NOW).around))
    assert {"ns/a": "n2"} == decided(from_scratch(items, None, NOW))


def test_names_without_a_tag_are_latest() -> None:
    found = from_scratch([node("n1", "train", "b:1"), pod("a", "train"), pod("b", "r/b:1")], None, NOW)
    assert (Image("train:latest", BIG, ("n1",)),) == found.images
    assert {"ns/a": ("train:latest",), "ns/b": ()} == {t.key: t.shape.images for t in found.tasks}


def taken(picture: Picture) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    cluster = picture.cluster(picture.take(NOW).around)
    return {i.name: i.nodes for i in cluster.images}, {t.key: t.shape.images for t in cluster.tasks}


def test_pods_learn_when_the_first_node_gets_their_image_and_when_the_last_one_loses_it() -> None:
    picture = Picture()
    for item in (node("n1"), node("n2"), pod("a", "train:1"), pod("b", "other:1")):
        picture.put(*decoded(item))
    assert ({}, {"ns/a": (), "ns/b": ()}) == taken(picture)
    assert picture.put(*decoded(node("n1", "train:1")))
    update = picture.take(NOW)
    assert (["ns/a"], False) == ([*update.changed], update.rebuild), "an image does not rebuild the tables"
    assert picture.put(*decoded(node("n2", "train:1")))
    assert {} == picture.take(NOW).changed
    assert ({"train:1": ("n1", "n2")}, {"ns/a": ("train:1",), "ns/b": ()}) == taken(picture)
    assert not picture.put(*decoded(node("n2", "train:1", "nobody:uses"))), "an image that no pod uses changes nothing"
    picture.drop(NODES, "n1")
    assert ({"train:1": ("n2",)}, {"ns/a": ("train:1",), "ns/b": ()}) == taken(picture)
    picture.put(*decoded(node("n2")))
    assert ({}, {"ns/a": (), "ns/b": ()}) == taken(picture)
    picture.put(*decoded(node("n2", "train:1")))
    picture.drop(PODS, "ns/a")
    assert ({}, {"ns/b": ()}) == taken(picture)


def test_an_elastic_job_knows_the_images_of_its_future_workers() -> None:
    template = {"spec": {"schedulerName": "maar", "containers": [{"name": "c", "image": "train:1"}]}}
    job: Json = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t", "namespace": "ns", "uid": "t"},
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}},
        },
    }
    picture = Picture()

    def images() -> Any:
        (found,) = picture.cluster(picture.take(NOW).around).jobs
        assert found.elastic is not None
        return found.elastic.shape.images

    picture.put(*decoded(job))
    picture.put(*decoded(node("n1")))
    assert () == images()
    picture.put(*decoded(node("n1", "train:1")))
    assert ("train:1",) == images()
    picture.drop(NODES, "n1")
    assert () == images()


def test_a_hundred_images_on_each_of_5000_nodes_cost_less_than_50_mb() -> None:
    images = Images()
    images.use("pod", ["registry.example/team/image-7:v1"])
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for n in range(5000):
        # All names but one differ between nodes, so that shared names do not explain the small size.
        listed = [
            WireImage(names=(f"registry.example/team/image-{n}-{i}:v1", f"registry.example/t@sha256:{n:032}{i:032}"))
            for i in range(99)
        ]
        images.note(f"n{n}", [*listed, WireImage(names=("registry.example/team/image-7:v1",), size_bytes=BIG)])
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    (found,) = images.take()
    assert 5000 == len(found.nodes)
    assert after - before < 50 * 10**6
