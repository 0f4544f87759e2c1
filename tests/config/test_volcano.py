"""The real plugins and actions with Maar's default configuration and with configurations of Volcano."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.confs import HELM

from maar.config.config import Config
from maar.config.file import ConfigError, default_config, default_text, read_config
from maar.plugins import gang
from maar.registry import catalog

# Volcano's configuration without a file.
DEFAULT = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""

# The configuration of its own tests.
CI = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: sla
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
"""

# Every argument in Volcano's documentation for plugins that Maar has, as users write them. Those without an effect in
# Maar have the value that changes nothing.
ARGUMENTS = """
actions: "enqueue, elect, allocate, gangpreempt, gangreclaim, backfill, reserve"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: sla
    arguments:
      sla-waiting-time: 1h2m3s
  - name: pdb
  - name: cdp
  - name: reservation
- plugins:
  - name: overcommit
    arguments:
      overcommit-factor: "1.3"
  - name: drf
    enableHierarchy: true
  - name: predicates
    arguments:
      predicate.NodeAffinityEnable: true
      predicate.NodePortsEnable: "true"
      predicate.TaintTolerationEnable: true
      predicate.PodAffinityEnable: true
      predicate.NodeVolumeLimitsEnable: true
      predicate.VolumeZoneEnable: true
      predicate.PodTopologySpreadEnable: true
      predicate.VolumeBindingEnable: true
      predicate.DynamicResourceAllocationEnable: false
      predicate.CacheEnable: false
      predicate.GPUSharingEnable: false
      predicate.GPUNumberEnable: "false"
      predicate.ProportionalEnable: false
      volumebinding.bindTimeoutSeconds: 600
      volumebinding.weight: 1
      dynamicresources.filterTimeoutSeconds: "10"
  - name: capacity
    enabledHierarchy: true
    arguments:
      ancestorReclaimLevel: 1
      capacity.DynamicResourceAllocationEnable: false
      capacity.DRAConsumableCapacityEnable: false
  - name: nodeorder
    arguments:
      leastrequested.weight: 1
      mostrequested.weight: "0"
      nodeaffinity.weight: 2
      podaffinity.weight: 2
      balancedresource.weight: 1
      tainttoleration.weight: 3
      imagelocality.weight: 1
      podtopologyspread.weight: 2
      selectorspread.weight: 0
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.cpu: 5
      binpack.memory: "1"
      binpack.resources: nvidia.com/gpu, example.com/foo
      binpack.resources.nvidia.com/gpu: 2
      binpack.resources.example.com/foo: "3"
  - name: network-topology-aware
    arguments:
      weight: 1
      hypernode.binpack.cpu: 1
      hypernode.binpack.memory: 1
      hypernode.binpack.normal-pod.enable: false
      hypernode.binpack.normal-pod.fading: 0.8
      hypernode.gradient.evict.max-hypernodes: 8
configurations:
- name: allocate
  arguments: {predicateErrorCacheEnable: true}
- name: gangpreempt
  arguments: {maxDomains: 8, allowWholeBundle: true}
- name: gangreclaim
  arguments: {maxDomains: 8, allowWholeBundle: true}
- name: preempt
  arguments:
    enableTopologyAwarePreemption: false
    topologyAwarePreemptWorkerNum: 16
    minCandidateNodesPercentage: 10
    minCandidateNodesAbsolute: 1
    maxCandidateNodesAbsolute: 100
"""


def names(config: Config) -> list[list[str]]:
    return [[plugin.name for plugin in tier] for tier in config.tiers]


def parsed(text: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(text)
    return document


@pytest.mark.parametrize("text", [DEFAULT, HELM, CI], ids=["default", "helm", "ci"])
def test_volcanos_configurations_are_read_without_a_warning(text: str) -> None:
    loaded = read_config(text, "volcano", catalog())
    assert [] == loaded.warnings
    assert parsed(text)["actions"] == ", ".join(action.name for action in loaded.config.actions)
    written = [[plugin["name"] for plugin in tier["plugins"]] for tier in parsed(text)["tiers"]]
    assert [[catalog().aliases.get(name, name) for name in tier] for tier in written] == names(loaded.config)


def test_all_of_volcanos_arguments_are_known() -> None:
    loaded = read_config(ARGUMENTS, "volcano", catalog())
    config = loaded.config
    same = "actions: `gangpreempt` and `preempt` are the same action"
    assert [] == [warning for warning in loaded.warnings if same not in warning]
    assert ("gang", gang.Arguments("whole")) == (config.tiers[0][1].name, config.tiers[0][1].arguments)
    assert ["enqueue", "elect", "allocate", "preempt", "reclaim", "backfill", "reserve"] == [
        action.name for action in config.actions
    ]


ASCEND = "volcano-npu_v6.0.RC1_linux-x86_64"
KEEPS_PODS_AWAY = {"numa-aware", "extender", ASCEND}
"""Without them, pods could land where they must not."""


@pytest.mark.parametrize(
    "name",
    ["numa-aware", "deviceshare", "extender", ASCEND],
)
def test_what_maar_has_not_yet_is_skipped(name: str) -> None:
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: gang}}, {{name: {name}}}]}}]"
    if name in KEEPS_PODS_AWAY:
        with pytest.raises(ConfigError, match=r"must not; `--lenient` skips it$"):
            read_config(text, "volcano", catalog())
    loaded = read_config(text, "volcano", catalog(), lenient=name in KEEPS_PODS_AWAY)
    assert [["gang"]] == names(loaded.config)
    assert [f"volcano: tiers[0].plugins[1]: `{name}` is skipped"] == [
        warning.partition(",")[0] for warning in loaded.warnings
    ]


