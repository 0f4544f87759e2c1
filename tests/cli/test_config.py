"""`maar config`: output and exit codes."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from maar.cli.config import meaning, settings
from maar.cli.main import main
from maar.config.config import PluginOption, Registration
from maar.config.file import PROFILES, default_text, profile_text, read_config
from maar.registry import catalog

GOOD = """
actions: "allocate"
tiers:
- plugins:
  - name: priority
    enabledTaskOrder: false
- plugins:
  - name: gang
    arguments:
      gang.eviction: whole
  - name: deviceshare
"""


def run(*arguments: str, stdin: bytes | str | None = None) -> Result:
    return CliRunner().invoke(main, ["config", *arguments], input=stdin)


def words(text: str) -> list[list[str]]:
    """The rows of a table, without its rules."""
    return [line.split() for line in text.splitlines() if line.split()]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conf.yaml"


def test_check_says_what_a_file_means(file: Path) -> None:
    file.write_text(GOOD)
    result = run("check", str(file))
    assert (0, "") == (result.exit_code, result.stderr)
    rows = words(result.stdout)
    assert [f"{file}:", "can", "be", "used"] == rows[0]
    assert [["1", "allocate"]] == [row[:2] for row in rows if row[1:2] == ["allocate"]]
    (priority,) = [row for row in rows if row[1:2] == ["priority"]]
    (gang,) = [row for row in rows if row[1:2] == ["gang"]]
    assert ("1", ["enableTaskOrder:", "false"]) == (priority[0], priority[-2:])
    assert ("2", ["gang.eviction:", "whole"]) == (gang[0], gang[-2:])
    assert (
        f"warning: {file}: tiers[1].plugins[1]: `deviceshare` is skipped, Maar does not have it yet: "
        "a GPU cannot be shared: pods get whole GPUs, by count, and pods that ask for a share wait\n"
    ) in result.stdout


def test_check_says_all_that_is_wrong(file: Path) -> None:
    file.write_text("actions: allocate\ntiers: [{plugins: [{name: gang, enableJobOrder: x}, {}]}]\n")
    result = run("check", str(file))
    assert (1, "") == (result.exit_code, result.stdout)
    assert [
        f"{file}: tiers[0].plugins[0].enableJobOrder: expected `true` or `false`, got `x`",
        f"{file}: tiers[0].plugins[1].name: expected a name, got nothing",
    ] == result.stderr.splitlines()


def test_check_reads_standard_input() -> None:
    result = run("check", "-", stdin=GOOD)
    assert (0, "standard input: can be used") == (result.exit_code, result.stdout.splitlines()[0])


def test_an_empty_file_is_the_default_with_a_warning(file: Path) -> None:
    file.write_text("# nothing yet\n")
    result = run("check", str(file))
    assert 0 == result.exit_code
    assert (
        f"warning: {file}: empty: Maar's default configuration is used (`maar config show` prints it)\n"
    ) in result.stdout


def test_a_file_that_is_not_there() -> None:
    result = run("check", "nowhere.yaml")
    assert 2 == result.exit_code
    assert "File 'nowhere.yaml' does not exist." in result.stderr


def test_a_file_that_is_no_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\xfa")
    result = run("check", str(file))
    assert 2 == result.exit_code
    assert result.stderr.startswith(f"{file}: cannot be read: 'utf-8' codec can't decode byte 0xff")


def test_a_folder(tmp_path: Path) -> None:
    result = run("check", str(tmp_path))
    assert 2 == result.exit_code
    assert "is a directory." in result.stderr


def test_show_prints_a_file_that_can_be_used() -> None:
    result = run("show")
    assert (0, default_text()) == (result.exit_code, result.stdout)
    assert [] == read_config(result.stdout, "shown", catalog()).warnings


@pytest.mark.parametrize("profile", PROFILES)
def test_show_prints_a_profile(profile: str) -> None:
    result = run("show", "--profile", profile)
    assert (0, profile_text(profile)) == (result.exit_code, result.stdout)


def test_an_unknown_profile_is_refused() -> None:
    result = run("show", "--profile", "service")
    assert 2 == result.exit_code
    assert "'default', 'services'" in result.stderr


def test_check_says_that_pods_have_events(file: Path) -> None:
    file.write_text(profile_text("services"))
    assert "pod-events: each bound pod gets an event, besides the event of its gang\n" in run("check", str(file)).stdout
    file.write_text(GOOD + "pod-events: yes please\n")
    wrong = f"{file}: pod-events: expected `true` or `false`, got `yes please`"
    assert wrong in run("check", str(file)).stderr


class Arguments(msgspec.Struct, frozen=True):
    zone: str
    weight: int = msgspec.field(name="toy.weight", default=1)
    weights: dict[str, float] = {}
    names: tuple[str, ...] = ()


class Toy:
    def __init__(self, arguments: Arguments) -> None: ...


def test_settings_are_what_differs_from_the_defaults() -> None:
    registration = Registration("toy", Toy, Arguments)
    plain = PluginOption(registration, Arguments("z"))
    changed = PluginOption(
        registration, Arguments("z", 2, {"a": 1.0, "b": 2.5}, ("x", "y")), {"jobOrder": False, "hierarchy": True}
    )
    assert ["zone: z"] == settings(plain)
    assert [
        "zone: z",
        "toy.weight: 2",
        "weights: {a: 1, b: 2.5}",
        "names: [x, y]",
        "enableJobOrder: false",
        "enableHierarchy: true",
    ] == settings(changed)


def test_a_strangers_plugin_may_have_no_words() -> None:
    assert "" == meaning(Registration("toy", msgspec.json.Decoder))
    assert "`maar config`: output and exit codes" == meaning(Registration("toy", Toy))


def test_arguments_without_effect_are_warned_of(tmp_path: Path) -> None:
    """Volcano's arguments of `preempt` and `reclaim`."""
    file = tmp_path / "conf.yaml"
    file.write_text(
        "actions: preempt, reclaim\ntiers: [{plugins: [{name: gang}, {name: proportion}]}]\n"
        "configurations:\n- {name: preempt, arguments: {maxDomains: 3, allowWholeBundle: false}}\n"
        "- {name: reclaim, arguments: {maxDomains: 3}}\n"
    )
    shown = CliRunner().invoke(main, ["config", "check", str(file)])
    warned = [line.split(": ")[2] for line in shown.stdout.splitlines() if "has no effect" in line]
    expected = ("[0].arguments.allowWholeBundle", "[0].arguments.maxDomains", "[1].arguments.maxDomains")
    assert (0, [f"configurations{place}" for place in expected]) == (shown.exit_code, sorted(warned))


