"""Configuration files: those of Volcano are read unchanged, and all problems are reported at once with their paths."""

from textwrap import dedent
from typing import Literal

import msgspec
import pytest

from maar.config.config import Catalog, Config, Ignored, Missing, NoArguments, PluginOption, Registration, Tenants
from maar.config.file import ConfigError, Loaded, default_text, read_config
from maar.config.flags import FLAGS, spellings
from maar.registry import catalog as registered


class Gang(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    eviction: Literal["whole", "surplus"] | None = msgspec.field(name="gang.eviction", default=None)


class Overcommit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    factor: float = msgspec.field(name="overcommit-factor", default=1.2)


class Nodeorder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    least: int = msgspec.field(name="leastrequested.weight", default=1)
    most: int = msgspec.field(name="mostrequested.weight", default=0)


class Preempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    candidates: int = msgspec.field(name="minCandidateNodesAbsolute", default=1)
    domains: int = msgspec.field(name="maxDomains", default=8)


class Needy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    zone: str


def registrations(**arguments: type[msgspec.Struct]) -> dict[str, Registration]:
    return {name: Registration(name, lambda given: given, struct) for name, struct in arguments.items()}


CATALOG = Catalog(
    plugins=registrations(
        priority=NoArguments,
        gang=Gang,
        overcommit=Overcommit,
        drf=NoArguments,
        proportion=NoArguments,
        nodeorder=Nodeorder,
        topology=NoArguments,
    ),
    actions=registrations(
        enqueue=NoArguments,
        allocate=NoArguments,
        preempt=Preempt,
        reclaim=Preempt,
        backfill=NoArguments,
        needy=Needy,
    ),
    aliases={"network-topology-aware": "topology", "gangpreempt": "preempt", "gangreclaim": "reclaim"},
    missing={
        "shuffle": Missing("nothing is moved"),
        "usage": Missing("usage does not count"),
        "tdm": Missing("zones keep no hours", misplaces=True),
        "volcano-npu*": Missing("nothing knows NPUs", misplaces=True),
    },
    ignored={"allocate": {"predicateErrorCacheEnable": Ignored("nothing is cached")}},
)

TIERS = "tiers: [{plugins: [{name: gang}]}]\n"
ALLOCATE = "actions: allocate\n"


def read(text: str, catalog: Catalog = CATALOG, lenient: bool = False) -> Loaded:
    return read_config(dedent(text), "conf.yaml", catalog, lenient)


def problems(text: str, catalog: Catalog = CATALOG) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text, catalog)
    assert "\n".join(caught.value.problems) == str(caught.value)
    return caught.value.problems


def names(config: Config) -> tuple[list[str], list[list[str]]]:
    return [a.name for a in config.actions], [[p.name for p in tier] for tier in config.tiers]


def only(text: str) -> PluginOption:
    """The only plugin of a configuration without warnings."""
    loaded = read(ALLOCATE + dedent(text))
    assert [] == loaded.warnings
    ((plugin,),) = loaded.config.tiers
    return plugin


# -- valid files


def test_a_configuration() -> None:
    loaded = read(
        """
        actions: "enqueue, allocate,backfill , "
        tiers:
        - plugins:
          - name: priority
            enabledTaskOrder: false
          - name: gang
        - plugins:
          - name: overcommit
            arguments:
              overcommit-factor: "1.5"
        """
    )
    assert [] == loaded.warnings
    assert (["enqueue", "allocate", "backfill"], [["priority", "gang"], ["overcommit"]]) == names(loaded.config)
    priority, gang = loaded.config.tiers[0]
    assert ({"taskOrder": False}, NoArguments()) == (priority.flags, priority.arguments)
    assert ({}, Gang()) == (gang.flags, gang.arguments)
    assert Overcommit(1.5) == loaded.config.tiers[1][0].arguments


def test_actions_may_be_a_list_and_act_twice() -> None:
    loaded = read("actions: [allocate, backfill, allocate]\n" + TIERS)
    assert ["allocate", "backfill", "allocate"] == names(loaded.config)[0]


@pytest.mark.parametrize("prefix", ["enable", "enabled"])
@pytest.mark.parametrize("flag", sorted({*FLAGS.values(), "hierarchy"}))
def test_flags_have_two_spellings(prefix: str, flag: str) -> None:
    spelled = f"{prefix}{flag[0].upper()}{flag[1:]}"
    assert {flag: False} == only(f"tiers: [{{plugins: [{{name: gang, {spelled}: false}}]}}]").flags


