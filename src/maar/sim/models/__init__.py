"""Models: how jobs progress, what a change costs, and how counted GPUs map to nodes. One file each, listed in `MODELS`.

A model is between the pool (`maar.sim.pool`), which handles events, and the policy, which is a shipped algorithm. The
model keeps the columns that the algorithm reads, and computes the ends of jobs from its answer. It must not choose the
sizes of jobs: the algorithm does.
"""

from __future__ import annotations

from maar.model.words import unknown
from maar.sim.models import default, muri, rates
from maar.sim.models.model import Maker

MODELS: dict[str, Maker] = {default.NAME: default.Default, muri.NAME: muri.Muri, rates.NAME: rates.Rated}


def find(name: str) -> Maker:
    if name in MODELS:
        return MODELS[name]
    raise ValueError(unknown("model", name, MODELS))
