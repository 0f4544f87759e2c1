"""The table of models: the names that `maar simulate --model` can use."""

from __future__ import annotations

from maar.model.words import unknown
from maar.sim.models import default
from maar.sim.models.model import Maker
from maar.sim.papers import muri, rates

MODELS: dict[str, Maker] = {default.NAME: default.Default, muri.NAME: muri.Muri, rates.NAME: rates.Rated}


def find(name: str) -> Maker:
    """The model with this name; `ValueError` names the known ones."""
    if name in MODELS:
        return MODELS[name]
    raise ValueError(unknown("model", name, MODELS))