# Every flag of Volcano's configuration, in Volcano's spelling.
VOLCANO_FLAGS = """
    enableJobOrder enableHierarchy enableJobReady enableJobPipelined enableTaskOrder enablePreemptable
    enableReclaimable enablePreemptive enableQueueOrder enabledClusterOrder enablePredicate enableBestNode
    enableNodeOrder enableTargetJob enableReservedNodes enableJobEnqueued enabledVictim enableJobStarving
    enabledOverused enabledAllocatable enabledHyperNodeOrder enabledSubJobReady enabledSubJobPipelined
    enabledSubJobOrder enabledHyperNodeGradient
"""


def test_all_of_volcanos_flags_are_known() -> None:
    assert set() == set(VOLCANO_FLAGS.split()) - set(spellings())


def test_a_flag_without_effect_is_a_warning_if_it_asks_for_one() -> None:
    loaded = read(
        ALLOCATE + "tiers: [{plugins: [{name: gang, enableBestNode: false, enabledHyperNodeOrder: true,"
        " enabledClusterOrder: true, enableSubJobReady: null}]}]"
    )
    assert [
        "conf.yaml: tiers[0].plugins[0].enableBestNode: has no effect: no plugin chooses a node by itself",
        "conf.yaml: tiers[0].plugins[0].enabledClusterOrder: has no effect: there is one cluster",
    ] == loaded.warnings
    assert {} == loaded.config.tiers[0][0].flags


def test_a_flag_that_is_not_given_is_missing() -> None:
    assert {} == only("tiers: [{plugins: [{name: gang, enableJobOrder: }]}]").flags


def test_a_flag_may_be_text_or_given_twice_alike() -> None:
    plugin = only("tiers: [{plugins: [{name: gang, enableJobOrder: 'False', enabledJobOrder: false}]}]")
    assert {"jobOrder": False} == plugin.flags


def test_configurations_are_the_arguments_of_actions() -> None:
    loaded = read(
        "actions: allocate, preempt\n" + TIERS + "configurations:\n"
        "- name: preempt\n  arguments: {minCandidateNodesAbsolute: '3'}\n"
        "- name: reclaim\n"
        "- name: allocate\n  arguments: {predicateErrorCacheEnable: true}\n"
    )
    assert Preempt(candidates=3) == loaded.config.actions[1].arguments
    assert [
        "conf.yaml: configurations[1]: `reclaim` is not among the `actions`: its arguments have no effect",
        "conf.yaml: configurations[2].arguments.predicateErrorCacheEnable: has no effect: nothing is cached",
    ] == loaded.warnings


def test_what_maar_has_not_yet_is_skipped() -> None:
    loaded = read(
        """
        actions: "allocate, shuffle"
        tiers:
        - plugins:
          - name: gang
          - name: usage
            enabelAnything: perhaps
            arguments: {usage.weight: 5}
        configurations:
        - name: shuffle
          arguments: {x: 1}
        """
    )
    assert (["allocate"], [["gang"]]) == names(loaded.config)
    assert [
        "conf.yaml: actions: `shuffle` is skipped, Maar does not have it yet: nothing is moved",
        "conf.yaml: configurations[0]: `shuffle` is skipped, Maar does not have it yet: nothing is moved",
        "conf.yaml: tiers[0].plugins[1]: `usage` is skipped, Maar does not have it yet: usage does not count",
    ] == loaded.warnings


@pytest.mark.parametrize(
    ("name", "lost"), [("tdm", "zones keep no hours"), ("volcano-npu_v6.0.RC1_linux-x86_64", "nothing knows NPUs")]
)
def test_what_would_misplace_pods_is_refused_unless_lenient(name: str, lost: str) -> None:
    text = ALLOCATE + f"tiers: [{{plugins: [{{name: gang}}, {{name: {name}, enableAnything: 1}}]}}]"
    why = f"Maar does not have it yet: {lost}; pods could land where they must not"
    assert [f"conf.yaml: tiers[0].plugins[1]: `{name}` is refused, {why}; `--lenient` skips it"] == problems(text)
    loaded = read(text, lenient=True)
    assert [["gang"]] == names(loaded.config)[1]
    assert [f"conf.yaml: tiers[0].plugins[1]: `{name}` is skipped, {why}"] == loaded.warnings


