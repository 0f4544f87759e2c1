"""`maar.report`: what a training script reports, and that nothing makes the script fail or wait."""

from __future__ import annotations

import ast
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.patience import PATIENCE

from maar.report import TOKEN_FILES, Reporter

ROOT = Path(__file__).parents[1]
FILE = ROOT / "src/maar/report.py"


class Server:
    """Receives reports, and answers as configured."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.answers: list[bytes] = []
        """Raw responses to send first; after them, 202."""
        self.hang = threading.Event()
        self.hang.set()
        self._changed = threading.Condition()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with server._changed:
                    server.requests.append((self.path, dict(self.headers), json.loads(body)))
                    server._changed.notify_all()
                server.hang.wait()
                self.wfile.write(server.answers.pop(0) if server.answers else b"HTTP/1.0 202 Accepted\r\n\r\n{}")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        self.hang.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def wait(self, requests: int) -> list[Any]:
        """The bodies of `requests` requests, once they have arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= requests, PATIENCE)
            return [body for _, _, body in self.requests]


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("MAAR_", "OMPI_", "PMI_", "HOROVOD_")) or "RANK" in name or "WORLD_SIZE" in name:
            monkeypatch.delenv(name)
    for name in ("JOB_NAME", "HOSTNAME"):
        monkeypatch.delenv(name, raising=False)


def one(server: Server, tell: Callable[[Reporter], None], **options: Any) -> dict[str, Any]:
    """The only report of a story."""
    reporter = Reporter(**{"url": server.url, "job": "team/resnet"} | options)
    tell(reporter)
    ((report,),) = server.wait(1)
    assert isinstance(report, dict)
    return report


def an_epoch(reporter: Reporter) -> None:
    with reporter.epoch(3):
        pass


# -- reports


def test_a_loop(server: Server) -> None:
    before = time.time()
    reporter = Reporter(server.url, "resnet", "team", workers=4, local_batch_size=32, category="c", accelerator="a100")
    gone = []
    for epoch in reporter.epochs(2):
        gone.append(epoch)
        reporter.flush(PATIENCE)
    reporter.flush(PATIENCE)
    assert [0, 1] == gone
    (path, headers, (first,)), (_, _, (second,)) = server.requests
    assert "/v1/jobs/team/resnet/measurements" == path
    assert "application/json" == headers["Content-Type"]
    assert "Authorization" not in headers
    started, seconds = first.pop("started"), first.pop("seconds")
    assert before <= started <= time.time()
    assert 0 <= seconds <= time.time() - before
    assert {
        "epoch": 0, "workers": 4, "resized": False, "total_epochs": 2, "local_batch_size": 32,
        "global_batch_size": 128, "category": "c", "accelerator": "a100",
    } == first  # fmt: skip
    assert 1 == second["epoch"]


def test_maar_accepts_the_reports(server: Server) -> None:
    msgspec = pytest.importorskip("msgspec")
    from maar.web.messages import Report

    report = one(server, lambda r: r.report(1, 2.5, steps=10), total_epochs=9, local_batch_size=8, category="c/d")
    read = msgspec.convert(report, Report)
    assert (1, 2.5, 0.25, 9, 8, "c/d") == (
        *(read.epoch, read.seconds, read.step_seconds),
        *(read.total_epochs, read.local_batch_size, read.category),
    )


def test_nodes_noise_scale_and_goodput(server: Server) -> None:
    msgspec = pytest.importorskip("msgspec")
    from maar.web.messages import Report

    def told(reporter: Reporter) -> None:
        reporter.noise_scale = lambda: 512.5
        reporter.goodput = {2: 19, 1: 10.0}
        reporter.report(1, 2.5)

    report = one(server, told, workers=4, nodes=lambda: 2)
    assert (2, 512.5, {"1": 10.0, "2": 19.0}) == (report["nodes"], report["noise_scale"], report["goodput"])
    assert {1: 10.0, 2: 19.0} == msgspec.json.decode(json.dumps(report), type=Report).goodput


def test_nodes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAAR_NODES", "3")
    assert 3 == one(server, lambda r: r.report(1, 2.5), workers=4)["nodes"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, "x", [], lambda: 1 / 0])
