"""`maar run` as a process, on the embedded API server and on a real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.confs import ALLOCATE
from tests.support.live import EVENTS_PATH, NAMESPACE, Live, Seen, bound, tell, where
from tests.support.real.cluster import RealCluster
from tests.support.real.processes import free_port
from tests.support.scheduler import Child

from maar import __version__
from maar.cli.reports.plan_json import plan_data
from maar.controller.main import identity
from maar.controller.record import read_recording
from maar.embedded.server import EmbeddedServer
from maar.kube.client.access import load_access
from maar.kube.client.errors import NotFound
from maar.kube.wire.api_resources import LEASES, PODS

MAAR = [sys.executable, "-m", "maar.cli.main"]


class Run(Child):
    """A child process with an HTTP port."""

    def __init__(self, kubeconfig: Path, log: Path, *options: str) -> None:
        self.port = free_port()
        super().__init__(kubeconfig, log, "--http-port", str(self.port), *options)

    def get(self, path: str) -> tuple[int, str]:
        """Status and text; the status is 0 while the server does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5.0) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            assert self.lives, self.log.read_text()
            return 0, ""

    def metrics(self) -> dict[str, float]:
        """The Prometheus metrics, by name and labels: `maar_evictions_total{cause="preempted",queue="default"}`."""
        status, text = self.get("/metrics")
        assert 200 == status
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            assert family.documentation, f"{family.name} says what it is"
            for sample in family.samples:
                labels = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
        return found

    async def until_ready(self, cluster: Live) -> None:
        await cluster.eventually(lambda: self.get("/readyz") == (200, "ok"), "ready")


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes, and ends them with the test."""
    runs: list[Run] = []

    def begin(kubeconfig: Path, *options: str) -> Run:
        runs.append(Run(kubeconfig, tmp_path / f"maar-{len(runs)}.log", *options))
        return runs[-1]

    yield begin
    for run in runs:
        run.end()
    assert [] == [run.log.name for run in runs if run.says("Traceback")]


async def stop(run: Run, number: int = signal.SIGTERM) -> int:
    return await asyncio.to_thread(run.end, number)


async def events(cluster: Live, reason: str) -> list[dict[str, Any]]:
    return [e for e in (await cluster.get(EVENTS_PATH))["items"] if e["reason"] == reason]


async def holder(cluster: Live) -> str | None:
    """The holder of the lease; `None` without a lease."""
    try:
        lease = await cluster.get(LEASES.path(NAMESPACE, "maar"))
    except NotFound:
        return None
    return str(lease["spec"].get("holderIdentity") or "")


# -- health and metrics


def test_health_readiness_and_every_metric(kubeconfig: Path, start: Start) -> None:
    """The leader serves all metrics; a standby is ready too, and decides nothing."""

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        leader = start(kubeconfig)
        await leader.until_ready(cluster)
        await cluster.eventually(lambda: leader.says("leading as"), "it leads")
        standby = start(kubeconfig)
        await cluster.gang("low", 2, gpu=8)
        await cluster.until(bound("low", 2))
        await cluster.gang("high", 1, gpu=8, priorityClassName="high")
        await cluster.until(bound("high", 1))
        await cluster.gang("huge", 3, gpu=8)
        await cluster.until(lambda ps: all(p.message for p in ps if p.group == "huge") and len(ps) == 4, "huge waits")
        assert (200, "ok") == leader.get("/healthz")
        metrics = leader.metrics()
        assert metrics["maar_cycle_seconds_count"] >= 3
        assert 0 < metrics["maar_cycle_seconds_sum"] < 60
        assert 'maar_cycle_seconds_bucket{le="+Inf"}' in metrics
        assert metrics['maar_action_seconds_count{action="allocate"}'] >= 3
        assert metrics['maar_action_seconds_count{action="preempt"}'] >= 1
        assert 3 == metrics["maar_binds_total"]
        assert 2 == metrics['maar_evictions_total{cause="preempted",queue="default"}']
        waiting = {name: count for name, count in metrics.items() if name.startswith("maar_waiting_jobs")}
        by_reason = {f'maar_waiting_jobs{{reason="{code}"}}': 1 for code in ("NotEnoughResources", "NoPods")}
        assert by_reason == waiting, "huge, and low, whose pods have gone"
        assert 8 == metrics['maar_queue_allocated{queue="default",resource="nvidia.com/gpu"}']
        assert 0.5 == metrics['maar_queue_share{queue="default"}']
        lags = {name: value for name, value in metrics.items() if name.startswith("maar_watch_lag_seconds")}
        assert {f'maar_watch_lag_seconds{{resource="{kind}"}}' for kind in ("pods", "nodes")} <= lags.keys()
        assert all(0 <= value < 120 for value in lags.values())
        assert (0, 1) == (metrics["maar_config_refused_total"], metrics["maar_leader"])

        await standby.until_ready(cluster)
        await cluster.eventually(lambda: standby.says("standing by"), "the other waits")
        metrics = standby.metrics()
        assert (0, 0, 0) == tuple(
            metrics[name] for name in ("maar_leader", "maar_cycle_seconds_count", "maar_binds_total")
        )

    tell(kubeconfig, story)


def test_not_ready_and_no_cycle_before_everything_was_listed(box: EmbeddedServer, tmp_path: Path, start: Start) -> None:
    kubeconfig = box.kubeconfig(tmp_path / "kubeconfig")

    async def story(cluster: Live) -> None:
        await cluster.pod("train", gpu=1)
        box.faults.fail_codes, box.faults.fails = (500,), lambda method, path: path.endswith("/nodes")
        box.faults.fail_share = 1.0
        run = start(kubeconfig, "--no-leader-elect")
        await cluster.eventually(
            lambda: run.get("/readyz") == (503, "not listed yet: nodes"), "all but nodes is listed"
        )
        assert (200, "ok") == run.get("/healthz")
        assert 0 == run.metrics()["maar_cycle_seconds_count"]
        box.faults.clear()
        await run.until_ready(cluster)
        await cluster.until(lambda ps: where(ps) == {"train": "n0"})

    tell(kubeconfig, story, nodes=1)


def test_alive_but_not_ready_without_a_server(box: EmbeddedServer, tmp_path: Path, start: Start) -> None:
    kubeconfig = box.kubeconfig(tmp_path / "kubeconfig")

    async def story(cluster: Live) -> None:
        box.faults.refuse = True
        run = start(kubeconfig)
        for path, answer in (("/healthz", (200, "ok")), ("/readyz", (503, "not connected yet"))):
            await cluster.eventually(lambda p=path, a=answer: run.get(p) == a, path)  # type: ignore[misc]
        assert 0 == await stop(run), "it may be stopped while it waits"

    tell(kubeconfig, story, nodes=1)


# -- the lease


def test_without_leader_election_a_second_process_ends_and_names_the_first(kubeconfig: Path, start: Start) -> None:
    async def story(cluster: Live) -> None:
        first = start(kubeconfig, "--lease-duration", "3")
        await cluster.eventually(lambda: first.says("leading as"), "it leads")
        second = start(kubeconfig, "--lease-duration", "3", "--no-leader-elect")
        await cluster.eventually(lambda: not second.lives, "the second has ended")
        assert 3 == second.end()
        assert second.says(f"lease `{NAMESPACE}/maar` is held by `{socket.gethostname()}_")
        first.end(signal.SIGKILL)
        third = start(kubeconfig, "--lease-duration", "300", "--no-leader-elect")
        await cluster.eventually(lambda: third.says("leading as"), "a killed process on this host is not waited for")
        lease = await cluster.get(LEASES.path(NAMESPACE, "maar"))
        assert (300, "2") == (lease["spec"]["leaseDurationSeconds"], lease["metadata"]["annotations"]["maar.dev/epoch"])

    tell(kubeconfig, story, nodes=1)


@pytest.mark.parametrize("seconds", ["2", "301", "1.5", "many"])
def test_a_lease_duration_out_of_bounds_is_refused(seconds: str) -> None:
    ended = subprocess.run([*MAAR, "run", "--lease-duration", seconds], capture_output=True, text=True, check=False)
    assert 2 == ended.returncode
    assert "Invalid value for '--lease-duration'" in ended.stderr


# -- logs


def test_every_line_of_a_json_log_is_an_object(kubeconfig: Path, start: Start, tmp_path: Path) -> None:
    config = tmp_path / "maar.yaml"
    config.write_text(ALLOCATE)

    async def story(cluster: Live) -> None:
        await cluster.pod("alone")
        run = start(kubeconfig, "--log-format", "json", "--config", str(config))
        await run.until_ready(cluster)
        config.write_text(ALLOCATE.replace("gang", "gnag"))
        await cluster.eventually(lambda: run.says("configuration refused"), "the typo is refused")
        assert 0 == await stop(run)
        lines = [json.loads(line) for line in run.log.read_text().splitlines()]
        assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
        times = [datetime.fromisoformat(line["time"]) for line in lines]
        assert sorted(times) == times
        assert all(time.tzinfo is not None for time in times)
        server, listed = (line["message"] for line in lines[:2])
        access = load_access(str(kubeconfig))
        assert f"Maar {__version__} on {access.server}, for pods with schedulerName maar" == server
        assert "initial lists complete: nodes: 2, pods: 1" == listed
        (refused,) = [line for line in lines if line["level"] == "error"]
        assert ("maar.config", True) == (refused["logger"], "did you mean `gang`?" in refused["message"])
        assert ("info", "stopped") == (lines[-1]["level"], lines[-1]["message"])

    tell(kubeconfig, story)


# -- stopping


def test_a_stop_gives_the_lease_back_and_lets_writes_arrive(
    kubeconfig: Path, start: Start, request: pytest.FixtureRequest
) -> None:
    """A gang of 150 pods is being bound, 64 pods at a time: it is complete when the process has ended."""

    async def story(cluster: Live) -> None:
        await cluster.group("train", 150)
        grouped = {"annotations": {"scheduling.k8s.io/group-name": "train"}}
        await asyncio.gather(*(cluster.pod(f"train-{i}", metadata=grouped) for i in range(150)))
        embedded = "embedded" in request.node.name
        if embedded:
            request.getfixturevalue("box").faults.lag = 0.2
        run = start(kubeconfig)
        pods = await cluster.until(lambda ps: any(p.node for p in ps), "the first are bound")
        middle = sum(bool(p.node) for p in pods)
        assert await holder(cluster)
        os.kill(run.pid, signal.SIGTERM)
        assert 0 == await stop(run)
        assert "" == await holder(cluster), "given back"
        assert 150 == sum(bool(p.node) for p in await cluster.pods())
        assert middle < 150 or not embedded, "in the middle, for certain where the server is slow"
        assert run.log.read_text().rstrip().endswith("stopped")

    tell(kubeconfig, story, nodes=3)


def test_nobody_is_taken_for_another_in_the_lease() -> None:
    """Two replicas with the same identity would renew each other's lease, and both would lead."""
    assert 2 == len({identity(), identity()})
    assert identity().startswith(f"{socket.gethostname()}_")


