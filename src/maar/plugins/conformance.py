"""conformance: pods that the cluster itself needs are never evicted.

It votes on victims. It protects pods of system-critical priority classes, everything in `kube-system`, and pods bound
to their node (DaemonSets, static pods), which would only come back to the same place. A tenant can state two of these
herself, so `tenants: untrusted` limits them (`session.eviction.protection`).
"""

from __future__ import annotations

import numpy as np

from maar.config.config import WithoutArguments
from maar.model.resources import Ints, Mask
from maar.session.eviction.protection import unprotected
from maar.session.hooks import Claim
from maar.session.register import Register
from maar.session.session import Session

NAME = "conformance"


class Conformance(WithoutArguments):
    def open(self, session: Session, on: Register) -> None:
        self._session = session
        on.preemptable(self._victims, alone=True)
        on.reclaimable(self._victims, alone=True)

    def _victims(self, claim: Claim, tasks: Ints) -> Mask:
        table = self._session.snapshot.tasks
        return np.asarray(~(table.critical[tasks] | table.resident[tasks]) | unprotected(self._session, tasks))