STRANGE = """
actions: "allocate"
logLevel: 3
tiers: [{plugins: [{name: gang}, {name: numa-aware}, {name: npu-magic}]}]
"""


def test_check_is_lenient_if_asked(file: Path) -> None:
    file.write_text(STRANGE)
    result = run("check", "--lenient", str(file))
    assert (0, "") == (result.exit_code, result.stderr)
    assert [
        f"warning: {file}: unknown key `logLevel` is skipped",
        f"warning: {file}: tiers[0].plugins[1]: `numa-aware` is skipped, Maar does not have it yet",
        f"warning: {file}: tiers[0].plugins[2]: unknown plugin `npu-magic` is skipped",
    ] == [line.rpartition(": ")[0] for line in result.stdout.splitlines() if line.startswith("warning: ")]


def test_check_names_the_option_if_it_helps(file: Path) -> None:
    hint = f"{file}: can be used with `--lenient`, which skips what Maar does not know or have"
    file.write_text(STRANGE)
    result = run("check", str(file))
    assert (1, "", 4, hint) == (
        result.exit_code,
        result.stdout,
        len(result.stderr.splitlines()),
        result.stderr.splitlines()[-1],
    )
    file.write_text(STRANGE + "tenants: nobody\n")
    for options in ((), ("--lenient",)):
        result = run("check", *options, str(file))
        assert (1, "") == (result.exit_code, result.stdout)
        assert hint not in result.stderr


