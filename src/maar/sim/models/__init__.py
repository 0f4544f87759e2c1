"""Models: how jobs progress, what a change costs them, and how counted GPUs lie on nodes. A file each, one table.

A model stands between the pool (`maar.sim.pool`), which knows what happens when, and the policy, which is a shipped
algorithm: it keeps the columns that the algorithm is asked about and turns its answer into ends of jobs. It chooses
nobody: who gets how many workers is what the algorithm says.
"""

from __future__ import annotations

from maar.config.problems import unknown
from maar.sim.models import default, muri
from maar.sim.models.model import Maker

MODELS: dict[str, Maker] = {default.NAME: default.Default, muri.NAME: muri.Muri}


def find(name: str) -> Maker:
    """The model of that name."""
    if name in MODELS:
        return MODELS[name]
    raise ValueError(unknown("model", name, MODELS))
