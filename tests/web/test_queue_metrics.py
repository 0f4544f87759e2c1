"""Metrics of queues: the text that a scraper reads, also for thousands of queues."""

from __future__ import annotations

import time

from prometheus_client.parser import text_string_to_metric_families

from maar.model.queues import Queue
from maar.model.snapshot import Snapshot
from maar.testing.builders import GPU, cluster, gang, node
from maar.web.queue_metrics import escaped, queue_text


def test_what_each_queue_has() -> None:
    snapshot = Snapshot(
        cluster(node("n", cpu=8, gpu=4), Queue("a"), Queue("b"), gang("x", 1, cpu=2, gpu=3, on=["n"], queue="a"))
    )
    families = {family.name: family for family in text_string_to_metric_families(queue_text(snapshot).decode())}
    assert all(family.documentation and family.type == "gauge" for family in families.values())
    found = {
        (sample.labels["queue"], sample.labels.get("resource", "share")): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert (2000, 3, 0.75) == (found["a", "cpu"], found["a", GPU], found["a", "share"])
    assert (0, 0.0) == (found["b", GPU], found["b", "share"])


def test_what_each_queue_deserves_and_why_its_jobs_wait() -> None:
    snapshot = Snapshot(
        cluster(
            *(node("n", gpu=4), Queue("a"), Queue("b")),
            *(gang("x", 1, gpu=8, queue="a"), gang("y", 1, gpu=8, queue="a"), gang("z", 1, queue="typo")),
        )
    )
    codes = {"ns/x": "NotEnoughResources", "ns/y": "NotEnoughResources", "ns/z": "NoSuchQueue", "ns/gone": "NoPods"}
    text = queue_text(snapshot, lambda queue: queue != "b", {"a": {GPU: 3}, "b": {GPU: 1}}, codes).decode()
    found = {
        line for line in text.splitlines() if line.startswith(("maar_queue_deserved{", "maar_queue_waiting_jobs{"))
    }
    assert {
        f'maar_queue_deserved{{queue="a",resource="{GPU}"}} 3',
        'maar_queue_waiting_jobs{queue="a",reason="NotEnoughResources"} 2',
        'maar_queue_waiting_jobs{queue="default",reason="NoSuchQueue"} 1',
        'maar_queue_waiting_jobs{queue="",reason="NoPods"} 1',
    } == found, "names that tenants invent are no labels"


def test_before_the_first_snapshot_there_are_no_queues() -> None:
    families = list(text_string_to_metric_families(queue_text(None).decode()))
    assert [[], [], [], []] == [family.samples for family in families]


def test_labels_are_escaped() -> None:
    assert r"a\"b\\c\nd" == escaped('a"b\\c\nd')


def test_thousands_of_queues_take_milliseconds() -> None:
    """The scheduler does nothing else meanwhile: prometheus_client takes most of a second for them."""
    snapshot = Snapshot(cluster(node("n", cpu=8, gpu=4), [Queue(f"queue-{i}") for i in range(5_000)]))
    queue_text(snapshot)
    seconds = []
    for _ in range(3):
        begun = time.process_time()
        queue_text(snapshot)
        seconds.append(time.process_time() - begun)
    assert min(seconds) < 0.2
