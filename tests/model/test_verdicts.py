"""From reasons to the one condition of a waiting job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from maar.model.codes import CORE, UNSCHEDULABLE, Meaning, by_meaning
from maar.model.reasons import Reason
from maar.model.verdicts import verdict
from maar.model.volumes import IN_USE, LIMIT, NO_STORAGE, NO_VOLUME
from maar.registry import catalog, codes_of

SOURCES = Path(__file__).parents[2] / "src" / "maar"
REASONS = re.compile(r'(?:Reason|over_limit|_reason)\(\s*(?:[\w.]+,\s*)?(?:"[a-z]+",\s*)?"([A-Z]\w+)"')
CODES = {code.name: code for code in codes_of(catalog())}


def of(*codes: str, nodes: bool = False) -> str:
    causes = {"some": 1} if nodes else {}
    reasons = (Reason("test", code, code.lower(), nodes=causes) for code in codes)
    declared = (replace(r, meaning=CODES[r.code].meaning) if r.code in CODES else r for r in reasons)
    return verdict(tuple(declared)).condition


def test_every_code_in_the_source_is_declared() -> None:
    """The core writes its codes as words, a plugin those that it declares: none has a word of another module."""
    core = "\n".join(path.read_text() for path in SOURCES.rglob("*.py") if path.parent.name != "plugins")
    codes = set(REASONS.findall(core))
    assert len(codes) > 20, "the search finds them"
    assert set() == codes - {code.name for code in CORE}
    plugins = "\n".join(path.read_text() for path in (SOURCES / "plugins").glob("*.py"))
    assert set() == set(REASONS.findall(plugins)), "plugins name declared codes"


def test_no_code_of_a_plugin_is_a_word_of_another_module() -> None:
    """Rooms of volumes have theirs from the snapshot, so the model has the words."""
    own = CODES.keys() - {code.name for code in CORE}
    words = re.compile(r'["\'](\w+)["\']')
    others = {path: path.read_text() for path in SOURCES.rglob("*.py") if "plugins" not in path.parts}
    found = {(path.name, word) for path, text in others.items() for word in words.findall(text) if word in own}
    mode_of_kubernetes = ("claims.py", IN_USE)
    assert {*(("volumes.py", word) for word in OF_ROOMS), mode_of_kubernetes} == found


OF_ROOMS = (LIMIT, NO_VOLUME, NO_STORAGE, IN_USE)


def test_every_declared_code_is_registered() -> None:
    text = "\n".join(path.read_text() for path in (SOURCES / "plugins").rglob("*.py"))
    declared = {*re.findall(r'Code\(\s*"(\w+)"', text), *OF_ROOMS}
    assert declared == CODES.keys() - {code.name for code in CORE}


def test_conditions_are_words_for_programs_and_no_gate() -> None:
    assert all(re.fullmatch("[A-Z][A-Za-z]+", code.meaning.condition) for code in CODES.values())
    with pytest.raises(ValueError, match="not a condition of Maar: `SchedulingGated`; expected a CamelCase word"):
        Meaning("SchedulingGated", "")
    assert len(CODES) == len(codes_of(catalog())), "a code means one thing"


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (("NotEnoughResources",), UNSCHEDULABLE),
        (("NotEnoughResources", "NoVictims"), UNSCHEDULABLE),
        (("TaintToleration",), UNSCHEDULABLE),
        (("NodeSelector",), UNSCHEDULABLE),
        # Nodes would not help while something else refuses the job.
        (("NotEnoughResources", "OverCapability"), "QueueLimit"),
        (("NotEnoughResources", "QueueClosed"), "QueueClosed"),
        (("NotEnoughResources", "Braked"), "Held"),
        (("Locked",), "Reserved"),
        # Some of its pods would start without locks, others need nodes in any case.
        (("Locked", "NotEnoughResources"), UNSCHEDULABLE),
        (("Locked", "NoVictims"), "Reserved"),
        (("Locked", "OverCapability", "NotEnoughResources"), "QueueLimit"),
        (("NotEnoughTasks", "Blocked"), "WaitingForMembers"),
        (("NotEnoughResources", "Nominated"), "Nominated"),
        (("NoPods",), "WaitingForMembers"),
        (("Invalid",), "Invalid"),
        (("QueueNotFound",), "InvalidQueue"),
        (("PriorityClassNotAccepted",), "InvalidQueue"),
        # With more nodes every queue has a larger share.
        (("NotEnoughResources", "OverDeserved"), UNSCHEDULABLE),
        (("OverDeserved",), "QueueLimit"),
        (("GuaranteedToOthers",), "QueueLimit"),
        (("NodeName",), "NodeNotFound"),
    ],
)
def test_the_reason_that_decides(codes: tuple[str, ...], expected: str) -> None:
    assert expected == of(*codes) == of(*reversed(codes))


def test_codes_of_other_plugins() -> None:
    assert "NoLicence" == of("NoLicence") == of("NotEnoughResources", "NoLicence"), "new nodes do not remove it"
    assert UNSCHEDULABLE == of("no InfiniBand", nodes=True) == of("NoInfiniBand", nodes=True), "refused by nodes"
    assert ["Waiting"] * 4 == [of(code) for code in ("no licence", "", "Unschedulable", "SchedulingGated")]


def test_the_text_has_nothing_that_other_jobs_change() -> None:
    short = Reason("allocate", "NotEnoughResources", "0/5 nodes fit: 5 short", lasting="asks for 4 pods")
    other = Reason("preempt", "NoVictims", "nobody may go")
    found = verdict((other, short))
    assert ("NotEnoughResources", "asks for 4 pods", "asks for 4 pods") == (found.code, found.text, found.details)
    assert "nobody may go" == verdict((other,)).details


def test_the_documentation_has_the_table() -> None:
    text = (SOURCES.parents[1] / "docs" / "reasons.md").read_text()
    rows = [
        f"| {', '.join(f'`{code}`' for code in codes)} | `{meaning.condition}` | {meaning.about} |"
        for meaning, codes in by_meaning(codes_of(catalog()))
    ]
    assert "\n".join(rows) in text, "\n".join(rows)
