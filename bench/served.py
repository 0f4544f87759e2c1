"""A cluster on an API server in a process of its own, and a `maar web` that reads it, for the benchmarks of answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from maar.embedded.server import EmbeddedServer

CRDS = Path(__file__).parents[1] / "deploy" / "crds"
PATIENCE = 600.0
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed Maar has its bytecode."""

Fill = Callable[[EmbeddedServer, int, int], None]
"""Makes the objects of a cluster of two sizes, in the server's own thread."""


def serve(folder: Path, fill: Fill, *sizes: int) -> None:
    """Run an API server with a cluster until its input ends."""
    server = EmbeddedServer(bare=True).start()
    try:
        server.call(_define, server)
        server.call(fill, server, *sizes)
        server.kubeconfig(folder / "kubeconfig.new").rename(folder / "kubeconfig")
        sys.stdin.read()
    finally:
        server.stop()


def _define(server: EmbeddedServer) -> None:
    kind = server.api.kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    for file in sorted(CRDS.glob("*.yaml")):
        for crd in yaml.safe_load_all(file.read_text()):
            server.api.create(kind, "", crd)


@contextmanager
def cluster(module: str, *options: str) -> Iterator[Path]:
    """A kubeconfig of a server that a module serves with `--serve FOLDER` and these options."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", module, "--serve", name, *options]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as server:
            try:
                while not (Path(name) / "kubeconfig").exists():
                    assert server.poll() is None
                    time.sleep(0.1)
                yield Path(name) / "kubeconfig"
            finally:
                server.kill()


@contextmanager
def web(kubeconfig: Path) -> Iterator[tuple[int, str]]:
    """A running `maar web` that has decided once: its process and its address."""
    log = kubeconfig.with_name("log")
    command = [sys.executable, "-m", "maar.cli.main", "web", "--port", "0", "--history", "none", "--anonymous"]
    command += ["--kubeconfig", str(kubeconfig)]
    with log.open("w") as out, subprocess.Popen(command, stderr=out, env=ENVIRONMENT) as process:
        try:
            while not (found := re.search(r"serving at (http://\S+)/\n", log.read_text())):
                assert process.poll() is None, log.read_text()
                time.sleep(0.1)
            while ask(f"{found[1]}/readyz")[0] != 200:
                assert process.poll() is None, log.read_text()
                time.sleep(0.2)
            yield process.pid, found[1]
        finally:
            process.terminate()


def ask(url: str) -> tuple[int, int, float]:
    """The status of an answer, its bytes, and the seconds that it took; status 0 if there is none."""
    begun = time.perf_counter()
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, len(answer.read()), time.perf_counter() - begun
    except urllib.error.HTTPError as error:
        with error:
            return error.code, 0, 0.0
    except OSError:
        return 0, 0, 0.0