def test_an_installed_plugin_wins_over_a_missing_or_another_name() -> None:
    installed = {**CATALOG.plugins, **registrations(deviceshare=NoArguments, **{"network-topology-aware": NoArguments})}
    catalog = msgspec.structs.replace(CATALOG, plugins=installed)
    loaded = read(
        ALLOCATE + "tiers: [{plugins: [{name: deviceshare}, {name: topology}, {name: network-topology-aware}]}]",
        catalog,
    )
    assert [] == loaded.warnings
    assert [["deviceshare", "topology", "network-topology-aware"]] == names(loaded.config)[1]


@pytest.mark.parametrize(
    ("actions", "plugin", "warned"),
    [
        ("allocate, reclaim", "name: gang", True),
        ("allocate, gangreclaim", "name: gang", True),
        ("allocate, reclaim", "name: drf", True),
        ("allocate, reclaim", "{name: proportion, enableReclaimable: false}", True),
        ("allocate, reclaim", "name: proportion", False),
        ("allocate, reclaim", "{name: drf, enableHierarchy: true}", False),
        ("allocate, preempt", "name: gang", False),
    ],
)
def test_reclaim_without_shares_is_a_warning(actions: str, plugin: str, warned: bool) -> None:
    loaded = read(f'actions: "{actions}"\ntiers:\n- plugins:\n  - {plugin}\n')
    warning = (
        "conf.yaml: actions: `reclaim` lets any queue take from any other: no plugin defines what a queue deserves "
        "(`proportion`, `capacity`, or `drf` with `enableHierarchy`)"
    )
    assert [warning] * warned == loaded.warnings


def test_a_key_given_twice_is_a_warning() -> None:
    loaded = read("actions: backfill\n" + TIERS + "actions: allocate\n")
    assert ["allocate"] == names(loaded.config)[0]
    assert ["conf.yaml: line 3, column 1: `actions` is given twice: the last one counts"] == loaded.warnings


# -- aliases


def test_aliases() -> None:
    loaded = read("actions: allocate, gangpreempt\ntiers: [{plugins: [{name: network-topology-aware}]}]")
    assert (["allocate", "preempt"], [["topology"]]) == names(loaded.config)
    assert [] == loaded.warnings


def test_one_action_by_two_names_runs_once() -> None:
    loaded = read(
        "actions: allocate, gangpreempt, backfill, preempt\n" + TIERS + "configurations:\n"
        "- {name: preempt, arguments: {minCandidateNodesAbsolute: 3}}\n"
        "- {name: gangpreempt, arguments: {maxDomains: 2}}\n"
    )
    assert ["allocate", "preempt", "backfill"] == names(loaded.config)[0]
    assert Preempt(candidates=3, domains=2) == loaded.config.actions[1].arguments
    assert [
        "conf.yaml: actions: `gangpreempt` and `preempt` are the same action, `preempt`: it runs once"
    ] == loaded.warnings


def test_its_arguments_may_not_contradict_each_other() -> None:
    assert [
        "conf.yaml: configurations[1].arguments.maxDomains: contradicts `configurations[0].arguments.maxDomains`"
    ] == problems(
        "actions: gangpreempt, preempt\n" + TIERS + "configurations:\n"
        "- {name: preempt, arguments: {maxDomains: 3}}\n"
        "- {name: gangpreempt, arguments: {maxDomains: 2}}\n"
    )


# What `gangpreempt` and `gangreclaim` set in the gang plugin: its argument, and its flags.
EVICTION: list[tuple[str, str, str, str | None, dict[str, bool]]] = [
    ("allocate, preempt, reclaim", "", "", None, {}),
    ("allocate, gangpreempt", "", "", "whole", {}),
    ("allocate, gangpreempt, preempt", "", "", "whole", {}),
    ("allocate, gangpreempt, gangreclaim", "", "", "whole", {}),
    ("gangpreempt", "gangpreempt: false", "", "surplus", {}),
    ("gangpreempt", "gangpreempt: 'true'", "", "whole", {}),
    ("gangpreempt", "preempt: false", "", "whole", {}),
    ("gangpreempt", "gangpreempt: false", "enablePreemptable: false", "surplus", {"preemptable": False}),
    ("gangpreempt", "", "arguments: {gang.eviction: surplus}", "surplus", {}),
    ("preempt", "gangpreempt: false", "", None, {}),
    # Only one of the two actions evicts whole gangs: its flag is set.
    ("gangpreempt, reclaim", "", "", None, {"preemptable": False}),
    ("preempt, gangreclaim", "", "", None, {"reclaimable": False}),
    ("gangpreempt, gangreclaim", "gangreclaim: false", "", None, {"preemptable": False, "reclaimable": True}),
]


