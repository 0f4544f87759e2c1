"""`maar web` and shadow mode have nothing that writes to Kubernetes with Maar's own credentials.

Each program runs as a process of its own. When it has decided, all of its objects are looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE

from maar.controller.scheduler import Scheduler
from maar.controller.writing.outbox import Outbox
from maar.controller.writing.publishing import Publisher
from maar.embedded.server import EmbeddedServer
from maar.kube.client.api import Api
from maar.kube.write.events import EventWriter
from maar.kube.write.executor import Executor
from maar.kube.write.intents import Intents
from maar.kube.write.leases import LeaderElection

PROGRAM = """
import gc, json, os, signal, sys, threading, time
from maar.cli.main import main
from maar.controller.loop import Loop

def look():
    while not any(isinstance(one, Loop) and one.cycles for one in gc.get_referrers(Loop)):  # no tuple in the making
        time.sleep(0.05)
    print(json.dumps(sorted({f"{type(one).__module__}.{type(one).__name__}" for one in gc.get_objects()})), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
main(sys.argv[1:])
"""


WRITERS = {
    f"{kind.__module__}.{kind.__name__}"
    for kind in (Api, EventWriter, Executor, Intents, LeaderElection, Outbox, Publisher, Scheduler)
}


@pytest.mark.parametrize(
    ("options", "writers"),
    [
        (["run", "--http-port", "0"], WRITERS),
        (["run", "--http-port", "0", "--dry-run"], set()),
        (["web", "--port", "0"], set()),
        (["web", "--port", "0", "--allow-writes"], set()),
    ],
    ids=["run", "shadow", "web", "web with writes"],
)
def test_only_the_scheduler_has_something_that_writes(options: list[str], writers: set[str], tmp_path: Path) -> None:
    server = EmbeddedServer().start()
    try:
        kubeconfig = str(server.kubeconfig(tmp_path / "kubeconfig"))
        more = ["--kubeconfig", kubeconfig, "--history", str(tmp_path / "history.db")]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *options, *more], capture_output=True, text=True, timeout=PATIENCE
        )
    finally:
        server.stop()
    assert 0 == done.returncode, done.stderr
    assert writers == WRITERS.intersection(json.loads(done.stdout))
