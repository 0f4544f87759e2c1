"""`maar plan` from end to end: manifests and options in, a plan or one message out."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import maar
from maar.cli.main import COMMANDS, main
from maar.config.file import read_config
from maar.controller.record import Frame, Recorder
from maar.decide import decide
from maar.model.snapshot import Snapshot
from maar.registry import catalog
from maar.testing.builders import cluster, node
from maar.testing.builders import gang as members

NODE = """
---
apiVersion: v1
kind: Node
metadata: {name: %s}
status: {allocatable: {cpu: 16, memory: 64Gi, nvidia.com/gpu: %s}}
"""
GROUP = """
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: %s}
spec: {minMember: %s}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {scheduling.k8s.io/group-name: %s}}
spec:
  schedulerName: %s
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: %s}}}]
"""


def gang(name: str, size: int, gpus: int, scheduler: str = "maar") -> str:
    pods = "".join(POD % (f"{name}-{i}", name, scheduler, gpus) for i in range(size))
    return GROUP % (name, size) + pods


FITS = NODE % ("n1", 4) + NODE % ("n2", 4) + gang("train", 4, 2)

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write text to a file, and return its path."""

    def written(text: str) -> str:
        file = tmp_path / "objects.yaml"
        file.write_text(text)
        return str(file)

    return written


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments], input=given, catch_exceptions=False)


def cycles(*arguments: str, given: str | None = None) -> list[dict[str, Any]]:
    result = run("-o", "json", *arguments, given=given)
    assert 0 == result.exit_code, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)["cycles"]
    return found


def test_a_gang_that_fits_is_bound_and_then_nothing_moves(write: Write) -> None:
    first, *later = cycles("--cycles", "6", write(FITS))
    assert {f"default/train-{i}" for i in range(4)} == set(first["bind"])
    assert ["n1", "n1", "n2", "n2"] == sorted(first["bind"].values())
    assert ["default/train"] == first["admit"]
    assert 5 == len(later)
    for cycle in later:
        assert ({}, [], [], []) == (cycle["bind"], cycle["admit"], cycle["evict"], cycle["waiting"])


def test_a_gang_that_does_not_fit_waits_with_a_reason(write: Write) -> None:
    (cycle,) = cycles(write(NODE % ("n1", 4) + gang("train", 4, 2)))
    assert {} == cycle["bind"]
    (waits,) = cycle["waiting"]
    assert "default/train" == waits["job"]
    assert {"plugin", "code", "message"} <= set(waits["reasons"][0])


def test_the_same_input_in_any_order_gives_the_same_bytes(write: Write) -> None:
    documents = FITS.split("---")
    one = run("-o", "json", "--now", "0", write("---".join(documents))).stdout
    other = run("-o", "json", "--now", "0", write("---".join(documents[::-1]))).stdout
    assert one == other


def test_text_is_for_people(write: Write) -> None:
    result = run(write(FITS + gang("big", 1, 8)))
    assert 0 == result.exit_code
    lines = result.stdout.splitlines()
    assert "default/train   4      n1 x2, n2 x2" in lines
    assert any(line.startswith("default/big   ") and "never on today's nodes: 1 pod needs 8" in line for line in lines)
    assert "all: 2 nodes, in use: cpu 0/32, memory 0/128Gi, pods 4/220, nvidia.com/gpu 8/8" in lines


def test_standard_input() -> None:
    assert 4 == len(cycles("-", given=FITS)[0]["bind"])


def test_several_paths_are_one_cluster(tmp_path: Path) -> None:
    for name, text in (("nodes", NODE % ("n1", 8)), ("jobs", gang("train", 4, 2))):
        (tmp_path / f"{name}.yaml").write_text(text)
    assert 4 == len(cycles(str(tmp_path / "nodes.yaml"), str(tmp_path / "jobs.yaml"))[0]["bind"])
    assert 4 == len(cycles(str(tmp_path))[0]["bind"])


def test_other_kinds_are_counted_on_standard_error(write: Write) -> None:
    other = "\n---\n{apiVersion: v1, kind: %s, metadata: {name: x}}"
    result = run("-o", "json", write(FITS + other % "Endpoints" + other % "Secret"))
    assert "ignored: 1 Endpoints, 1 Secret\n" == result.stderr
    assert json.loads(result.stdout)


