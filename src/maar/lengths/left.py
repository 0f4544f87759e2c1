"""How much work is left of jobs that do not say it: by similar jobs that have ended, or by how far others have come.

Called where jobs become columns for elastic algorithms: by the action `resize` and by the simulator. All amounts have
one unit, which is the caller's.
"""

from __future__ import annotations

import numpy as np

from maar.model.resources import Floats, Ints

NO_KIND = -1


def left(done: Floats, half: Floats, most: Floats, kind: Ints) -> Floats:
    """The work left of each job; infinite where nothing is known.

    A job is expected to end at `half`; if it has done more, at `most`; after that nothing is known of it. Both are
    infinite for a job without an estimate. Such a job is taken to be as long as the others of its `kind`, of which the
    furthest counts as half done.
    """
    known: Floats = np.where(done < half, half - done, np.where(done < most, most - done, np.inf))
    rows = np.flatnonzero((kind != NO_KIND) & np.isinf(half))
    if len(rows) == 0:
        return known
    of, count = np.unique(kind[rows], return_inverse=True, return_counts=True)[1:]
    furthest = np.zeros(len(count))
    np.maximum.at(furthest, of, done[rows])
    tells = (count[of] > 1) & (furthest[of] > 0.0)
    known[rows[tells]] = (2.0 * furthest[of] - done[rows])[tells]
    return known
