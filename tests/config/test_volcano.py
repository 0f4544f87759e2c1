"""The real plugins and actions with Maar's default configuration and with configurations of Volcano."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from maar.config.config import Config
from maar.config.file import default_config, default_text, read_config
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

# The configuration that its Helm chart installs.
HELM = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
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

# Every argument in Volcano's documentation for plugins that Maar has, as users write them.
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
      predicate.CacheEnable: true
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
      weight: 10
      hypernode.binpack.cpu: 5
      hypernode.binpack.memory: 1
      hypernode.binpack.resources: nvidia.com/gpu
      hypernode.binpack.resources.nvidia.com/gpu: 2
      hypernode.binpack.normal-pod.enable: true
      hypernode.binpack.normal-pod.fading: 0.8
      hypernode.gradient.evict.max-hypernodes: 8
configurations:
- name: enqueue
  arguments: {overcommit-factor: 1.2}
- name: allocate
  arguments: {predicateErrorCacheEnable: true}
- name: gangpreempt
  arguments: {maxDomains: 8, allowWholeBundle: true}
- name: gangreclaim
  arguments: {maxDomains: 8, allowWholeBundle: true}
- name: preempt
  arguments:
    enableTopologyAwarePreemption: true
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
    config = read_config(ARGUMENTS, "volcano", catalog()).config
    assert ("gang", gang.Arguments("whole")) == (config.tiers[0][1].name, config.tiers[0][1].arguments)
    assert ["enqueue", "elect", "allocate", "preempt", "reclaim", "backfill", "reserve"] == [
        action.name for action in config.actions
    ]


@pytest.mark.parametrize(
    "name",
    ["tdm", "task-topology", "numa-aware", "deviceshare"] + ["rescheduling", "usage", "extender"],
)
def test_what_maar_has_not_yet_is_skipped(name: str) -> None:
    text = f"actions: allocate, shuffle\ntiers: [{{plugins: [{{name: gang}}, {{name: {name}}}]}}]"
    loaded = read_config(text, "volcano", catalog())
    assert [["gang"]] == names(loaded.config)
    assert ["volcano: actions: `shuffle` is skipped", f"volcano: tiers[0].plugins[1]: `{name}` is skipped"] == [
        warning.partition(",")[0] for warning in loaded.warnings
    ]


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