def test_what_the_job_knows_itself_never_costs_a_report(server: Server, bad: Any) -> None:
    def told(reporter: Reporter) -> None:
        reporter.noise_scale = bad
        reporter.goodput = bad if callable(bad) else {1: bad}
        reporter.report(1, 2.5)

    report = one(server, told)
    assert 2.5 == report["seconds"]
    assert not {"noise_scale", "goodput"} & report.keys()


def test_a_goodput_of_many_sizes_is_cut(server: Server) -> None:
    def told(reporter: Reporter) -> None:
        reporter.goodput = {n: float(n) for n in range(1, 1000)}
        reporter.report(1, 2.5)

    assert [str(n) for n in range(1, 65)] == list(one(server, told)["goodput"])


def test_after_a_checkpoint(server: Server) -> None:
    reporter = Reporter(server.url, "team/resnet")
    assert [5, 6] == list(reporter.epochs(range(5, 7)))
    reporter.flush(PATIENCE)
    reports = [report for _, _, body in server.requests for report in body]
    assert [(5, 7), (6, 7)] == [(r["epoch"], r["total_epochs"]) for r in reports]


def test_any_iterable_of_epochs(server: Server) -> None:
    class Number:
        def __index__(self) -> int:
            return 2

    assert [0, 1] == list(Reporter(server.url, "team/x").epochs(Number()))  # type: ignore[arg-type]
    assert [7, 9] == list(Reporter(server.url, "team/x").epochs(iter([7, 9])))


def test_an_epoch_that_is_left_early_is_not_reported(server: Server) -> None:
    reporter = Reporter(server.url, "team/resnet")
    for _ in reporter.epochs(3):
        break
    with pytest.raises(ZeroDivisionError), reporter.epoch(0):
        raise ZeroDivisionError
    reporter.end_epoch()
    reporter.report(7, 1.0)
    assert [[7]] == [[r["epoch"] for r in body] for body in server.wait(1)]


def test_a_size_that_changed_within_an_epoch_is_reported(server: Server) -> None:
    sizes = iter([2, 4])
    report = one(server, an_epoch, workers=lambda: next(sizes))
    assert (4, True) == (report["workers"], report["resized"])


def test_a_token(server: Server) -> None:
    one(server, an_epoch, token="s3cret")
    assert "Bearer s3cret" == server.requests[0][1]["Authorization"]


