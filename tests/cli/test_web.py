"""`maar web` as a process: it starts, says where it serves, answers, and stops."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from click.testing import CliRunner
from tests.support.patience import PATIENCE, wait_until

from maar.cli.web import web
from maar.embedded.server import EmbeddedServer

MAAR = [sys.executable, "-m", "maar.cli.main"]


def test_it_serves_until_it_is_stopped(tmp_path: Path) -> None:
    server = EmbeddedServer().start()
    log = tmp_path / "log"
    try:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        options = ["--kubeconfig", str(kubeconfig), "--port", "0", "--history", "none", "--anonymous"]
        with log.open("w") as out:
            process = subprocess.Popen([*MAAR, "web", *options], stderr=out)
        try:
            wait_until(lambda: "serving at" in log.read_text() or process.poll() is not None, "a start")
            found = re.search(r"serving at (http://127\.0\.0\.1:\d+)/", log.read_text())
            assert found, log.read_text()
            wait_until(lambda: _status(f"{found[1]}/readyz") == 200, "it is ready")
            with urllib.request.urlopen(f"{found[1]}/api/v1/cluster", timeout=PATIENCE) as answer:
                assert {} == json.load(answer)["cluster"]["nodes"]
            wait_until(lambda: _made(found[1]) > 0, "a forecast")
        finally:
            process.send_signal(signal.SIGTERM)
            assert 0 == process.wait(PATIENCE)
    finally:
        server.stop()
    assert "Traceback" not in log.read_text()


def _made(base: str) -> int:
    with urllib.request.urlopen(f"{base}/api/v1/forecasts", timeout=PATIENCE) as answer:
        return int(json.load(answer)["made"])


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def test_bad_options_are_refused(tmp_path: Path) -> None:
    cases = [
        (["--tls-cert", "x"], "--tls-cert and --tls-key belong together"),
        (["--tls-cert", str(tmp_path / "c"), "--tls-key", str(tmp_path / "k")], "not a certificate with the key"),
        (["--aggregated-port", "0"], "--aggregated-port needs --tls-cert and --tls-key"),
        (["--history", "mysql://x/y"], "unknown database type: `mysql`"),
        (["--config", str(tmp_path / "none.yaml")], "none.yaml"),
    ]
    for options, words in cases:
        done = CliRunner().invoke(web, options)
        assert done.exit_code != 0
        assert words in done.output + str(done.exception), options