RECLAIMS = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - name: priority
  - {name: gang, enablePreemptable: false%s}
%s  - name: proportion
  - name: predicates
"""
OTHER_TIER = "- plugins:\n"
NOTE = (
    "`reclaim` may evict whole gangs, and jobs of one pod, of queues that have more than their share: "
    "`enableReclaimable` of `gang` is not set, and `proportion` is in another tier. "
    "As in Volcano; `enableReclaimable: true` protects the minimum of every gang"
)


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        (RECLAIMS % ("", OTHER_TIER), True),
        (RECLAIMS % ("", ""), False),
        (RECLAIMS % (", enableReclaimable: true", OTHER_TIER), False),
        (RECLAIMS % (", enableReclaimable: false", OTHER_TIER), False),
        (RECLAIMS % (", arguments: {gang.eviction: surplus}", OTHER_TIER), False),
        ((RECLAIMS % ("", OTHER_TIER)).replace("allocate, reclaim", "allocate"), False),
        ((RECLAIMS % ("", OTHER_TIER)).replace("reclaim", "gangreclaim"), False),
    ],
)
def test_check_notes_where_whole_gangs_may_be_reclaimed(file: Path, text: str, noted: bool) -> None:
    file.write_text(text)
    found = run("check", str(file))
    assert 0 == found.exit_code
    assert noted == (f"note: {file.name}: {NOTE}" in found.output or f"note: {file}: {NOTE}" in found.output)
    assert noted == ("note:" in found.output)


OPTIONS = """
actions: "allocate, preempt"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, arguments: {gang.brokenGracePeriod: 2m}}
  - {name: capacity, arguments: {protectOnlyDeserved: true}}
configurations:
- {name: preempt, arguments: {evictAfter: 5m}}
"""


def test_check_explains_options_that_are_off_by_default(file: Path) -> None:
    file.write_text(OPTIONS)
    found = [line.split(": ", 2) for line in run("check", str(file)).stdout.splitlines() if line.startswith("note: ")]
    assert [
        "`preempt`: `evictAfter`: no pod is evicted for a job before the job has waited for 5m",
        "`gang`: `gang.brokenGracePeriod`: a gang without its minimum because a pod failed is evicted after 2m, or"
        " what its job says",
        "`capacity`: `protectOnlyDeserved`: jobs that may not be evicted start only within what their queues deserve",
    ] == [words for _, _, words in found]
    file.write_text(OPTIONS.replace("5m", "300"))
    assert "before the job has waited for 300 s\n" in run("check", str(file)).stdout


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("evictAfter: 5m", "evictAfter: soon", "configurations[0].arguments.evictAfter: not a duration: `soon`"),
        ("evictAfter: 5m", "evictAfter: -5m", "configurations[0].arguments.evictAfter: not a duration: `-5m`"),
        (
            "evictAfter",
            "evictafter",
            "configurations[0].arguments: unknown argument `evictafter`; did you mean `evictA",
        ),
        ("2m", "-1", "tiers[0].plugins[1].arguments.gang.brokenGracePeriod: not a duration: `-1`"),
        ("brokenGrace", "brokenGrase", "unknown argument `gang.brokenGrasePeriod`; did you mean `gang.brokenGraceP"),
        ("true", "maybe", "tiers[0].plugins[2].arguments.protectOnlyDeserved: expected `true` or `false`, got `maybe`"),
        ("protectOnly", "protectonly", "argument `protectonlyDeserved`; did you mean `protectOnlyDeserved`?"),
    ],
)
def test_wrong_values_of_these_options_are_refused_with_their_path(
    file: Path, right: str, wrong: str, said: str
) -> None:
    file.write_text(OPTIONS.replace(right, wrong))
    found = run("check", str(file))
    assert (1, True) == (found.exit_code, said in found.stderr), found.stderr
