"""How long jobs run, as decisions know it from the history."""

from __future__ import annotations

import msgspec


class Estimate(msgspec.Struct, frozen=True):
    """How long a job runs, by earlier runs of similar jobs: Maar's own evidence, unlike a promise of its owner.

    Times count from its start, at its requested size; those of an elastic job are seconds of work on one worker. Of a
    job that has run longer than `most`, little is known.
    """

    half: float
    """Half of such jobs ended within this time, in seconds."""
    most: float
    """Nine in ten of such jobs ended within this time, in seconds."""
    runs: int
    """How many runs of similar jobs it is made from."""
