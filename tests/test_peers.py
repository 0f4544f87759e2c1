"""What `make bench-peers` says of its figures."""

from __future__ import annotations

from bench.peers import PEERS, in_turn, missed, table

KUBE = {"idle_median_ms": 8.0, "idle_p99_ms": 20.0}


def test_maar_may_be_a_little_slower_than_kube_scheduler_on_an_idle_cluster() -> None:
    assert [] == missed({"maar": {"idle_median_ms": 23.0, "idle_p99_ms": 55.0}, "kube-scheduler": KUBE})


def test_what_is_slower_than_its_bar_is_named() -> None:
    late = {"maar": {"idle_median_ms": 23.1, "idle_p99_ms": 55.1}, "kube-scheduler": KUBE}
    assert ["median 23.1 ms, bar 23.0 ms", "p99 55.1 ms, bar 55.0 ms"] == missed(late)


def test_one_scheduler_alone_is_not_compared() -> None:
    assert [] == missed({"maar": {"idle_median_ms": 99.0, "idle_p99_ms": 99.0}})


def test_the_table_has_what_all_have() -> None:
    found = {"maar": {**KUBE, "burst_cpu_s": 2.0}, "kube-scheduler": KUBE}
    expected = [
        "| | maar | kube-scheduler |",
        "|---|---|---|",
        "| one pod on an idle cluster, median | 8 ms | 8 ms |",
        "| p99 | 20 ms | 20 ms |",
    ]
    assert expected == table(found, 1_000).splitlines()


def test_every_second_round_goes_back() -> None:
    names = [peer.name for peer in in_turn(PEERS, 2)]
    assert ["maar", "kube-scheduler", "volcano", "volcano", "kube-scheduler", "maar"] == names
