"""`maar demo`: the picture, the ledger and its score from invented events; the whole story in a separate process."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.live import connected
from tests.support.patience import wait_until

from maar.cli.demo import Sayer
from maar.demo.box import definitions
from maar.demo.picture import GPU, Column, columns, picture
from maar.demo.score import EVICTED, LOST, Ledger, scoreboard
from maar.demo.sizes import POOL, bars, read
from maar.kube.wire.api_resources import QUEUES

Obj = dict[str, Any]


def node(name: str, gpus: int = 2, ready: str = "True") -> Obj:
    status = {"allocatable": {GPU: str(gpus), "pods": "10"}, "conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "status": status}


def job(name: str, pods: int) -> Obj:
    return {"metadata": {"name": name}, "spec": {"parallelism": pods}}


def pod(name: str, on: str = "", *, gang: str = "g", gpus: int = 1, phase: str = "Pending", why: str = "") -> Obj:
    spec: Obj = {"containers": [{"name": "c", "resources": {"limits": {GPU: str(gpus)}}}]}
    if on:
        spec["nodeName"] = on
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": gang, "uid": gang}]
    metadata: Obj = {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners}
    status: Obj = {"phase": phase}
    if why:
        metadata["deletionTimestamp"] = "2026-11-01T10:00:00Z"
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": why}]
    return {"metadata": metadata, "spec": spec, "status": status}


def ledger(*events: tuple[float, str, Obj], pods: int = 2) -> Ledger:
    """A ledger of two nodes with two GPUs each and a gang, after some pod events."""
    made = Ledger()
    for name in ("n-01", "n-02"):
        made.take("nodes", "ADDED", node(name), 0.0)
    made.take("jobs", "ADDED", job("g", pods), 0.0)
    for now, type, obj in events:
        made.take("pods", type, obj, now)
    return made


# -- lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "  14.0 s  created job giant (17 x 8 GPUs, queue research)",
            ["  14.0 s  created job giant (17 x 8 GPUs, queue", " " * 10 + "research)"],
        ),
        (
            "            » preempted: gang of `default/resnet` (priority 10)",
            ["            » preempted: gang of `default/resnet`", " " * 14 + "(priority 10)"],
        ),
        (
            "          mean wait      1.44 s from created to bound",
            ["          mean wait      1.44 s from created to", " " * 25 + "bound"],
        ),
        (
            "BROKEN: a gang runs in part: bert: 1 of 4 pods have nodes",
            ["BROKEN: a gang runs in part: bert: 1 of 4 pods", "have nodes"],
        ),
        ("it fits", ["it fits"]),
    ],
)
def test_on_a_terminal_a_long_line_goes_on_below_its_first_word(line: str, expected: list[str]) -> None:
    assert expected == said(line, terminal=True)
    assert [line] == said(line, terminal=False)


def said(line: str, *, terminal: bool) -> list[str]:
    """A line as printed on a terminal with 50 columns."""
    file = StringIO()
    Sayer(Console(file=file, force_terminal=terminal, no_color=True, width=50, highlight=False, soft_wrap=True))(line)
    return [part.rstrip() for part in re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines()]


# -- the picture


def test_a_picture_has_a_column_for_each_node_and_a_cell_for_each_gpu() -> None:
    shown = picture([Column("n-01", 2, True, "AB"), Column("n-02", 3, True, "C"), Column("n-03", 2, False, "d")])
    assert ["01 02 03", " A  C  d", " B  .  x", "    ."] == shown


def test_columns_hold_pods_that_take_room_sorted_by_letter() -> None:
    pods = [
        pod("b", "n-01", gang="bert"),
        pod("a", "n-01", gang="alex"),
        pod("done", "n-02", gang="bert", phase="Succeeded"),
        pod("going", "n-02", gang="bert", gpus=2, why=EVICTED),
        pod("waits", gang="bert"),
        pod("stranger", "n-03", gang="other"),
    ]
    nodes = [node("n-02", 2), node("n-01", 4), node("n-03", 2, "Unknown")]
    expected = [Column("n-01", 4, True, "AB"), Column("n-02", 2, True, "bb"), Column("n-03", 2, False, "?")]
    assert expected == columns(nodes, pods, {"bert": "B", "alex": "A"})


# -- the ledger


def test_a_node_that_holds_too_much_is_noticed_however_short() -> None:
    made = ledger(
        (1, "ADDED", pod("a", "n-01", gpus=2)),
        (2, "ADDED", pod("b", "n-01")),
        (2, "DELETED", pod("b", "n-01")),
    )
    assert [f"n-01: {GPU}: 3 of 2"] == made.over
    assert f"over-committed: n-01: {GPU}: 3 of 2" in made.problems()


def test_what_is_done_or_gone_takes_no_room() -> None:
    made = ledger(
        (1, "ADDED", pod("a", "n-01", gpus=2)),
        (2, "MODIFIED", pod("a", "n-01", gpus=2, phase="Succeeded")),
        (3, "ADDED", pod("b", "n-01", gpus=2)),
        (4, "DELETED", pod("b", "n-01", gpus=2)),
        (5, "ADDED", pod("c", "n-01", gpus=2)),
    )
    assert [] == made.over
    assert 2 == made.gpus_used


@pytest.mark.parametrize(("bound", "expected"), [(0, []), (1, ["g: 1 of 3 pods"]), (2, ["g: 2 of 3 pods"]), (3, [])])
def test_a_gang_is_in_part_when_some_of_it_has_nodes_and_some_has_not(bound: int, expected: list[str]) -> None:
    made = ledger(*((1.0, "ADDED", pod(f"p{i}", "n-01" if i < bound else "", gpus=0)) for i in range(3)), pods=3)
    assert expected == made.in_part()


def test_a_gang_evicted_in_part_is_a_problem_and_a_whole_one_is_none() -> None:
    first, second = pod("a", "n-01", why=EVICTED), pod("b", "n-02", why=EVICTED)
    made = ledger((1, "ADDED", pod("a", "n-01")), (1, "ADDED", pod("b", "n-02")), (2, "MODIFIED", first))
    assert ["g: 1 of 2 pods"] == made.evicted_in_part()
    made.take("pods", "MODIFIED", second, 3)
    assert [] == made.problems()


def test_a_pod_on_two_nodes_or_refused_by_a_kubelet_is_a_problem() -> None:
    made = ledger((1, "ADDED", pod("a", "n-01")), (2, "MODIFIED", pod("a", "n-02")), pods=1)
    made.take("pods", "ADDED", pod("b", "n-02", phase="Failed"), 3)
    assert ["a pod was bound twice: a", "a pod was bound but rejected: b"] == made.problems()


def test_the_score_is_counted_from_events() -> None:
    made = ledger(
        (0, "ADDED", pod("a")),
        (0, "ADDED", pod("b")),
        (1, "MODIFIED", pod("a", "n-01")),
        (3, "MODIFIED", pod("b", "n-02")),
        (4, "MODIFIED", pod("b", "n-02", why=LOST)),
        (4, "DELETED", pod("b", "n-02", why=LOST)),
    )
    made.let_time_pass(10)
    assert {
        "bound": "2 pods of 1 gang",
        "evicted": "0 pods; lost with their node: 1 (g)",
        "over-commits": "0 (checked after each of 4 changes to pods on nodes)",
        "gangs in part": "1 of 1: g: 1 of 2 pods",
        # One GPU for 9 s and one for 1 s, of four GPUs for 10 s.
        "utilisation": "1 of 4 GPUs now, 25 % since the first pod",
        "mean wait": "2.00 s from created to bound (longest: 3.00 s)",
    } == dict(scoreboard(made))


def test_our_definitions_are_found() -> None:
    names = {d["metadata"]["name"] for d in definitions()}
    volcanos = {"podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"}
    assert volcanos | {"shardmaps.maar.dev", "shards.maar.dev"} == names


def test_a_pod_that_makes_no_sense_breaks_nothing() -> None:
    strange = pod("a", "n-01")
    strange["spec"]["containers"][0]["resources"]["limits"][GPU] = "many"
    assert [] == ledger((1, "ADDED", strange), pods=1).problems()


# -- elastic jobs


def elastic(size: int, *, name: str = "e", low: int = 2, high: int = 4, suspend: bool = False, ended: str = "") -> Obj:
    spec = {"nodeSelector": {POOL: "a"}, "containers": [{"name": "c", "resources": {"limits": {GPU: "1"}}}]}
    bounds = {"maar.dev/min-workers": str(low), "maar.dev/max-workers": str(high)}
    roles = {"Launcher": {"replicas": 1}, "Worker": {"replicas": size, "template": {"spec": spec}}}
    return {
        "metadata": {"name": name, "annotations": bounds},
        "spec": {"runPolicy": {"suspend": suspend}, "mpiReplicaSpecs": roles},
        "status": {"conditions": [{"type": ended, "status": "True"}]} if ended else {},
    }


def breathing(*objects: Obj) -> Ledger:
    made = ledger()
    for obj in objects:
        made.take("mpijobs", "MODIFIED", obj, 1)
    return made


def test_changes_of_size_are_counted() -> None:
    sizes = (elastic(2, suspend=True), elastic(4), elastic(4), elastic(2), elastic(3), elastic(3, suspend=True))
    made = breathing(*sizes, elastic(3), elastic(3, ended="Succeeded"))
    score = dict(scoreboard(made))
    assert "5 (2 started, 1 grown, 1 shrunk, 1 stopped)" == score["resizes"]
    assert "0 (1 elastic jobs)" == score["out of bounds"]
    assert {} == made.sizes.sizes(), "it has ended"


@pytest.mark.parametrize(("size", "expected"), [(1, ["e: 1 worker, of 2 to 4"]), (5, ["e: 5 workers, of 2 to 4"])])
def test_a_size_out_of_bounds_is_noticed_however_short(size: int, expected: list[str]) -> None:
    made = breathing(elastic(2), elastic(size), elastic(2))
    assert expected == made.sizes.outside
    assert [f"an elastic job was out of its bounds: {expected[0]}"] == made.problems()


@pytest.mark.parametrize(("bound", "expected"), [(0, []), (2, ["e: 2 of 3 pods"]), (3, []), (4, [])])
def test_an_elastic_job_is_in_part_below_its_minimum_and_launcher(bound: int, expected: list[str]) -> None:
    made = breathing(elastic(3))
    for i in range(4):
        made.take("pods", "ADDED", pod(f"p{i}", "n-01" if i < bound else "", gang="e", gpus=0), 2)
    assert expected == made.in_part()
    made.take("mpijobs", "MODIFIED", elastic(3, ended="Failed"), 3)
    assert [] == made.in_part(), "what has ended is not in part"


def test_bars_show_what_a_job_has_what_it_could_use_and_what_it_had() -> None:
    jobs = [read("mpijobs", elastic(3, high=6)), read("mpijobs", elastic(2, name="d"))]
    assert [
        "a     d        ■■··    0 -> 2    (2..4 x 1 GPU)",
        "a     e        ■■■···  3         (2..6 x 1 GPU)",
    ] == bars(jobs, {"e": 3})


# -- the story


@contextmanager
def demo(folder: Path, *options: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """`maar demo` without a terminal, in its own process session, with its files in `folder`."""
    command = [sys.executable, "-m", "maar.cli.main", "demo", "--speed", "50", *options]
    environment = {**os.environ, "TMPDIR": str(folder), "XDG_STATE_HOME": str(folder), **variables}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env=environment,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def left_behind(folder: Path) -> list[str]:
    """Files, and processes that refer to them."""
    running = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            running.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [*(path.name for path in folder.iterdir()), *(line for line in running if str(folder) in line)]


async def look_around(kubeconfig: Path) -> None:
    """`--keep` leaves a cluster with a scheduler, usable with its kubeconfig."""
    async with connected(kubeconfig) as cluster:
        assert {"default", "product", "research"} == {
            queue["metadata"]["name"] for queue in (await cluster.get(QUEUES.path()))["items"]
        }
        await cluster.pod("mine")
        await cluster.until(lambda pods: any(p.name == "mine" and p.phase == "Running" for p in pods), "mine runs")


def look_at_the_page(url: str) -> None:
    """The page and its API tell the same story, without a token."""

    def got(path: str) -> Any:
        with urllib.request.urlopen(f"{url}{path}", timeout=30) as answer:
            return answer.read().decode()

    assert "<title>" in got("")
    assert {"ready": 16} == json.loads(got("api/v1/cluster"))["cluster"]["nodes"]

    def sizes() -> dict[str, int]:
        jobs = {job["name"]: job for job in json.loads(got("api/v1/jobs"))["items"]}
        return {name: jobs[name]["elastic"]["now"] for name in ("gpt", "clip", "dino")}

    # It follows the cluster at a low priority.
    wait_until(lambda: sizes() == {"gpt": 16, "clip": 8, "dino": 4}, "the page shows the end of the story")
    story = json.loads(got("api/v1/jobs/default/gpt?unblock=false"))["detail"]["story"]
    assert {"Created", "Scheduled", "Resized"} <= {entry["what"] for entry in story}
    assert any("for `default/rush`" in entry["words"] for entry in story) or any(
        "for `default/rush`" in entry["words"]
        for name in ("clip", "dino")
        for entry in json.loads(got(f"api/v1/jobs/default/{name}?unblock=false"))["detail"]["story"]
    ), "who made room, and for whom"
    story = json.loads(got("api/v1/jobs/default/resnet?unblock=false"))["detail"]["story"]
    assert any("for `default/urgent`" in entry["words"] and "4 pods" in entry["words"] for entry in story)
    recordings = [item["name"] for item in json.loads(got("api/v1/recordings"))["items"]]
    assert {"scheduler-1.rec", "scheduler-2.rec"} == set(recordings), "before and after the kill"
    decided = json.loads(got("api/v1/decisions?limit=1000&recording=scheduler-1.rec"))["items"]
    evicted = {(each["job"], each["beneficiary"]) for one in decided for each in one["evict"]}
    assert {("default/resnet", "default/urgent")} == evicted


@pytest.mark.slow
def test_the_story_is_told_to_its_end_is_kept_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with demo(tmp_path, "--keep") as process:
        assert process.stdout is not None
        out = ""
        for line in process.stdout:
            out += line
            if line == "Ctrl-C ends it\n":
                break
        kept = re.search(
            r"^still running; look around:\n  http://\S+\n  kubectl --kubeconfig (\S+) get pods", out, re.MULTILINE
        )
        assert kept is not None, out
        asyncio.run(look_around(Path(kept[1])))
        page = re.search(r"^the page: (http://127\.0\.0\.1:\d+/) ", out, re.MULTILINE)
        assert page is not None, out
        look_at_the_page(page[1])
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert (0, "") == (process.returncode, rest), out + rest
    assert "\x1b" not in out, "no colours without a terminal"
    assert [str(act) for act in range(1, 9)] == re.findall(r"^── (\d) ", out, re.MULTILINE)
    for line in (
        r"all 6 gangs run: 26 pods, 128 of 128 GPUs in use",
        r"all 4 pods of resnet were evicted, and no other pod; urgent runs",
        r"» preempted: gang of `default/resnet` \(priority 10\) for `default/urgent` \(priority 1000\)",
        r"» never on today's nodes: needs 17 pods together, all nodes hold 16 if nothing else runs",
        r"evicted for it, although its priority is high: 0",
        r"gpu-\d\d stops responding; it runs pods of speech",
        r"4 pods were lost; speech is whole again, on gpu",
        r"» config\.yaml: tiers\[1\]\.plugins\[5\].*unknown plugin `binpakc`; did you mean `binpack`\?",
        r"corrected the typo: applied without a restart",
        r"SIGKILL after 5 of 10 binds \(the process ended with -9\)",
        r"tenfold is whole: all 10 pods run; evicted for it: 0",
        r"bound 5 pods of the gang; 5 bound before",
        r"created MPIJob clip \(2 to 16 workers of 4 GPUs, on v100\), suspended",
        r"a100  gpt +■{16}  0 -> 16 ",
        r"a100  gpt +■{8}·{8}  16 -> 8 ",
        r"a100  whisper +■{8} +0 -> 8 ",
        r"v100  clip +■{8}·{8}  16 -> 8 ",
        r"v100  dino +■{4}·· +0 -> 4 ",
        r"whisper is done: its room is used at once\n +a100  gpt +■{16}  8 -> 16 ",
        r"created job rush .*; all 128 GPUs are in use",
        r"pods evicted for it: 0; elastic jobs stopped for it: 0",
        r"» from \d+ to \d+ workers: preempted: workers of `default/\w+` \(priority 100\) for `default/rush` ",
        r"rush is done; elastic jobs grow back:\n +a100  gpt +■{16} .*\n +v100  clip +■{8}·{8} .*\n +v100  dino +■{4}",
        r"^ +bound +\d+ pods of 15 gangs$",
        r"^ +evicted +4 pods \(resnet\); lost with their node: 4 \(speech\)$",
        r"^ +over-commits +0 ",
        r"^ +gangs in part +0 of 14$",
        r"^ +utilisation +128 of 128 GPUs now, \d+ % ",
        r"^ +mean wait +\d+\.\d\d s ",
        r"^ +resizes +\d+ \(4 started, \d+ grown, \d+ shrunk, 0 stopped\)$",
        r"^ +out of bounds +0 \(4 elastic jobs\)$",
    ):
        assert re.search(line, out, re.MULTILINE), f"{line}\n{out}"
    assert [] == left_behind(tmp_path)


@pytest.mark.slow
def test_an_interrupted_story_ends_cleanly(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "all 6 gangs run" in line:
                break
        os.killpg(process.pid, signal.SIGINT)  # to the whole group, as a terminal does
        out, _ = process.communicate(timeout=60)
    assert 130 == process.returncode, out
    assert "interrupted" in out
    assert [] == left_behind(tmp_path)


@pytest.mark.slow
def test_the_story_ends_when_its_time_is_up(tmp_path: Path) -> None:
    started = time.monotonic()
    with demo(tmp_path, "--keep", "--for", "2s") as process:
        out, _ = process.communicate(timeout=60)
    assert 0 == process.returncode, out
    assert "time is up: 2 s" in out
    assert "over-commits" in out
    assert time.monotonic() - started >= 2
    assert [] == left_behind(tmp_path)


@pytest.mark.slow
def test_without_a_page_none_is_started(tmp_path: Path) -> None:
    with demo(tmp_path, "--no-page", "--for", "0") as process:
        out, _ = process.communicate(timeout=60)
    assert (0, False) == (process.returncode, "the page" in out), out


@pytest.mark.slow
def test_on_a_terminal_it_is_kept_until_it_is_ended(tmp_path: Path) -> None:
    for options, words in (([], "ends on Ctrl-C"), (["--no-keep"], "ends by itself")):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "maar.cli.main", "demo", "--no-page", *options]
        environment = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "200"}
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        try:
            with os.fdopen(ours, "rb", buffering=0) as terminal:
                first = b""
                while b"queues research" not in first:
                    first += terminal.read(4096)
                process.send_signal(signal.SIGTERM)
                with suppress(OSError):  # the other side is closed
                    while terminal.read(4096):
                        pass
                assert 130 == process.wait(60)
        finally:
            process.kill()
            process.wait()
        assert words in first.decode(), options
    assert [] == left_behind(tmp_path)


@pytest.mark.slow
def test_a_screen_that_knows_few_letters_is_no_reason_to_stop(tmp_path: Path) -> None:
    with demo(tmp_path, "--for", "0", PYTHONIOENCODING="ascii") as process:
        out, _ = process.communicate(timeout=60)
    assert 0 == process.returncode, out
    assert "?? Score, from every write that the API server made ???" in out
