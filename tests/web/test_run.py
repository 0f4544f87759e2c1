"""From a training job to a user: `maar.report`, a running `maar run`, `maar history`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE, wait_until
from tests.support.real.processes import free_port

from maar.report import Reporter

MAAR = [sys.executable, "-m", "maar.cli.main"]
NOBODY = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    "users": [{"name": "x", "user": {}}],
    "current-context": "x",
}
"""A kubeconfig for an API server that does not exist: measurements do not need it."""


def answers(url: str, process: subprocess.Popen[str]) -> bool:
    """Whether there is a response that does not mean `retry later`."""
    try:
        urllib.request.urlopen(url, timeout=PATIENCE).close()
    except (urllib.error.URLError, ConnectionError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        assert process.poll() is None, process.communicate()
        return False
    return True


def test_what_a_training_reports_is_what_history_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "kubeconfig").write_text(json.dumps(NOBODY))
    (tmp_path / "token").write_text("s3cret")
    port = free_port()
    options = ["--kubeconfig", f"{tmp_path}/kubeconfig", "--http-port", str(port), "--no-leader-elect"]
    options += ["--history", f"{tmp_path}/h.db", "--history-token", f"{tmp_path}/token"]
    process = subprocess.Popen([*MAAR, "run", *options], stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz", process), "an answer")
        reporter = Reporter(f"http://127.0.0.1:{port}", "team/resnet-7", token="s3cret", total_epochs=10)
        deadline = time.monotonic() + PATIENCE
        for epoch in range(1000):  # The database may not be open yet: refused reports are sent again with the next.
            reporter.report(epoch, 60.0)
            reporter.flush(PATIENCE)
            shown = subprocess.run(
                [*MAAR, "history", "--history", f"{tmp_path}/h.db", "-o", "json", "team/resnet"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if shown.returncode == 0:
                break
            assert time.monotonic() < deadline, shown.stderr
        (job,) = json.loads(shown.stdout)["jobs"]
        assert ("team/resnet-7", 10) == (job["job"], job["total_epochs"])
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    assert 0 == process.returncode, log
    assert "Traceback" not in log


def test_an_invalid_history_is_reported_at_the_start() -> None:
    done = subprocess.run(
        [*MAAR, "run", "--history", "mysql://me:pw@db/x"], capture_output=True, text=True, check=False
    )
    assert (2, "history: unknown database type: `mysql`; known: postgresql, sqlite\n") == (
        done.returncode,
        done.stderr,
    )
