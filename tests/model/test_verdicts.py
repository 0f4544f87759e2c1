"""From reasons to the one condition of a waiting job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maar.model.reasons import Reason
from maar.model.verdicts import CODES, ROWS, UNSCHEDULABLE, verdict

SOURCES = Path(__file__).parents[2] / "src" / "maar"
REASONS = re.compile(r'(?:Reason|over_limit|_reason)\(\s*(?:[\w.]+,\s*)?(?:"[a-z]+",\s*)?"([A-Z]\w+)"')
REJECTIONS = re.compile(r'Rejection\(\s*"(\w+)"')


def of(*codes: str, nodes: bool = False) -> str:
    causes = {"some": 1} if nodes else {}
    return verdict(tuple(Reason("test", code, code.lower(), nodes=causes) for code in codes)).condition


def test_every_code_in_the_source_is_in_the_table() -> None:
    text = "\n".join(path.read_text() for path in SOURCES.rglob("*.py"))
    codes = set(REASONS.findall(text)) | set(REJECTIONS.findall(text))
    assert len(codes) > 30, "the search finds them"
    assert set() == codes - set(CODES)


def test_conditions_are_words_for_programs_and_no_gate() -> None:
    assert all(re.fullmatch("[A-Z][A-Za-z]+", row.condition) for row in ROWS)
    assert "SchedulingGated" not in CODES.values()
    assert len(CODES) == sum(len(row.codes) for row in ROWS), "a code is in one row"


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
    rows = [f"| {', '.join(f'`{code}`' for code in row.codes)} | `{row.condition}` | {row.about} |" for row in ROWS]
    assert [] == [row for row in rows if row not in text]
