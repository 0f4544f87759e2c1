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
    """Seconds that a cycle may take without a pause after it, as on a quiet cluster; tuned by hand."""
    pause: float = 9.0
    """After a cycle, pause this multiple of its duration: deciding takes a tenth of one core. Tuned by hand."""
    few: int = 4
    """With fewer changed jobs than this there is no pause; tuned by hand."""
    shortest_pause: float = 0.1
    """Seconds that a pause lasts at least, even if everything is written; tuned by hand."""
    longest_pause: float = 1.0
    """Seconds that a pause lasts at most, however long the cycle took; tuned by hand."""
    later: float = 1.0
    """Seconds until a cycle for a change that helps no job yet, such as half of a gang's pods; tuned by hand."""
    backlog: float = 0.5
    """Seconds that a cycle waits while more writes are due than can be under way at once; tuned by hand."""
    resync: float = 60.0
    """Seconds after which a cycle looks at everything, whatever happened."""
    discover_again: float = 30.0
    """Seconds between two looks at what the server serves: CRDs come and go."""
    learn_every: float = 5.0
    """Seconds between two looks at what the history has learnt, at least. Tuned by hand: epochs take minutes."""
    in_flight: int = 64
    """Writes at once."""
    dry_run: bool = False
    """Shadow mode: decide and write nothing."""
    delete_victims: bool = False
    """Delete pods instead of evicting them, past every disruption budget."""
    pod_events: bool = False
    """An event for each pod that is bound, besides one for its gang."""

    def pause_after(self, seconds: float, news: int) -> float:
        """Seconds to the next cycle after one that took `seconds`, with `news` changed jobs."""
        pause = 0.0 if seconds < self.quick or news < self.few else min(self.pause * seconds, self.longest_pause)
        return max(self.min_interval - seconds, pause)
