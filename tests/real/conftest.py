"""Real clusters for the tests of this folder, which all carry the marker `real`.

`make test` builds the binaries first and sets MAAR_REAL, so a missing binary is a failure. Plain pytest skips.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.faults.writes import STORED_AS_JSON
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def real_parts() -> None:
    """Skip the test if the control plane is not built, or fail it under `make test`."""
    found = available()
    if not found and os.environ.get("MAAR_REAL"):
        pytest.fail(found.why_not)
    elif not found:
        pytest.skip(found.why_not)


@pytest.fixture(scope="session")
def running_cluster(real_parts: None) -> Iterator[RealCluster]:
    with RealCluster(flags=[STORED_AS_JSON]) as cluster:  # the witness of some tests reads etcd
        yield cluster


@pytest.fixture
def real_cluster(running_cluster: RealCluster) -> Iterator[RealCluster]:
    """The plain cluster: one for the whole session, empty for each test."""
    yield running_cluster
    running_cluster.stop_kwok()
    running_cluster.stop_controller_manager()
    if not running_cluster.processes.runs("kube-apiserver"):  # a test failed between kill and restart
        running_cluster.restart_api_server()
    running_cluster.clear()


@pytest.fixture
def new_cluster(real_parts: None) -> Iterator[Callable[..., RealCluster]]:
    """Creates clusters that only this test uses: `new_cluster(gates=..., runtime_config=...)`, as for RealCluster."""
    with ExitStack() as stack:

        def make(**arguments: Any) -> RealCluster:
            return stack.enter_context(RealCluster(**arguments))

        yield make
