"""overcommit: how much more than the free room may be admitted.

The operators of admitted groups create pods, and waiting pods cost. So groups are admitted only while their needs,
with everything that is used and that admitted groups lack, stay within the whole cluster times a factor.
"""

from __future__ import annotations

from fractions import Fraction

import msgspec

from maar.model.codes import NODES, Code
from maar.model.jobs import Job
from maar.model.reasons import Reason
from maar.model.resources import in_words
from maar.plugins.support.admission import Admission
from maar.plugins.support.quotas import InUse, compared, minimum_row
from maar.session.hooks import Vote
from maar.session.register import Register
from maar.session.session import Session

NAME = "overcommit"
OVERCOMMITTED = Code("Overcommitted", NODES)
DEFAULT_FACTOR = 1.2
"""The default of Volcano."""


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`overcommit-factor`: how many times the cluster is given away. A factor below 1 becomes 1.2, as in Volcano."""

    factor: float = msgspec.field(name="overcommit-factor", default=DEFAULT_FACTOR)


class Overcommit:
    def __init__(self, arguments: Arguments) -> None:
        factor = arguments.factor if arguments.factor >= 1 else DEFAULT_FACTOR
        self._factor = Fraction(str(factor))  # 1.2 is exactly six fifths

    def open(self, session: Session, on: Register) -> None:
        self._session = session
        self._in_use = InUse(session)
        self._admission = Admission(session, on)
        on.job_enqueueable(self._enqueueable)

    def _enqueueable(self, job: Job) -> Vote | Reason:
        session, axes = self._session, self._session.snapshot.axes
        asks, used = minimum_row(session, job), self._in_use.row()
        lacked = self._admission.lacked(session.snapshot.queues.root)
        for d in [*compared(axes), axes.pods]:
            room = self._factor * session.total[d] - used[d] - lacked[d]
            if 0 < asks[d] and asks[d] > room:
                name, left = axes.names[d], max(int(room), 0)
                what = f"needs {in_words(name, asks[d])} {name}, only {in_words(name, left)} may still be promised"
                of = f"the cluster has {in_words(name, session.total[d])}, times {float(self._factor):g}"
                lasting = (
                    f"asks for {in_words(name, asks[d])} {name}: admitted groups already ask for all that there is"
                )
                return Reason(
                    NAME, OVERCOMMITTED.name, f"{what} ({of})", resource=name, needs=asks[d], has=left, lasting=lasting
                )
        return Vote.PERMIT