# -- configuration


def test_a_mounted_configuration_with_a_typo_is_refused_in_log_event_and_metric(
    kubeconfig: Path, start: Start, tmp_path: Path
) -> None:
    """The file changes as by the kubelet: a new folder and a swapped link. Without `gang`, a part of a gang starts."""
    mount = tmp_path / "mount"
    mount.mkdir()

    def bring(name: str, text: str) -> None:
        (mount / name).mkdir()
        (mount / name / "maar.yaml").write_text(text)
        (mount / "..tmp").symlink_to(name)
        (mount / "..tmp").rename(mount / "..data")

    bring("..1", ALLOCATE)
    (mount / "maar.yaml").symlink_to("..data/maar.yaml")

    async def told(cluster: Live) -> bool:
        return bool(await events(cluster, "ConfigurationRefused"))

    async def story(cluster: Live) -> None:
        run = start(kubeconfig, "--config", str(mount / "maar.yaml"))
        await run.until_ready(cluster)
        await cluster.gang("huge", 3, gpu=8)
        await cluster.until(lambda ps: all(p.message for p in ps) and len(ps) == 3, "huge has reasons")
        bring("..2", ALLOCATE.replace("gang", "gnag"))
        await cluster.eventually(lambda: run.metrics()["maar_config_refused_total"] == 1, "the metric counts it")
        assert run.says("configuration refused, the previous one stays in use")
        await cluster.eventually(lambda: told(cluster), "an event tells of it")
        (event,) = await events(cluster, "ConfigurationRefused")
        assert ("Warning", "Lease", "maar") == (
            event["type"],
            event["involvedObject"]["kind"],
            event["involvedObject"]["name"],
        )
        for text in (run.log.read_text(), event["message"]):
            assert f"{mount}/maar.yaml: tiers[0].plugins[1]" in text
            assert "unknown plugin `gnag`; did you mean `gang`?" in text
        await cluster.gang("small", 1, gpu=1)
        pods = await cluster.until(bound("small", 1))
        assert not any(p.node for p in pods if p.group == "huge"), "the one before stays"
        bring("..3", ALLOCATE.replace("  - {name: gang}\n", ""))
        await cluster.until(lambda ps: any(p.node for p in ps if p.group == "huge"), "the new one is in force")
        assert 1 == run.metrics()["maar_config_refused_total"]

    tell(kubeconfig, story)


