"""How long the executor tries a write again, and when it gives up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maar.kube.client.errors import Conflict, DisruptionRefused
from maar.kube.write.fence import REFUSED
from maar.kube.write.guarded import Guarded, Moved, Unanswered
from maar.kube.write.lines import Entry
from maar.kube.write.outcomes import Again, Failed

OFTEN = "ChangedOften"
"""The reason of a bind or a resize that failed because others changed its object again and again."""
MOVES = 5
"""How often a bind or a resize is announced again because another client changed its object."""


@dataclass(frozen=True)
class Patience:
    """How long writes are tried again, in seconds; all tuned by hand."""

    first: float = 0.1
    most: float = 5.0
    unanswered: float = 60.0
    """For a server that does not answer, fails or is busy: longer than its restart takes."""
    disruption: float = 30.0
    """For a budget that refuses an eviction."""

    def insist(self, entry: Entry, outcome: Again | Unanswered, now: float) -> Again | Unanswered | Failed:
        """Evict by uid again. No fence settles a request without a version, so one without an answer is repeated.

        A refusal of every later request, as by a budget, ends it only when no earlier one can take effect any more.
        """
        # 500 is an answer: for example of a server that finds two budgets for one pod.
        if isinstance(outcome, Unanswered) and outcome.error.status != 500:
            entry.doubt = now
        limit = self.disruption if isinstance(outcome.error, DisruptionRefused) else self.unanswered
        if now - entry.begun < limit or (entry.doubt is not None and now - entry.doubt < self.unanswered):
            return outcome
        return Failed(outcome.error)

    def moved(self, entry: Entry, outcome: Moved[Any], settling: bool, now: float) -> Moved[Any] | Failed:
        """Announce a write for another version, unless others change the object again and again."""
        entry.moves += not settling  # a fence of ours has moved it
        late = now - entry.begun >= self.unanswered
        if entry.moves > MOVES or late:
            why = "did not answer" if late else f"refused it {entry.moves} times, because others changed the object"
            return Failed(Conflict(f"the server {why}", reason="" if late else OFTEN, path=entry.work.key))
        return outcome

    def again(self, entry: Entry, outcome: Again, now: float) -> Again | Failed:
        """Try again, unless it has been tried for too long. A dangerous write has taken no effect then."""
        refused = isinstance(outcome.error, DisruptionRefused)
        limit = self.disruption if refused else self.unanswered
        if now - entry.begun < limit:
            return outcome
        return Failed(outcome.error, final=refused or isinstance(entry.work, Guarded))

    def unsettled(self, entry: Entry, outcome: Unanswered, now: float) -> Unanswered | Failed:
        """Fence again, unless the server has refused every form of it for too long: other writes may wait for this."""
        refused = isinstance(outcome.error, REFUSED)
        if not refused or now - entry.begun < self.unanswered:
            return outcome
        return Failed(outcome.error, final=False)
