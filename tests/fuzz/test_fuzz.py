"""Broken input of every kind, for a minute in all; `make fuzz` searches for an hour."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.fuzz.samples import SAMPLES, annotation_keys
from tests.fuzz.search import search
from tests.fuzz.targets import TARGETS, Target

from maar.kube.kinds import KINDS, kind_named

SECONDS = float(os.environ.get("MAAR_FUZZ_SECONDS", "60"))
SEED = int(os.environ.get("MAAR_FUZZ_SEED", "0"))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.name))
def test_safety_no_input_stops_anything_else(target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert search(target, SECONDS * target.share, SEED) > 0


def test_samples_are_of_every_kind_and_have_every_annotation() -> None:
    kinds = {kind_named(item["apiVersion"], item["kind"]) for item in SAMPLES}
    assert set() == {str(kind) for kind in KINDS} - {str(kind) for kind in kinds}
    notes = {key for item in SAMPLES for key in item["metadata"].get("annotations", ())}
    assert set() == set(annotation_keys()) - notes
