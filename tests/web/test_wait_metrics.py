"""The histogram of waits: what a scraper reads, and how many queues have one."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from maar.web.wait_metrics import MOST_QUEUES, SECONDS, WaitMetrics


def test_buckets_count_everything_below_them() -> None:
    metrics = WaitMetrics()
    for seconds in (0.0, 1.0, 1.5, 10**9):
        metrics.observe("a", seconds)
    (family,) = text_string_to_metric_families(metrics.text().decode())
    found = {sample.labels.get("le", sample.name): sample.value for sample in family.samples}
    assert "histogram" == family.type
    assert (2, 3, 3, 4) == (found["1"], found["5"], found[str(SECONDS[-1])], found["+Inf"])
    assert (4, 10**9 + 2.5) == (found["maar_job_wait_seconds_count"], found["maar_job_wait_seconds_sum"])


def test_thousands_of_queues_share_one_histogram() -> None:
    metrics = WaitMetrics()
    for number in range(MOST_QUEUES + 5):
        metrics.observe(f"queue-{number}", 1.0)
    (family,) = text_string_to_metric_families(metrics.text().decode())
    counts = {s.labels["queue"]: s.value for s in family.samples if s.name.endswith("_count")}
    assert (MOST_QUEUES + 1, 5) == (len(counts), counts[""])
