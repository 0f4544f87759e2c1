"""A cycle frees its memory at once: nothing it made waits for the cyclic garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support.strategies import elastic_clusters

from maar.config.file import default_config
from maar.decide import decide
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog

CONFIG = default_config(catalog())


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(elastic_clusters())
def test_nothing_keeps_the_snapshot_of_a_cycle(cluster: Cluster) -> None:
    snapshot = Snapshot(cluster)
    kept = weakref.ref(snapshot)
    plan = decide(snapshot, CONFIG, 10.0)
    del snapshot
    assert kept() is None, plan