def test_only_pods_of_the_named_schedulers_are_placed(write: Write) -> None:
    file = write(NODE % ("n1", 8) + gang("ours", 1, 1, "maar") + gang("theirs", 1, 1, "volcano"))
    assert {"default/ours-0", "default/theirs-0"} == set(cycles(file)[0]["bind"])
    (cycle,) = cycles("--scheduler-name", "maar", file)
    assert ({"default/ours-0"}, []) == (set(cycle["bind"]), cycle["waiting"])
    both = cycles("--scheduler-name", "maar", "--scheduler-name", "volcano", file)
    assert 2 == len(both[0]["bind"])


@pytest.mark.parametrize("now", ["1000", "1970-01-01T00:16:40Z", "1970-01-01T01:16:40+01:00"])
def test_now_is_when_the_first_cycle_is(write: Write, now: str) -> None:
    text = NODE % ("n1", 4) + gang("train", 1, 8)
    found = cycles("--now", now, "--cycles", "2", write(text))
    assert [1000.0, 1000.0] == [c["waiting"][0]["reasons"][0]["since"] for c in found]


def test_a_nonsense_object_waits_and_the_rest_goes_on(write: Write) -> None:
    (cycle,) = cycles(write(NODE % ("n1", 4) + gang("good", 1, 1) + GROUP % ("bad", -3)))
    assert {"default/good-0"} == set(cycle["bind"])
    (waits,) = cycle["waiting"]
    assert "default/bad" == waits["job"]
    assert "spec.minMember: expected a number of at least 0, got `-3`" in waits["reasons"][0]["message"]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (
            POD % ("p", "train", "maar", "lots"),
            "objects.yaml: document 2: spec.containers[0].resources.limits.nvidia.com/gpu: not a quantity: `lots`",
        ),
        (GROUP % ("g", "three"), "objects.yaml: document 2: spec.minMember: expected a whole number, got `three`"),
        ("\n---\n{a: [}", "objects.yaml: line 7: not YAML: "),
    ],
)
def test_a_document_that_cannot_be_decoded_prints_no_plan(write: Write, broken: str, said: str) -> None:
    result = run("-o", "json", write((NODE % ("n1", 4)).lstrip("\n-") + broken))
    assert (2, "") == (result.exit_code, result.stdout)
    assert said in result.stderr


def test_a_missing_file(tmp_path: Path) -> None:
    result = run(str(tmp_path / "gone.yaml"))
    assert (2, "", f"{tmp_path}/gone.yaml: no such file\n") == (result.exit_code, result.stdout, result.stderr)


def test_a_configuration_is_used(write: Write, tmp_path: Path) -> None:
    config = tmp_path / "config" / "scheduler.conf"
    config.parent.mkdir()
    config.write_text('actions: "backfill"\ntiers: [{plugins: [{name: gang}]}]\n')
    assert {} == cycles("--config", str(config), write(FITS))[0]["bind"]