# What a file with each of these means less than in Volcano: the place, and the first words of the warning.
LESS = [
    ("predicates", "predicate.DynamicResourceAllocationEnable: true", "pods with resource claims wait"),
    ("predicates", "dynamicresources.filterTimeoutSeconds: 30", "pods with resource claims wait"),
    ("predicates", "volumebinding.bindTimeoutSeconds: 30", "a pod waits 10 minutes for its volumes"),
    ("predicates", "volumebinding.weight: 5", "nodes are not compared by the free capacity of their storage"),
    (
        "predicates",
        "volumebinding.shape: [{utilization: 0, score: 0}]",
        "nodes are not compared by the free capacity of their storage",
    ),
    ("predicates", "predicate.VolumeBindingEnable: false", "Maar always checks where volumes can be reached"),
    ("predicates", "predicate.VolumeZoneEnable: 'false'", "Maar always checks where volumes can be reached"),
    ("predicates", "predicate.GPUSharingEnable: true", "a GPU cannot be shared"),
    ("predicates", "predicate.ProportionalEnable: true", "`proportional` of the plugin `resource-strategy-fit`"),
    ("predicates", "predicate.resources.nvidia.com/gpu.cpu: 4", "`proportional` of the plugin `resource-strategy-fit`"),
    ("capacity", "capacity.DynamicResourceAllocationEnable: true", "queues do not count the devices of resource"),
    ("capacity", "capacity.DRAConsumableCapacityEnable: true", "queues do not count the devices of resource"),
    ("nodeorder", "selectorspread.weight: 2", "pods of one Service are spread by `podtopologyspread.weight`"),
    ("network-topology-aware", "weight: 10", "domains are ordered by how tightly the gang fits"),
    (
        "network-topology-aware",
        "hypernode.binpack.resources.nvidia.com/gpu: 2",
        "domains are ordered by how tightly the gang fits",
    ),
    ("network-topology-aware", "hypernode.binpack.normal-pod.enable: true", "only gangs with a network topology"),
]


@pytest.mark.parametrize(("plugin", "argument", "lost"), LESS)
def test_an_argument_that_means_less_is_accepted_with_a_warning(plugin: str, argument: str, lost: str) -> None:
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: {plugin}, arguments: {{{argument}}}}}]}}]"
    (warning,) = read_config(text, "volcano", catalog()).warnings
    place = f"tiers[0].plugins[0].arguments.{argument.partition(': ')[0]}"
    assert warning.startswith(f"volcano: {place}: has no effect: {lost}")


@pytest.mark.parametrize(
    ("plugin", "argument", "meant"),
    [
        ("binpack", "binpack.cpu.weight", "binpack.cpu"),
        ("binpack", "binpack.memory.weight", "binpack.memory"),
        ("nodeorder", "nodeorder.leastrequested.weight", "leastrequested.weight"),
        ("nodeorder", "nodeorder.leastrequested.enable", "leastrequested.weight"),
        ("predicates", "predicate.DynamicResourceAllocationEnabled", "predicate.DynamicResourceAllocationEnable"),
    ],
)
def test_a_wrong_argument_gets_the_right_hint(plugin: str, argument: str, meant: str) -> None:
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: {plugin}, arguments: {{{argument}: 1}}}}]}}]"
    with pytest.raises(ConfigError, match=re.escape(f"unknown argument `{argument}`; did you mean `{meant}`?")):
        read_config(text, "volcano", catalog())


# -- Maar's default configuration


def test_the_default_configuration() -> None:
    config = default_config(catalog())
    assert ["enqueue", "elect", "allocate", "resize", "preempt", "reclaim", "backfill", "reserve"] == [
        action.name for action in config.actions
    ]
    assert [
        ["priority", "gang", "conformance", "sla", "pdb", "cooldown", "reservation"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack", "topology"],
    ] == names(config)


def test_it_is_read_without_a_warning_and_is_what_an_empty_file_means() -> None:
    assert [] == read_config(default_text(), "default", catalog()).warnings
    loaded = read_config("# nothing\n", "empty.yaml", catalog())
    assert default_config(catalog()) == loaded.config
    assert ["empty.yaml: empty: Maar's default configuration is used (`maar config show` prints it)"] == loaded.warnings


def test_it_explains_every_line() -> None:
    """Every action and every plugin has a comment in the file."""
    lines = default_text().splitlines()
    explained = {line.split()[1] for line in lines if line.startswith("#   ")}
    assert {action.name for action in default_config(catalog()).actions} == explained
    assert [] == [line for line in lines if "- name:" in line and "#" not in line]


def test_the_examples_of_the_documentation_can_be_used() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    examples = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    whole, pools = examples
    assert [] == read_config(whole, "example", catalog()).warnings
    loaded = read_config(whole + pools, "example", catalog())
    assert [] == loaded.warnings
    assert [("a100", "elastic-srjf"), ("default", "elastic-tiresias")] == [
        (pool.name, pool.algorithm.name) for pool in loaded.config.pools
    ]
