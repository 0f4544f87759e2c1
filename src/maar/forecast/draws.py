"""Common random numbers: the draws of a job depend on its name, a seed and the number of the roll-out only.

So two forecasts (before and after an edit) play the same futures, and their difference is that of the edit. The draws
of one job are spread evenly: each roll-out has its own equal part of the range from 0 to 1, in an order of its own for
each job. That makes quantiles of few roll-outs much steadier than independent draws would be.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b


@lru_cache(maxsize=8192)
def uniforms(seed: int, job: str, rollouts: int) -> tuple[float, ...]:
    """One number between 0 and 1, both excluded, for each roll-out."""
    hashes = [_hash(f"{seed}/{number}/{job}") for number in range(rollouts)]
    order = sorted(range(rollouts), key=lambda number: (hashes[number], number))
    drawn = [0.0] * rollouts
    for part, number in enumerate(order):
        inside = (_hash(f"{seed}/{number}/{job}/inside") + 0.5) * 2.0**-53
        drawn[number] = min((part + inside) / rollouts, 1.0 - 2.0**-53)
    return tuple(drawn)


def _hash(text: str) -> int:
    """53 bits."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 11