@pytest.mark.parametrize(("actions", "bundle", "gang", "eviction", "flags"), EVICTION)
def test_whole_gangs(actions: str, bundle: str, gang: str, eviction: str | None, flags: dict[str, bool]) -> None:
    name, _, value = bundle.partition(": ")
    configuration = f"configurations: [{{name: {name}, arguments: {{allowWholeBundle: {value}}}}}]" if name else ""
    text = f"actions: {actions}\ntiers: [{{plugins: [{{name: gang, {gang}}}]}}]\n{configuration}"
    ((plugin,),) = read(text).config.tiers
    assert (Gang(eviction), flags) == (plugin.arguments, plugin.flags)  # type: ignore[arg-type]


def test_allow_whole_bundle_is_yes_or_no() -> None:
    configuration = "configurations: [{name: gangpreempt, arguments: {allowWholeBundle: perhaps, maxDomains: x}}]"
    assert [
        "conf.yaml: configurations[0].arguments.allowWholeBundle: expected `true` or `false`, got `perhaps`",
        "conf.yaml: configurations[0].arguments.maxDomains: expected a whole number, got `x`",
    ] == problems("actions: gangpreempt\n" + TIERS + configuration)


# -- a ConfigMap


CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap}
data:
"""


NO_SUCH_FILE = "conf.yaml: data: expected a file named `maar.yaml` or `volcano-scheduler.conf`"


@pytest.mark.parametrize("name", ["volcano-scheduler.conf", "maar.yaml"])
def test_a_config_map_holds_a_configuration(name: str) -> None:
    loaded = read(f"{CONFIG_MAP}  other.conf: x\n  {name}: |\n    actions: allocate\n    {TIERS}")
    assert (["allocate"], [["gang"]]) == names(loaded.config)


def test_among_other_objects_and_under_another_name() -> None:
    loaded = read("kind: Namespace\n---\n" + CONFIG_MAP + "  my.conf: |\n    actions: allocate\n    " + TIERS + "---\n")
    assert (["allocate"], [["gang"]]) == names(loaded.config)


def test_problems_inside_a_config_map_have_a_path() -> None:
    assert [
        "conf.yaml: data.my.conf: actions: unknown action `allokate`; did you mean `allocate`? known: "
        "allocate, backfill, enqueue, needy, preempt, reclaim"
    ] == problems(CONFIG_MAP + "  my.conf: |\n    actions: allokate\n    " + TIERS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CONFIG_MAP, f"{NO_SUCH_FILE}, got nothing"),
        (CONFIG_MAP + "  a: x\n  b: y\n", f"{NO_SUCH_FILE}, got: a, b"),
        ("kind: Pod\n", "conf.yaml: expected a configuration, or one ConfigMap that holds it, got: Pod"),
        ("a: 1\n---\nb: 1\n", "conf.yaml: expected one configuration, got 2 documents"),
    ],
)
def test_a_file_that_holds_no_configuration(text: str, problem: str) -> None:
    assert [problem] == problems(text)


# -- problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("actions: [\n", ["conf.yaml: line 2, column 1: not valid YAML: did not find expected node content"]),
        ("actions: *x\n", ["conf.yaml: line 1, column 10: not valid YAML: found undefined alias"]),
        (
            "actions: \x01\n",
            ["conf.yaml: not valid YAML: unacceptable character #x0001: control characters are not allowed"],
        ),
        ("- a\n", ["conf.yaml: expected a mapping with `actions` and `tiers`, got a list"]),
        ("hello\n", ["conf.yaml: expected a mapping with `actions` and `tiers`, got `hello`"]),
        (TIERS, ['conf.yaml: actions: missing; write for example `actions: "enqueue, allocate, backfill"`']),
        (
            "actions: ' , '\n" + TIERS,
            ['conf.yaml: actions: empty; write for example `actions: "enqueue, allocate, backfill"`'],
        ),
        (
            "actions: {allocate: 1}\n" + TIERS,
            ["conf.yaml: actions: expected names separated by commas, got a mapping"],
        ),
        ("actions: [1]\n" + TIERS, ["conf.yaml: actions: expected names separated by commas, got a list"]),
        ("actions: shuffle\n" + TIERS, ["conf.yaml: actions: no usable action is left"]),
        ("actions: gang\n" + TIERS, ["conf.yaml: actions: `gang` is a plugin, not an action: write it in `tiers`"]),
        (
            "actions: needy\n" + TIERS,
            ["conf.yaml: actions: `needy` needs the argument `zone`"],
        ),
        (
            ALLOCATE,
            ["conf.yaml: tiers: missing; write for example `tiers: [{plugins: [{name: priority}, {name: gang}]}]`"],
        ),
        (
            ALLOCATE + "tiers: []\n",
            ["conf.yaml: tiers: no usable plugin is left; configure at least `priority` and `gang`"],
        ),
        (ALLOCATE + "tiers: {plugins: []}\n", ["conf.yaml: tiers: expected a list, got a mapping"]),
        (ALLOCATE + "tiers: [gang]\n", ["conf.yaml: tiers[0]: expected a mapping, got `gang`"]),
        (
            ALLOCATE + "tiers: [{plugins: [gang]}]\n",
            ["conf.yaml: tiers[0].plugins[0]: expected a mapping, got `gang`; write `- name: gang`"],
        ),
        (
            ALLOCATE + "tiers: [{plugins: [{name: 3}, , {arguments: {}}, []]}]\n".replace(", ,", ", ~,"),
            [
                "conf.yaml: tiers[0].plugins[0].name: expected a name, got `3`",
                "conf.yaml: tiers[0].plugins[1].name: expected a name, got nothing",
                "conf.yaml: tiers[0].plugins[2].name: expected a name, got nothing",
                "conf.yaml: tiers[0].plugins[3]: expected a mapping, got a list",
            ],
        ),
        (
            ALLOCATE + "tiers: [{plugin: [{name: gang}]}]\n",
            ["conf.yaml: tiers[0]: unknown key `plugin`; did you mean `plugins`? known: plugins"],
        ),
        (
            ALLOCATE + "tiers: [{plugins: [{name: gnag}, {name: zzz}]}]\n",
            [
                "conf.yaml: tiers[0].plugins[0]: unknown plugin `gnag`; did you mean `gang`? "
                "known: drf, gang, nodeorder, overcommit, priority, proportion, topology",
                "conf.yaml: tiers[0].plugins[1]: unknown plugin `zzz`; "
                "known: drf, gang, nodeorder, overcommit, priority, proportion, topology",
            ],
        ),
        (
            ALLOCATE + "tiers: [{plugins: [{name: network-topologyaware}]}]\n",
            [
                "conf.yaml: tiers[0].plugins[0]: unknown plugin `network-topologyaware`; "
                "did you mean `network-topology-aware`? "
                "known: drf, gang, nodeorder, overcommit, priority, proportion, topology",
            ],
        ),
        (
            ALLOCATE + "tiers: [{plugins: [{name: gangpreempt}, {name: allocate}]}]\n",
            [
                "conf.yaml: tiers[0].plugins[0]: `gangpreempt` is an action, not a plugin: write it in `actions`",
                "conf.yaml: tiers[0].plugins[1]: `allocate` is an action, not a plugin: write it in `actions`",
            ],
        ),
        (
            ALLOCATE + "tiers: [{plugins: [{name: gang}]}, {plugins: [{name: topology}, {name: gang},"
            " {name: network-topology-aware}]}]\n",
            [
                "conf.yaml: tiers[1].plugins[1]: `gang` is listed twice: at `tiers[0].plugins[0]` and here",
                "conf.yaml: tiers[1].plugins[2]: `topology` is listed twice: at `tiers[1].plugins[0]` and here",
            ],
        ),
        (
            ALLOCATE + "tiers: [{plugins: [{name: overcommit, arguments: [1]}, {name: gang, arguments: {1: 2}}]}]\n",
            [
                "conf.yaml: tiers[0].plugins[0].arguments: expected a mapping, got a list",
                "conf.yaml: tiers[0].plugins[1].arguments: expected a name before the colon, got `1`",
            ],
        ),
        (
            ALLOCATE + "tiers: [{plugins: [{name: gang, enableJobOrder: maybe, enabledTaskOrder: true,"
            " enableTaskOrder: false}]}]\n",
            [
                "conf.yaml: tiers[0].plugins[0].enableJobOrder: expected `true` or `false`, got `maybe`",
                "conf.yaml: tiers[0].plugins[0].enableTaskOrder: contradicts `enabledTaskOrder`: it is the same flag",
            ],
        ),
        (
            ALLOCATE + TIERS + "configurations: [{name: enqueue}, {name: enqueue}, {name: gang}, {naame: x}, ~]\n",
            [
                "conf.yaml: configurations[1]: `enqueue` is configured twice: at `configurations[0]` and here",
                "conf.yaml: configurations[2]: `gang` is a plugin, not an action: write it in `tiers`",
                "conf.yaml: configurations[3].name: expected a name, got nothing",
                "conf.yaml: configurations[3]: unknown key `naame`; did you mean `name`? known: arguments, name",
                "conf.yaml: configurations[4].name: expected a name, got nothing",
            ],
        ),
        (
            ALLOCATE + TIERS + "action: x\nsomething: 1\n2: 3\n",
            [
                "conf.yaml: expected a name before the colon, got `2`",
                "conf.yaml: unknown key `action`; did you mean `actions`? "
                "known: actions, autoscaling, configurations, metrics, pod-events, pools, tenants, tiers",
                "conf.yaml: unknown key `something`; "
                "known: actions, autoscaling, configurations, metrics, pod-events, pools, tenants, tiers",
            ],
        ),
    ],
)
def test_problems(text: str, expected: list[str]) -> None:
    assert expected == problems(text)


def test_an_unknown_flag_gets_a_suggestion() -> None:
    (flag, key) = problems(ALLOCATE + "tiers: [{plugins: [{name: gang, enabledJobOder: true, argument: {}}]}]")
    assert flag.startswith(
        "conf.yaml: tiers[0].plugins[0]: unknown flag `enabledJobOder`; did you mean `enabledJobOrder`? "
        "known: enableAllocatable, enableBestNode, "
    )
    assert key.startswith(
        "conf.yaml: tiers[0].plugins[0]: unknown key `argument`; did you mean `arguments`? known: arguments, enable"
    )


@pytest.mark.parametrize("key", ["jobOrder", "EnableJobOrder", "enable-job-order", "enabled_joborder"])
def test_a_flag_is_recognised_in_other_spellings(key: str) -> None:
    (problem,) = problems(ALLOCATE + f"tiers: [{{plugins: [{{name: gang, {key}: true}}]}}]")
    assert problem.endswith(f" `{key}`; did you mean `enableJobOrder`?")


def test_an_argument_beside_the_name_and_a_flag_under_the_arguments() -> None:
    assert [
        "conf.yaml: configurations[0]: unknown key `maxDomains`; it is an argument: write it under `arguments`",
        "conf.yaml: tiers[0].plugins[0]: unknown key `overcommit-factor`; "
        "it is an argument: write it under `arguments`",
        "conf.yaml: tiers[0].plugins[1].arguments: unknown argument `enabledJobOrder`; "
        "it is a flag: write it beside `name`",
    ] == problems(
        """
        actions: preempt
        tiers:
        - plugins:
          - {name: overcommit, overcommit-factor: 1.5}
          - {name: gang, arguments: {enabledJobOrder: false}}
        configurations: [{name: preempt, maxDomains: 3}]
        """
    )


def test_open_ended_and_ignored_arguments_are_recognised_beside_the_name() -> None:
    real = problems(
        ALLOCATE + "tiers: [{plugins: [{name: binpack, binpack.resources.nvidia.com/gpu: 2},"
        " {name: predicates, volumebinding.weight: 1}]}]",
        registered(),
    )
    assert ["it is an argument: write it under `arguments`"] * 2 == [problem.split("; ")[1] for problem in real]


# -- lenient reading

STRANGE = """
actions: "allocate, levitate"
logLevel: 3
tiers:
- plugins:
  - {name: gang, enableMuchMagicAtNight: true, colour: red, gang.eviction: whole}
  - {name: npu-magic, arguments: {x: 1}}
  - {name: nodeorder, arguments: {nodeorder.leastrequested.weight: 1, mostrequested.weight: 2}}
  notes: none