def test_a_bad_configuration_at_the_start_ends_the_command(tmp_path: Path) -> None:
    path = tmp_path / "maar.yaml"
    path.write_text(ALLOCATE.replace("gang", "gnag"))
    for file, why in ((path, "unknown plugin `gnag`; did you mean `gang`?"), (tmp_path / "no.yaml", "No such file")):
        done = subprocess.run([*MAAR, "run", "--config", str(file)], capture_output=True, text=True, check=False)
        assert 2 == done.returncode
        assert done.stderr.startswith(f"{file}: ")
        assert why in done.stderr


def test_a_lenient_run_starts_with_what_it_does_not_know(tmp_path: Path) -> None:
    path, nowhere = tmp_path / "maar.yaml", tmp_path / "no-kubeconfig"
    path.write_text(ALLOCATE.replace("gang", "gnag"))
    command = [*MAAR, "run", "--lenient", "--config", str(path), "--kubeconfig", str(nowhere), "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 3 == done.returncode, "the configuration is used, and only the cluster is missing"
    assert "unknown plugin `gnag` is skipped: " in done.stderr
    assert str(nowhere) in done.stderr


def test_what_cannot_be_read_written_or_served_at_the_start_ends_the_command_with_a_word(tmp_path: Path) -> None:
    """Also brakes with a typo: they must not disable all brakes."""
    kubeconfig = EmbeddedServer().kubeconfig(tmp_path / "kubeconfig")  # the server is not used
    brakes = tmp_path / "brakes.yaml"
    brakes.write_text("pausd: true")
    record = tmp_path / "no" / "such" / "folder.rec"
    token = tmp_path / "token"
    token.write_text("\n")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    huge = tmp_path / "huge.yaml"
    huge.write_bytes(b"#" * 10_000_000)
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        for options, code, why in (
            (("--brakes", str(brakes)), 2, f"{brakes}: pausd: unknown brake `pausd`; did you mean `paused`?"),
            (("--brakes", str(fifo)), 2, f"{fifo}: expected a regular file, got a FIFO"),
            (("--config", str(fifo)), 2, f"{fifo}: expected a regular file, got a FIFO"),
            (("--config", "/dev/zero"), 2, "/dev/zero: expected a regular file, got a device"),
            (("--config", str(tmp_path)), 2, f"{tmp_path}: Is a directory"),
            (("--config", str(huge)), 2, f"{huge}: too large: expected at most 1,048,576 bytes, got 10,000,000"),
            (("--history-token", str(fifo)), 2, f"{fifo}: expected a regular file, got a FIFO"),
            (("--kubeconfig", str(fifo)), 3, f"{fifo}: expected a regular file, got a FIFO"),
            (("--kubeconfig", str(huge)), 3, f"{huge}: too large: expected at most 1,048,576 bytes, got 10,000,000"),
            (("--record", str(fifo)), 3, f"{fifo}: expected a regular file, got a FIFO"),
            (("--record", str(record)), 3, f"{record}: No such file or directory"),
            (("--history-token", str(record)), 2, f"{record}: No such file or directory"),
            (("--history-token", str(token)), 2, f"{token}: expected a token, got an empty file"),
            (("--http-port", str(port)), 3, f"port {port}: "),
            (("--http-port", "65536"), 2, "Error: Invalid value for '--http-port': 65536 is not in the range"),
        ):
            command = [*MAAR, "run", "--kubeconfig", str(kubeconfig), "--history", "none", "--http-port", "0", *options]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert code == done.returncode
            assert done.stderr.splitlines()[-1].startswith(why), done.stderr
            assert "Traceback" not in done.stderr
            assert "Unclosed" not in done.stderr


# -- brakes


def test_brakes_hold_and_let_go_while_it_runs(kubeconfig: Path, start: Start, tmp_path: Path) -> None:
    """Two gangs of two pods run, and two pods of high priority need a node each: the file decides what happens."""
    brakes = tmp_path / "brakes.yaml"
    brakes.write_text("paused: true")

    def over(begun: float) -> bool:
        """Whether the minute is over for which evictions are counted: then the next ones may go."""
        return time.monotonic() - begun > 60.0

    def runs(pods: list[Seen]) -> int:
        return sum(bool(pod.node) for pod in pods if pod.name.startswith("high"))

    def waits(pod: Seen, text: str) -> bool:
        return pod.name.startswith("high") and not pod.node and text in pod.message

    async def story(cluster: Live) -> None:
        async def all_say(text: str) -> None:
            await cluster.until(lambda ps: sum(waits(p, text) for p in ps) == 2, f"both say: {text}")

        await cluster.priority("high", 1000)
        run = start(kubeconfig, "--brakes", str(brakes))
        for i in range(2):
            await cluster.gang(f"low{i}", 2, gpu=4)
            await cluster.until(bound(f"low{i}", 2))
        for i in range(2):
            await cluster.pod(f"high{i}", gpu=8, priorityClassName="high")
        await all_say("needs evictions: evictions are paused")
        brakes.write_text("queuesOff: [default]")
        await all_say("needs evictions: evictions from queue `default` are off")
        brakes.write_text("paused: often")
        await cluster.eventually(
            lambda: run.says("brake file refused, the previous one stays in use"), "nonsense is refused"
        )
        assert not any(p.leaving for p in await cluster.pods())
        assert not [name for name in run.metrics() if name.startswith("maar_evictions_total")]
        evicted = 'maar_evictions_total{cause="preempted",queue="default"}'
        begun = time.monotonic()
        brakes.write_text("perMinute: 3")
        await cluster.until(lambda ps: runs(ps) == 1 or (over(begun) and runs(ps) > 0), "one may")
        await cluster.until(
            lambda ps: sum(waits(p, "at most 3 pods are evicted per minute") for p in ps) == 1 or over(begun),
            "the other one must wait a minute",
        )
        await cluster.eventually(lambda: run.metrics().get(evicted, 0) >= 2, "the page is a second old at most")
        assert 2 == run.metrics()[evicted] or over(begun)
        brakes.unlink()
        await cluster.until(lambda ps: [True, True] == [bool(p.node) for p in ps], "no brakes: both run, alone")
        await cluster.eventually(lambda: run.metrics()[evicted] == 4, "the page is a second old at most")

    tell(kubeconfig, story)


# -- shadow mode


def test_shadow_mode_beside_another_scheduler_writes_nothing_and_says_how_they_differ(
    kubeconfig: Path, start: Start, tmp_path: Path
) -> None:
    """The other scheduler never evicts, and ignores pods with a second scheduler name."""
    gentle = tmp_path / "gentle.yaml"
    gentle.write_text(ALLOCATE)

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        await cluster.gang("low", 2, gpu=8)
        await cluster.pod("other", schedulerName="second")
        before = await cluster.versions()
        names = ("--scheduler-name", "maar", "--scheduler-name", "second")
        options = ("--shards", "2", "--history", str(tmp_path / "history.db"))
        shadow = start(kubeconfig, "--dry-run", *options, *names)
        await shadow.until_ready(cluster)
        await cluster.eventually(lambda: shadow.metrics()["maar_binds_total"] >= 3, "all would be bound")
        assert before == await cluster.versions(), "nothing is written: no lease, no default queue, no ShardMap"
        assert None is await holder(cluster)

        other = start(kubeconfig, "--config", str(gentle))
        await cluster.until(bound("low", 2), "the other one binds")
        await cluster.pod("high", gpu=8, priorityClassName="high")
        await cluster.until(lambda ps: any(p.name == "high" and p.message for p in ps), "high waits there")
        cycles = shadow.metrics()["maar_cycle_seconds_count"]
        await cluster.eventually(
            lambda: 'maar_evictions_total{cause="preempted",queue="default"}' in shadow.metrics(), "here it would not"
        )
        assert 0 == await stop(other)
        at_rest = await cluster.versions()
        await cluster.nodes(1, gpu=4, first=9)  # a change, so that there is a cycle
        await cluster.eventually(lambda: shadow.metrics()["maar_cycle_seconds_count"] > cycles, "it decides again")
        assert 0 == await stop(shadow)
        changed = {name for name, _ in at_rest.items() ^ (await cluster.versions()).items()}
        assert {"n9"} == {name.rpartition("/")[2] for name in changed}
        assert not (tmp_path / "history.db").exists()
        (line,) = [line for line in shadow.log.read_text().splitlines() if "shadow: " in line]
        assert "2 pods started by both (2 on the same node, " in line
        assert "0 only by the other, 1 only by Maar, 2 evictions only by Maar" in line

    tell(kubeconfig, story)


# -- recordings


def test_a_recording_of_the_command_is_decided_again_to_the_byte_by_the_command(
    kubeconfig: Path, start: Start, tmp_path: Path
) -> None:
    """Also if the configuration changed in between and the scheduler was killed."""
    path, config = tmp_path / "live.rec", tmp_path / "maar.yaml"
    config.write_text(ALLOCATE)

    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        run = start(kubeconfig, "--record", str(path), "--config", str(config))
        await cluster.gang("low", 2, gpu=8)
        await cluster.until(bound("low", 2))
        await cluster.gang("high", 1, gpu=8, priorityClassName="high")
        await cluster.until(lambda ps: any(p.group == "high" and p.message for p in ps), "it never evicts")
        default = subprocess.run([*MAAR, "config", "show"], capture_output=True, text=True, check=True)
        config.write_text(default.stdout)
        await cluster.until(bound("high", 1), "now it does")
        await stop(run, signal.SIGKILL)

    tell(kubeconfig, story)
    recorded = [plan_data(cycle.plan) for cycle in read_recording(path)]
    assert 2 == sum(len(plan["evict"]) for plan in recorded)
    again = subprocess.run([*MAAR, "plan", str(path), "-o", "json"], capture_output=True, text=True, check=False)
    assert (0, "") == (again.returncode, again.stderr)
    plans = msgspec.json.decode(again.stdout)["cycles"]
    assert msgspec.json.encode(recorded) == msgspec.json.encode(plans)
    other = subprocess.run(
        [*MAAR, "plan", str(path), "-o", "json", "--config", "gentle.yaml"],
        cwd=_gentle(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == other.returncode, other.stderr
    assert 0 == sum(len(plan["evict"]) for plan in json.loads(other.stdout)["cycles"])


def _gentle(folder: Path) -> Path:
    (folder / "gentle.yaml").write_text(ALLOCATE)
    return folder


# -- options


def test_names_nodes_and_events_as_the_options_say(kubeconfig: Path, start: Start) -> None:
    async def story(cluster: Live) -> None:
        await cluster.nodes(1, gpu=8, first=5, labels={"pool": "ours", "gpu": "a100"})
        await cluster.nodes(1, gpu=8, first=6, labels={"pool": "ours", "gpu": "t4"})
        options = ["--scheduler-name", "maar", "--scheduler-name", "volcano", "--pod-events"]
        start(kubeconfig, *options, "--node-selector", "pool=ours,gpu=a100")
        await cluster.pod("mine", gpu=1)
        await cluster.pod("volcanos", gpu=1, schedulerName="volcano")
        await cluster.pod("theirs", gpu=1, schedulerName="other")
        pods = await cluster.until(lambda ps: sum(bool(p.node) for p in ps) == 2)
        assert {"mine": "n5", "volcanos": "n5", "theirs": ""} == where(pods)

        async def told() -> bool:
            about = Counter(e["involvedObject"]["name"] for e in await events(cluster, "Scheduled"))
            return about.keys() == {"mine", "volcanos"} and f"Successfully assigned {NAMESPACE}/mine to n5" in {
                e["message"] for e in await events(cluster, "Scheduled")
            }

        await cluster.eventually(told, "an event for each pod")

    tell(kubeconfig, story)


def test_victims_are_deleted_if_the_option_says_so(kubeconfig: Path, start: Start) -> None:
    async def story(cluster: Live) -> None:
        await cluster.priority("high", 1000)
        start(kubeconfig, "--delete-victims")
        await cluster.pod("low", gpu=8, metadata={"finalizers": ["test.dev/wait"]})
        await cluster.until(lambda ps: bool(where(ps)["low"]))
        await cluster.pod("high", gpu=8, priorityClassName="high")
        await cluster.until(lambda ps: any(p.name == "low" and p.leaving for p in ps))
        conditions = (await cluster.get(PODS.path(NAMESPACE, "low")))["status"].get("conditions", [])
        assert "DisruptionTarget" not in {c["type"] for c in conditions}, "which the Eviction API would leave"
        await cluster.let_go("low")

    tell(kubeconfig, story, nodes=1)


# -- rights


@pytest.mark.real
def test_a_missing_right_is_named_and_found_once_it_is_granted(real: RealCluster, start: Start) -> None:
    """The user has no rights, then all but bind, then all that it needs."""
    rights, granted = "/apis/rbac.authorization.k8s.io/v1", list[str]()

    def grant(name: str, *rules: dict[str, list[str]]) -> None:
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
        who = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "maar"}]
        of = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {**role, "kind": "ClusterRoleBinding", "subjects": who, "roleRef": of}
        granted.append(name)
        real.apply([{**role, "rules": list(rules)}, binding])

    async def story(cluster: Live) -> None:
        run = start(real.kubeconfig_of("maar"))
        await cluster.pod("train", gpu=1)
        for verb, resource in (("list", "pods"), ("list", "nodes"), ("list", "podgroups.scheduling.volcano.sh")):
            line = f"forbidden: grant `{verb}` on `{resource}` to `maar`"
            await cluster.eventually(lambda t=line: run.says(t), line)  # type: ignore[misc]
        assert (503, 200) == (run.get("/readyz")[0], run.get("/healthz")[0])
        grant("maar-reads", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]})
        grant("maar-leads", {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]})
        line = "forbidden: grant `create` on `pods/binding` in namespace `default` to `maar`"
        await cluster.eventually(lambda: run.says(line), "it goes on, as far as it may")
        await cluster.eventually(lambda: run.says("grant `create` on `events.events.k8s.io`"), "events too")
        grant("maar-binds", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
        await cluster.until(lambda ps: bool(where(ps)["train"]), "without a restart")

    try:
        tell(real.kubeconfig, story, nodes=1)
    finally:
        for name in granted:
            for kind in ("clusterrolebindings", "clusterroles"):
                real.request("DELETE", f"{rights}/{kind}/{name}")
        real.clear()
