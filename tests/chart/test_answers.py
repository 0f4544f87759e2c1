"""What `helm test` runs in its pod, as it runs there: it waits for Services, and finds them by variables."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from tests.support.charts import CHART

PROGRAM = (CHART / "files" / "answers.py").read_text()


class Service(BaseHTTPRequestHandler):
    """Not ready at the first request."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200 if len(self.asked) > 1 else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    Service.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def run(patience: str, port: int) -> subprocess.CompletedProcess[str]:
    variables = {"MAAR_SERVICE_HOST": "127.0.0.1", "MAAR_SERVICE_PORT": str(port)}
    command = [sys.executable, "-c", PROGRAM, patience, "http MAAR_SERVICE /readyz"]
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=60)


def test_it_waits_until_the_service_is_ready(port: int) -> None:
    done = run("30", port)
    assert (0, ["/readyz", "/readyz"]) == (done.returncode, Service.asked)
    assert done.stdout.endswith(f"http://127.0.0.1:{port}/readyz: 200\n")


def test_it_gives_up_and_says_which(port: int) -> None:
    done = run("0", port)
    assert (1, f"http://127.0.0.1:{port}/readyz: no answer in 0 s\n") == (done.returncode, done.stderr)
    assert "503" in done.stdout
