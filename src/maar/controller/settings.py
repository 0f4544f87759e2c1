"""How `maar run` runs: what is ours, how often, how much at once.

Its options set a few of these; the rest are there for whoever starts a `Scheduler` of their own, as tests do.
"""

from __future__ import annotations

import msgspec

from maar.model.selectors import Selector


class Settings(msgspec.Struct, frozen=True):
    """Settings of one controller."""

    scheduler_names: frozenset[str] = frozenset({"maar"})
    """Pods of these are ours."""
    node_selector: Selector | None = None
    """Only nodes that match are ours."""
    gather: float = 0.005
    """Seconds that a cycle waits for more once something has happened: what arrives together is one cycle."""
    min_interval: float = 0.05
    """Seconds between the starts of two cycles at least; a long cycle makes it longer."""
    quick: float = 0.02
    """Seconds that a cycle may take without a rest after it, as on a quiet cluster; by taste."""
    rest: float = 9.0
    """Times as long as for deciding there is for reading and writing: a tenth of one core decides. By taste."""
    few: int = 4
    """Jobs in the news of a cycle, below which so little goes on that no rest is needed; by taste."""
    shortest_rest: float = 0.1
    """Seconds of such a rest at least, though all that was decided is written; by taste."""
    longest_rest: float = 1.0
    """Seconds between two cycles at most because of that, however long they take; by taste."""
    later: float = 1.0
    """Seconds until a cycle for what helps nobody yet, such as half of a gang's pods; by taste."""
    backlog: float = 0.5
    """Seconds that a cycle waits while more writes are due than can be under way at once; by taste."""
    resync: float = 60.0
    """Seconds after which a cycle looks at everything, whatever happened."""
    discover_again: float = 30.0
    """Seconds between two looks at what the server serves: CRDs come and go."""
    learn_every: float = 5.0
    """Seconds between two looks at what the history has learnt, at least. By taste: epochs take minutes."""
    in_flight: int = 64
    """Writes at once."""
    dry_run: bool = False
    """Shadow mode: decide and write nothing."""
    delete_victims: bool = False
    """Delete pods instead of evicting them, past every disruption budget."""
    pod_events: bool = False
    """An event for each pod that is bound, besides one for its gang."""

    def rest_after(self, seconds: float, news: int) -> float:
        """Seconds from the end of a cycle that took so long, with news of so many jobs, to the next one."""
        rest = 0.0 if seconds < self.quick or news < self.few else min(self.rest * seconds, self.longest_rest)
        return max(self.min_interval - seconds, rest)
