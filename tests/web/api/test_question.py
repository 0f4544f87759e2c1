"""What-if questions as they arrive: every kind of edit, and what a viewer may name."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from tests.whatif.test_edits import SCENE as FEW
from tests.whatif.test_edits import WORDS

from maar.model.jobs import OnHold
from maar.testing.builders import gang
from maar.views.sight import ALL, Sight
from maar.web.api.errors import Refused
from maar.web.api.question import Question, WebEdit, answered
from maar.whatif.edit import Edit, Scene
from maar.whatif.edits import applied
from maar.whatif.job_edits import AddJobs, Release

NOW = 1000.0
HELD = gang("held", 1, gpu=1, priority=-5, on_hold=OnHold.START)
SCENE = applied(FEW, [AddJobs((HELD.job,), HELD.tasks)])
KINDS = get_args(WebEdit)
EDITS = [(edit, words) for edit, words in WORDS if isinstance(edit, KINDS)]
EDITS += [(Release("ns/held"), "release `ns/held`, which its owner holds")]
NAMING = ("job", "jobs", "quota")
"""Fields with names of a namespace."""


def asked(edit: Edit) -> Question:
    return msgspec.json.decode(msgspec.json.encode({"edits": [edit]}), type=Question)


def test_all_kinds_of_edits_are_tried() -> None:
    assert set(KINDS) == {type(edit) for edit, _ in EDITS}


@pytest.mark.parametrize(("edit", "words"), EDITS, ids=[words for _, words in EDITS])
def test_every_edit_is_answered(edit: Edit, words: str) -> None:
    view, after = answered(asked(edit), SCENE.cluster, SCENE.config, NOW, ALL, [])
    assert (words,) == view.edits
    assert Scene(SCENE.cluster, SCENE.config) != after


@pytest.mark.parametrize(("edit", "words"), EDITS, ids=[words for _, words in EDITS])
def test_nobody_learns_names_by_an_edit(edit: Edit, words: str) -> None:
    """Names that she may not know are refused as names that do not exist; all other answers have none."""
    named = [field for field in NAMING if hasattr(edit, field)]
    if not named:
        view, _ = answered(asked(edit), SCENE.cluster, SCENE.config, NOW, Sight({"other"}), [])
        assert b"ns/" not in msgspec.json.encode(view)
        return
    with pytest.raises(Refused) as refused:
        answered(asked(edit), SCENE.cluster, SCENE.config, NOW, Sight({"other"}), [])
    assert (422, True) == (refused.value.status, refused.value.view.field.startswith(f"edits[0].{named[0]}"))
    assert "ns/" not in refused.value.view.error