def test_the_token_of_the_pod_is_read_again_for_each_report(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet renews it about every hour."""
    file = tmp_path / "token"
    monkeypatch.setenv("MAAR_TOKEN_FILE", str(file))
    reporter = Reporter(url=server.url, job="team/resnet")
    for number, text in enumerate(("first\n", "renewed"), 1):
        file.write_text(text)
        an_epoch(reporter)
        server.wait(number)
        assert f"Bearer {text.strip()}" == server.requests[-1][1]["Authorization"]
    assert TOKEN_FILES[-1] == "/var/run/secrets/kubernetes.io/serviceaccount/token", "where every pod has it"


def test_the_token_is_not_sent_anywhere_else(server: Server) -> None:
    """A redirect is not followed."""
    other = Server()
    server.answers.append(f"HTTP/1.0 302 Found\r\nLocation: {other.url}/\r\n\r\n".encode())
    reporter = Reporter(url=server.url, job="team/resnet", token="s3cret")
    an_epoch(reporter)
    reporter.flush(PATIENCE)
    other.close()
    assert 1 == len(server.requests)
    assert [] == other.requests


@pytest.mark.parametrize(
    ("environment", "workers"),
    [
        ({}, 1),
        ({"WORLD_SIZE": "4"}, 4),
        ({"WORLD_SIZE": "32", "LOCAL_WORLD_SIZE": "8"}, 4),
        ({"OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}, 3),
        ({"HOROVOD_SIZE": "3"}, 3),
    ],
)
def test_workers_are_pods_not_processes(
    server: Server, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], workers: int
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert workers == one(server, an_epoch)["workers"]


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"MAAR_JOB": "team/a"}, "/v1/jobs/team/a/measurements"),
        ({"MAAR_JOB": "a", "MAAR_NAMESPACE": "team"}, "/v1/jobs/team/a/measurements"),
        ({"JOB_NAME": "voda"}, "/v1/jobs/default/voda/measurements"),
        ({"HOSTNAME": "resnet-50-worker-3"}, "/v1/jobs/default/resnet-50/measurements"),
        ({"HOSTNAME": "bert-master-0", "MAAR_NAMESPACE": "n"}, "/v1/jobs/n/bert/measurements"),
        ({"HOSTNAME": "bert-launcher-x7k2p"}, "/v1/jobs/default/bert/measurements"),
        ({"MAAR_JOB": "a/b/../c d"}, "/v1/jobs/a/b%2F..%2Fc%20d/measurements"),
    ],
)
def test_the_job_is_found_in_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], path: str
) -> None:
    for name, value in {"MAAR_URL": server.url + "/", **environment}.items():
        monkeypatch.setenv(name, value)
    an_epoch(Reporter())
    server.wait(1)
    assert path == server.requests[0][0]


@pytest.mark.parametrize("name", ["RANK", "OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "PMI_RANK"])
def test_only_rank_0_reports(server: Server, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    reporter = Reporter(server.url, "team/resnet")
    monkeypatch.setenv(name, "1")
    an_epoch(reporter)
    monkeypatch.setenv(name, "0")
    reporter.report(9, 1.0)
    assert [[9]] == [[r["epoch"] for r in body] for body in server.wait(1)]


# -- frameworks, with stand-ins


class Horovod:
    def __init__(self, rank: int = 0) -> None:
        self.sizes = [8, 8, 8, 16, 16]
        self._rank = rank

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self.sizes.pop(0) if len(self.sizes) > 1 else self.sizes[0]

    def local_size(self) -> int:
        return 4


def test_horovod(server: Server) -> None:
    reporter = Reporter(server.url, "team/resnet").horovod(Horovod())
    an_epoch(Reporter(server.url, "team/other").horovod(Horovod(rank=1)))
    for epoch in range(3):
        reporter.start_epoch(epoch)
        reporter.end_epoch()
        reporter.flush(PATIENCE)
    reports = [(r["epoch"], r["workers"], r["resized"]) for _, _, body in server.requests for r in body]
    assert [(0, 2, False), (1, 4, True), (2, 4, False)] == reports


def test_torch_reports_its_size_while_it_runs(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch.distributed")
    torch.is_available = torch.is_initialized = lambda: True
    torch.get_world_size = lambda: 24
    torch.get_rank = lambda: 0
    monkeypatch.setitem(sys.modules, "torch.distributed", torch)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert 3 == one(server, an_epoch)["workers"]
    torch.is_initialized = lambda: False
    an_epoch(Reporter(server.url, "team/resnet"))
    assert 1 == server.wait(2)[1][0]["workers"]


@pytest.mark.parametrize("module", ["keras", "tensorflow.keras"])
def test_keras(server: Server, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    class Callback:
        params: Any = None

    keras: Any = ModuleType(module)
    keras.callbacks = ModuleType("callbacks")
    keras.callbacks.Callback = Callback
    monkeypatch.setitem(sys.modules, module, keras)
    reporter = Reporter(server.url, "team/resnet")
    callback: Any = reporter.keras()
    assert Callback in type(callback).__mro__
    callback.params = {"epochs": 5, "steps": 10}
    callback.on_train_begin()
    callback.on_epoch_begin(2)
    callback.on_epoch_end(2, {"loss": 0.1})
    ((report,),) = server.wait(1)
    assert (2, 5) == (report["epoch"], report["total_epochs"])
    assert pytest.approx(report["seconds"] / 10) == report["step_seconds"]
    callback.params = "nonsense"
    callback.on_train_begin()
    callback.on_epoch_end(3)


def test_without_keras_the_callback_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("keras", "tensorflow", "tensorflow.keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    callback = Reporter("http://127.0.0.1:1", "team/resnet").keras()
    callback.set_params({"epochs": 3})
    callback.on_epoch_begin(0, logs={})
    callback.on_epoch_end(0)


# -- failures


def test_without_an_address_nothing_happens() -> None:
    threads = threading.active_count()
    assert [0, 1] == list(Reporter().epochs(2))
    assert [0, 1] == list(Reporter(url="http://127.0.0.1:1").epochs(2))
    assert threads == threading.active_count()


def broken() -> int:
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    "options",
    [
        {"url": 7},
        {"url": "file:///etc/passwd"},
        {"url": "no address"},
        {"job": object()},
        {"job": "resnet", "namespace": 3.5},
        {"timeout": "soon"},
        {"workers": broken},
        {"workers": "many"},
        {"rank": broken},
        {"total_epochs": "x"},
        {"local_batch_size": [1]},
        {"token": "line\nbreak"},
        {"token": 5},
        {"category": object()},
    ],
    ids=lambda options: "-".join(options),
)
def test_invalid_arguments(server: Server, options: dict[str, Any]) -> None:
    reporter = Reporter(**{"url": server.url, "job": "team/resnet"} | options)
    assert [0, 1] == list(reporter.epochs(2))
    reporter.flush(PATIENCE)
    assert [] == server.requests


@pytest.mark.parametrize(("epoch", "seconds"), [("x", 1.0), (1, "x"), (1, float("nan")), (None, None), (1, object())])
def test_invalid_reports(server: Server, epoch: Any, seconds: Any) -> None:
    reporter = Reporter(server.url, "team/resnet")
    reporter.report(epoch, seconds)
    reporter.start_epoch(epoch)
    reporter.end_epoch(steps="x")  # type: ignore[arg-type]
    reporter.report(5, 1.0)
    reporter.flush(PATIENCE)
    assert 5 in [r["epoch"] for body in server.wait(1) for r in body]


@pytest.mark.parametrize("seconds", [math.inf, 1e30, math.nan, -1, "soon", None])
def test_an_invalid_wait(server: Server, seconds: Any) -> None:
    reporter = Reporter(server.url, "ns/resnet", workers=1)
    reporter.report(0, 1.0)
    reporter.flush(seconds)
    reporter.flush(PATIENCE)
    assert [[0]] == [[report["epoch"] for report in body] for body in server.wait(1)]


def test_an_invalid_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "many")
    reporter = Reporter(server.url, "team/resnet")
    assert [0, 1] == list(reporter.epochs(2))
    reporter.flush(PATIENCE)
    assert [] == server.requests


def test_horovod_that_is_not_initialised(server: Server) -> None:
    reporter = Reporter(server.url, "team/resnet").horovod(object())
    assert [0] == list(reporter.epochs(1))
    reporter.flush(PATIENCE)
    assert [] == server.requests


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 500 Oops\r\n\r\nsorry",
        b"HTTP/1.0 503 Later\r\n\r\n",
        b"\x00\xff garbage",
        b"",
        b"HTTP/1.0 429 Slow\r\n\r\n",
    ],
)
def test_reports_that_failed_are_sent_with_the_next(server: Server, answer: bytes) -> None:
    server.answers = [answer]
    reporter = Reporter(server.url, "team/resnet")
    for epoch in range(3):
        reporter.report(epoch, 1.0)
        reporter.flush(PATIENCE)
    assert [[0], [0, 1], [2]] == [[r["epoch"] for r in body] for body in server.wait(3)]


def test_refused_reports_are_not_sent_again(server: Server) -> None:
    server.answers = [b"HTTP/1.0 400 Bad\r\n\r\n{}", b"HTTP/1.0 404 None\r\n\r\n"]
    reporter = Reporter(server.url, "team/resnet")
    for epoch in range(3):
        reporter.report(epoch, 1.0)
        reporter.flush(PATIENCE)
    assert [[0], [1], [2]] == [[r["epoch"] for r in body] for body in server.wait(3)]


def test_only_the_newest_reports_wait_for_a_missing_server(server: Server) -> None:
    server.answers = [b"HTTP/1.0 500 Oops\r\n\r\n"] * 100
    reporter = Reporter(server.url, "team/resnet")
    for epoch in range(100):
        reporter.report(epoch, 1.0)
        reporter.flush(PATIENCE)
    assert list(range(36, 100)) == [r["epoch"] for r in server.wait(100)[-1]]


def test_a_server_that_hangs_costs_the_training_nothing(server: Server) -> None:
    server.hang.clear()
    reporter = Reporter(server.url, "team/resnet", timeout=PATIENCE)
    begin = time.monotonic()
    for _ in reporter.epochs(1000):
        pass
    assert time.monotonic() - begin < 20
    begin = time.monotonic()
    reporter.flush(0.1)
    assert 0.09 < time.monotonic() - begin < 20


# -- as a program


def train(
    url: str, *flags: str, folder: Path, script: str = "", python: str = sys.executable
) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run a program with only the file: no site-packages, no other environment."""
    script = script or "for epoch in Reporter().epochs(2): pass\nprint('trained')"
    text = f"import sys; sys.path.insert(0, {str(folder)!r})\nfrom report import Reporter\n{script}"
    begin = time.monotonic()
    done = subprocess.run(
        [python, "-I", "-S", "-W", "error", *flags, "-c", text],
        env={"MAAR_URL": url, "MAAR_JOB": "team/resnet"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done, time.monotonic() - begin


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A folder with only a copy of the file."""
    shutil.copy(FILE, tmp_path / "report.py")
    return tmp_path


def test_the_file_is_all_it_takes(server: Server, alone: Path) -> None:
    done, _ = train(server.url, folder=alone)
    assert (0, "trained\n", "") == (done.returncode, done.stdout, done.stderr)
    assert [0, 1] == [r["epoch"] for body in server.wait(1) for r in body][:2]


def test_it_runs_on_every_python_that_is_here(server: Server, alone: Path) -> None:
    for place in filter(None, (shutil.which(f"python3.{minor}") for minor in range(8, 20))):
        if (
            subprocess.run([place, "--version"], capture_output=True, check=False).returncode == 0
        ):  # otherwise only a shim
            done, _ = train(server.url, folder=alone, python=place)
            assert (0, "trained\n", "") == (done.returncode, done.stdout, done.stderr), place


def test_it_needs_no_newer_python_than_it_says() -> None:
    tree = ast.parse(FILE.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names | {"__future__"}


def test_importing_it_brings_no_other_part_of_maar(server: Server) -> None:
    script = "import sys; from maar.report import Reporter; print(sorted(m for m in sys.modules if 'maar' in m))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "['maar', 'maar.report']" in done.stdout


def baseline(alone: Path) -> float:
    """Seconds that the program takes without a server."""
    return train("", folder=alone)[1]


@pytest.mark.parametrize("how", ["dead", "hangs", "deaf"])
def test_it_ends_soon_whatever_the_server_does(server: Server, alone: Path, how: str) -> None:
    with socket.socket() as deaf:  # the kernel accepts connections; nothing reads them
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)
        server.hang.clear()
        url = {"dead": "http://127.0.0.1:1", "hangs": server.url, "deaf": f"http://127.0.0.1:{deaf.getsockname()[1]}"}
        usual = baseline(alone)
        done, took = train(url[how], folder=alone)
    assert (0, "trained\n") == (done.returncode, done.stdout)
    assert took < usual + 20
    assert "Traceback" not in done.stderr


def test_a_fork_reports_nothing(server: Server, alone: Path) -> None:
    script = """
import os
reporter = Reporter()
reporter.report(0, 1.0)
reporter.flush(20)
child = os.fork()
if child == 0:
    reporter.report(1, 1.0)
    raise SystemExit
os.waitpid(child, 0)
reporter.report(2, 1.0)
reporter.flush(20)
"""
    done, _ = train(server.url, "-W", "ignore", script=script, folder=alone)
    assert (0, "") == (done.returncode, done.stderr)
    assert [[0], [2]] == [[r["epoch"] for r in body] for body in server.wait(2)]


def test_the_example_trains_with_and_without_a_server(server: Server) -> None:
    command = [sys.executable, str(ROOT / "examples/train_with_reports.py"), "--epochs", "2"]
    for url in ("", server.url):
        environment = {**os.environ, "MAAR_URL": url, "MAAR_JOB": "team/resnet"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        assert ("trained 2 epochs\n", "") == (done.stdout, done.stderr)
    reports = [r for body in server.wait(1) for r in body]
    assert [0, 1] == [r["epoch"] for r in reports]
    assert all(r["total_epochs"] == 2 and r["seconds"] > 0.04 for r in reports)
