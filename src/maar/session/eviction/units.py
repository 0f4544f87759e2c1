"""The units in which tasks are evicted."""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """Tasks that leave together."""

    job: int
    tasks: tuple[int, ...]
    whole: bool
    shrinks: bool = False
    """Workers of an elastic job, from an index on: the job shrinks, no pod is evicted."""
    subgroup: str = ""
    """The name of a subgroup that leaves whole."""

    @property
    def words(self) -> str:
        if self.subgroup:
            return f"surplus subgroup `{self.subgroup}`"
        return "gang" if self.whole else "workers" if self.shrinks else "surplus pod"