def test_a_bad_configuration_prints_no_plan(write: Write, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text('actions: "alocate"\ntiers: []\n')
    result = run("--config", str(config), write(FITS))
    assert (2, "") == (result.exit_code, result.stdout)
    assert "alocate" in result.stderr
    gone = run("--config", str(tmp_path / "gone"), write(FITS))
    assert (2, "", f"{tmp_path}/gone: no such file\n") == (gone.exit_code, gone.stdout, gone.stderr)


STRANGE = 'actions: "allocate, levitate"\ntiers: [{plugins: [{name: gang}, {name: tdm}]}]\n'


def test_a_lenient_plan_skips_what_is_unknown(write: Write, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(STRANGE)
    assert 2 == run("--config", str(config), write(FITS)).exit_code
    result = run("--lenient", "-o", "json", "--config", str(config), write(FITS))
    assert 0 == result.exit_code
    assert 4 == len(json.loads(result.stdout)["cycles"][0]["bind"])
    warned = result.stderr.splitlines()
    assert 2 == len(warned)
    assert all(line.startswith(f"warning: {config}: ") for line in warned)


def test_a_recording_of_a_lenient_run_is_decided_again(tmp_path: Path) -> None:
    path = tmp_path / "week.rec"
    scene = cluster(node("n1", gpu=8), members("train", 2, gpu=2))
    recorder = Recorder(path)
    config = read_config(STRANGE, "strange", catalog(), lenient=True).config
    recorder.write(Frame(100.0, decide(Snapshot(scene), config, 100.0), cluster=scene, config=STRANGE))
    recorder.close()
    again = run("-o", "json", str(path))
    assert (0, "") == (again.exit_code, again.stderr)
    assert 2 == len(json.loads(again.stdout)["cycles"][0]["bind"])


def test_warnings_go_to_standard_error(write: Write, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text('actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: deviceshare}]}]\n')
    result = run("-o", "json", "--config", str(config), write(FITS))
    assert 0 == result.exit_code
    assert result.stderr.startswith("warning: ")
    assert "deviceshare" in result.stderr
    assert json.loads(result.stdout)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--now", "later", "f"), "expected a time such as `2030-01-31T12:00:00Z` or seconds since 1970, got `later`"),
        (("--cycles", "0", "f"), "--cycles"),
        ((), "PATH"),
    ],
)
def test_bad_options(options: tuple[str, ...], said: str) -> None:
    result = run(*options)
    assert (2, "") == (result.exit_code, result.stdout)
    assert said in result.stderr


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert (0, f"maar {maar.__version__}\n") == (result.exit_code, result.stdout)


def test_help_lists_the_commands_and_cuts_nothing_off() -> None:
    listed = CliRunner().invoke(main, ["--help"]).stdout.partition("Commands:")[2]
    assert list(COMMANDS) == re.findall(r"^  ([\w-]+)", listed, re.MULTILINE)
    sentences = re.split(r"^  [\w-]+ +", listed, flags=re.MULTILINE)[1:]
    assert ["."] * len(COMMANDS) == [sentence.strip()[-1] for sentence in sentences]
    assert [] == [sentence for sentence in sentences if sentence.strip().endswith("...")]


def test_an_unknown_command_gets_a_suggestion() -> None:
    result = CliRunner().invoke(main, ["simulat"])
    assert 2 == result.exit_code
    assert "unknown command `simulat`; did you mean `simulate`? known: allocate, cancel, " in result.stderr


def test_unknown_fields_and_annotations_are_warned_about(write: Write) -> None:
    group = """
        apiVersion: scheduling.volcano.sh/v1beta1
        kind: PodGroup
        metadata: {name: g, namespace: ns, annotations: {maar.dev/max-runtme: 1h, example.com/other: x}}
        spec: {minMemebr: 3}
        """
    result = run(write(group))
    assert 0 == result.exit_code
    assert "spec.minMemebr: unknown field is ignored; did you mean `minMember`?" in result.stderr
    assert "unknown annotation `maar.dev/max-runtme` is ignored; did you mean `maar.dev/max-runtime`?" in result.stderr
    assert "example.com" not in result.stderr, "annotations of others are their own"
    missing = "document 1: spec.minMember: missing, read as 1; write 0 if all pods may start one by one"
    assert 1 == result.stderr.count(missing)
    assert missing not in run(write(group.replace("minMemebr: 3", "minMember: 0"))).stderr


USAGE = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: usage}]}]\nmetrics: {type: metrics_server}\n"
METRICS = """
---
apiVersion: metrics.k8s.io/v1beta1
kind: NodeMetricsList
items:
- {metadata: {name: n1}, timestamp: "2026-11-01T10:00:00Z", window: 20s, usage: {cpu: 15500000000n, memory: 1Gi}}
- {metadata: {name: n2}, timestamp: "2026-11-01T10:00:00Z", window: 20s, usage: {cpu: 15500000000n, memory: 1Gi}}
"""


@pytest.mark.parametrize(("now", "binds"), [("2026-11-01T10:01:00Z", 0), ("2026-11-01T10:06:00Z", 4)])
def test_the_real_load_of_nodes_counts_while_it_is_fresh(tmp_path: Path, now: str, binds: int) -> None:
    (tmp_path / "maar.yaml").write_text(USAGE)
    (tmp_path / "cluster.yaml").write_text(FITS + METRICS)
    options = ["--config", str(tmp_path / "maar.yaml"), "--now", now, "-o", "json", str(tmp_path / "cluster.yaml")]
    result = CliRunner().invoke(main, ["plan", *options])
    (cycle,) = json.loads(result.stdout)["cycles"]
    assert binds == len(cycle["bind"])
    if not binds:
        assert "2 above 80 % CPU use" in json.dumps(cycle)