configurations:
- {name: init-params, arguments: {grace-over-time: "900"}}
- {name: allocate, mood: good, arguments: {speed: 1}}
pools:
- {name: default, ratelimit: 1s, hold: 7s}
autoscaling: {surpluss: true}
"""


def test_lenient_skips_all_that_is_unknown_and_says_what_is_lost() -> None:
    algorithms = {"elastic-fifo": Registration("elastic-fifo", lambda given: given)}
    catalog = msgspec.structs.replace(CATALOG, algorithms=algorithms)
    loaded = read(STRANGE, catalog, lenient=True)
    assert (["allocate"], [["gang", "nodeorder"]]) == names(loaded.config)
    assert Nodeorder(most=2) == loaded.config.tiers[0][1].arguments
    assert ([("default", 7.0)], False) == (
        [(pool.name, pool.hold) for pool in loaded.config.pools],
        loaded.config.autoscaling.surplus,
    )
    gang, plugins = "tiers[0].plugins[0]", "tiers[0].plugins"
    assert [
        f"conf.yaml: {warning}"
        for warning in (
            "unknown key `logLevel` is skipped: Maar decides without it",
            "actions: unknown action `levitate` is skipped: this step of the cycle does not run",
            "configurations[0]: unknown action `init-params` is skipped: its arguments have no effect",
            "configurations[1]: unknown key `mood` is skipped: Maar decides without it",
            "configurations[1].arguments: unknown argument `speed` is skipped: `allocate` decides without it; "
            "`allocate` takes no arguments",
            "tiers[0]: unknown key `notes` is skipped: Maar decides without it",
            f"{gang}: unknown flag `enableMuchMagicAtNight` is skipped: `gang` decides without it",
            f"{gang}: unknown key `colour` is skipped: `gang` decides without it",
            f"{gang}: unknown key `gang.eviction` is skipped: `gang` decides without it; "
            "it is an argument: write it under `arguments`",
            f"{plugins}[1]: unknown plugin `npu-magic` is skipped: Maar decides without its rules, and "
            "pods could land where they must not",
            f"{plugins}[2].arguments: unknown argument `nodeorder.leastrequested.weight` is skipped: "
            "`nodeorder` decides without it; did you mean `leastrequested.weight`?",
            "pools[0]: unknown key `ratelimit` is skipped: the pool is used without it; did you mean `rate-limit`?",
            "autoscaling: unknown argument `surpluss` is skipped: `autoscaling` decides without it; "
            "did you mean `surplus`?",
        )
    ] == loaded.warnings


def test_without_lenient_each_of_them_is_a_problem() -> None:
    algorithms = {"elastic-fifo": Registration("elastic-fifo", lambda given: given)}
    catalog = msgspec.structs.replace(CATALOG, algorithms=algorithms)
    assert 13 == len(problems(STRANGE, catalog))


@pytest.mark.parametrize(
    "text",
    [
        "actions: levitate\n" + TIERS,
        ALLOCATE + "tiers: [{plugins: [{name: npu-magic}]}]",
        ALLOCATE + "tiers: [{plugins: [{name: gang}, {name: gang}]}]",
        ALLOCATE + "tiers: [{plugins: [{name: allocate}]}]",
        ALLOCATE + "tiers: [{plugins: [{name: gang, enableJobOrder: maybe}]}]",
        ALLOCATE + "tiers: [{plugins: [{name: overcommit, arguments: {overcommit-factor: many}}]}]",
        ALLOCATE + "tiers: [{plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]}]",
        ALLOCATE + TIERS + "tenants: nobody\n",
    ],
)
def test_what_is_known_and_wrong_is_a_problem_also_if_lenient(text: str) -> None:
    with pytest.raises(ConfigError):
        read(text, lenient=True)


def test_lenient_changes_nothing_in_a_file_that_can_be_used() -> None:
    assert read(default_text(), registered()) == read(default_text(), registered(), lenient=True)


def test_all_problems_are_reported_at_once() -> None:
    assert [
        "conf.yaml: unknown key `metric`; did you mean `metrics`? "
        "known: actions, autoscaling, configurations, metrics, pod-events, pools, tenants, tiers",
        "conf.yaml: actions: unknown action `allokate`; did you mean `allocate`? "
        "known: allocate, backfill, enqueue, needy, preempt, reclaim",
        "conf.yaml: configurations[0].arguments.minCandidateNodesAbsolute: expected a whole number, got `few`",
        "conf.yaml: tiers[1].plugins[0].arguments.overcommit-factor: expected a number, got `many`",
        "conf.yaml: tiers[1].plugins[1].arguments: unknown argument `leastrequested.weightt`; "
        "did you mean `leastrequested.weight`? known: leastrequested.weight, mostrequested.weight",
    ] == problems(
        """
        actions: "allokate, preempt"
        tiers:
        - plugins: [{name: gang}]
        - plugins:
          - {name: overcommit, arguments: {overcommit-factor: many}}
          - {name: nodeorder, arguments: {leastrequested.weightt: 1}}
        configurations: [{name: preempt, arguments: {minCandidateNodesAbsolute: few}}]
        metric: {}
        """
    )


@pytest.mark.parametrize("plugins", ["proportion, drf", "drf, proportion"])
def test_hierarchical_drf_and_proportion_in_one_tier(plugins: str) -> None:
    first, second = plugins.split(", ")
    flagged = {"drf": "{name: drf, enableHierarchy: true}", "proportion": "{name: proportion}"}
    at = {first: 0, second: 1}
    assert [
        f"conf.yaml: tiers[0].plugins[{at['drf']}]: `drf` with `enableHierarchy` and `proportion` "
        f"(`tiers[0].plugins[{at['proportion']}]`) cannot be in one tier: both share the cluster between queues"
    ] == problems(ALLOCATE + f"tiers: [{{plugins: [{flagged[first]}, {flagged[second]}]}}]")


@pytest.mark.parametrize(
    "tiers",
    [
        "[{plugins: [{name: drf}, {name: proportion}]}]",
        "[{plugins: [{name: drf, enableHierarchy: false}, {name: proportion}]}]",
        "[{plugins: [{name: drf, enableHierarchy: true}]}, {plugins: [{name: proportion}]}]",
    ],
)
def test_they_may_be_in_different_tiers(tiers: str) -> None:
    assert [] == read(f"{ALLOCATE}tiers: {tiers}").warnings


# -- plugins that are installed but broken


BROKEN = msgspec.structs.replace(CATALOG, broken={"fancy": "maar.plugins: `fancy` of acme 1.0 cannot be used: no"})


def test_a_broken_plugin_that_is_not_named_is_a_warning() -> None:
    assert ["maar.plugins: `fancy` of acme 1.0 cannot be used: no"] == read(ALLOCATE + TIERS, BROKEN).warnings


def test_a_broken_plugin_that_is_named_is_a_problem() -> None:
    assert ["conf.yaml: tiers[0].plugins[0]: maar.plugins: `fancy` of acme 1.0 cannot be used: no"] == problems(
        ALLOCATE + "tiers: [{plugins: [{name: fancy}]}]", BROKEN
    )


# -- autoscaling


def test_the_class_of_provisioning_requests() -> None:
    def named(text: str) -> str:
        return read(
            ALLOCATE + TIERS + f"autoscaling: {{provisioning-class: {text}}}"
        ).config.autoscaling.provisioning_class

    assert "" == read(ALLOCATE + TIERS).config.autoscaling.provisioning_class
    assert "check-capacity.autoscaling.x-k8s.io" == named("check-capacity")
    assert "queued-provisioning.gke.io" == named("queued-provisioning.gke.io")


def test_an_unknown_class_of_provisioning_requests_gets_a_suggestion() -> None:
    (problem,) = problems(ALLOCATE + TIERS + "autoscaling: {provisioning-class: check-capacty}")
    assert problem.startswith("conf.yaml: autoscaling.provisioning-class: unknown class `check-capacty`")
    assert "`check-capacity`" in problem


def test_an_unknown_key_of_autoscaling_gets_a_suggestion() -> None:
    (problem,) = problems(ALLOCATE + TIERS + "autoscaling: {provisioning-clas: check-capacity}")
    assert "provisioning-class" in problem


@pytest.mark.parametrize("said", ["trusted", "untrusted"])
def test_tenants(said: str) -> None:
    shares = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: proportion}]}]\n"
    loaded = read(f"{shares}tenants: {said}\n", registered())
    assert (Tenants(said), []) == (loaded.config.tenants, loaded.warnings)


@pytest.mark.parametrize("said", ["nobody", "[untrusted]", "false", "3"])
def test_other_words_for_tenants_are_refused(said: str) -> None:
    (problem,) = problems(f"{ALLOCATE}{TIERS}tenants: {said}\n")
    assert problem.startswith("conf.yaml: tenants: expected `trusted` or `untrusted`, got ")


def test_untrusted_tenants_need_a_plugin_with_shares() -> None:
    (warning,) = read(f"{ALLOCATE}{TIERS}tenants: untrusted\n").warnings
    assert warning.startswith("conf.yaml: tenants: `untrusted` limits no protection: no plugin defines")
