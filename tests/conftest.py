"""For all tests: no history in the home folder of the user, and clusters for live tests.

Tests that use `kubeconfig` run twice: on the embedded server, and on a real one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import available
from tests.support.shared import left_out

from maar.embedded.parts.jobs import Jobs
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.server import EmbeddedServer

os.environ["MAAR_HISTORY"] = "none"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background, by a shell without job control: processes of tests must not ignore Ctrl-C too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

CRDS = Path(__file__).parents[1] / "deploy" / "crds"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests were skipped because their data is not in this clone."""
    if line := left_out(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """An empty embedded server with kubelets."""
    server = EmbeddedServer(parts=[Kubelets(), Jobs()])
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def real() -> Iterator[RealCluster]:
    """A real API server, which `make test` builds."""
    found = available()
    if not found and os.environ.get("MAAR_REAL"):
        pytest.fail(found.why_not)
    elif not found:
        pytest.skip(found.why_not)
    with RealCluster() as cluster:
        cluster.apply_files(sorted(CRDS.glob("*.yaml")))
        yield cluster


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """An empty cluster with kubelets. The real one also has our CRDs."""
    if request.param == "embedded":
        server: EmbeddedServer = request.getfixturevalue("box")
        yield server.kubeconfig(tmp_path / "kubeconfig")
        return
    cluster: RealCluster = request.getfixturevalue("real")
    cluster.start_kwok()
    yield cluster.kubeconfig
    cluster.stop_kwok()
    cluster.clear()
    cluster.apply_files(sorted(CRDS.glob("*.yaml")))
