"""Settings of `maar run`: which pods and nodes are Maar's, how often it decides, how many writes run at once.

The command's options set some of them; the others are for code that starts a `Scheduler` itself, such as tests.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from maar.model.selectors import Selector


class Settings(msgspec.Struct, frozen=True):
    """Settings of one controller."""

    scheduler_names: frozenset[str] = frozenset({"maar"})
    """Maar schedules pods with these scheduler names."""
    namespace: str = "kube-system"
    """Maar's own namespace, with the ConfigMap `maar-state`."""
    without: frozenset[str] = frozenset()
    """Families of kinds (`maar.kube.kinds.FAMILIES`) that Maar neither reads nor writes, even if they are served."""
    node_selector: Selector | None = None
    """Maar uses only matching nodes."""
    gather: float = 0.0
    """Seconds that a cycle waits for more events after the first."""
    gather_room: float = 0.005
    """The same after an event that may have given room: the pods of a gang end together. Tuned by hand."""
    min_interval: float = 0.05
    """Minimum seconds between the starts of two cycles; a long cycle extends it."""
    quiet_interval: float = 0.01
    """The same on a quiet cluster, where there is nothing to gather; tuned by hand."""
    quiet_multiple: float = 4.0
    """On a quiet cluster, cycles start at least this multiple of their duration apart, unless that is longer than
    `min_interval`: deciding takes a quarter of one core. Tuned by hand."""
    quick: float = 0.02
    """After a cycle shorter than this (in seconds), there is no pause; tuned by hand."""
    pause: float = 9.0
    """After a cycle, pause this multiple of its duration: deciding takes a tenth of one core. Tuned by hand."""
    crowd: int = 200
    """A cycle that looked at this many waiting jobs or more and binds few pods has its whole pause: looking at all of
    them again at once would gain little. Tuned by hand."""
    few: int = 4
    """With fewer changed jobs than this there is no pause; tuned by hand."""
    shortest_pause: float = 0.1
    """Minimum seconds of a pause, even if everything is written; tuned by hand."""
    longest_pause: float = 1.0
    """Maximum seconds of a pause, however long the cycle took; tuned by hand."""
    later: float = 1.0
    """Seconds until a cycle for a change that helps no job yet, such as half of a gang's pods; tuned by hand."""
    sending: float = 1.0
    """Seconds that the reports of a cycle wait at most until its binds are sent; tuned by hand."""
    backlog: float = 0.5
    """Seconds that a cycle waits while more writes are pending than can be in flight at once; tuned by hand."""
    resync: float = 60.0
    """Seconds after which a cycle looks at all jobs, even without events."""
    discover_again: float = 30.0
    """Seconds between two discoveries of what the server serves: CRDs are created and deleted."""
    learn_every: float = 5.0
    """Minimum seconds between two checks for new measurements. Tuned by hand: epochs take minutes."""
    in_flight: int = 64
    """Writes in flight at once."""
    announce: bool = True
    """Announce dangerous writes on the lease. False only to measure what that costs."""
    delete_victims: bool = False
    """Delete pods instead of evicting them; this ignores disruption budgets."""
    pod_events: bool = False
    """Emit an event for each bound pod, besides the event for its gang."""

    def gather_after(self, room: bool) -> float:
        """Seconds to wait for more events after the first; `room`: whether one of them may have given room."""
        return max(self.gather, self.gather_room) if room else self.gather

    def quiet_distance(self, seconds: float) -> float:
        """Seconds from the start of a cycle that took `seconds` to that of the next one on a quiet cluster."""
        return max(self.quiet_interval, self.quiet_multiple * seconds)

    def rest_after(self, seconds: float, waiting: int, binds: int) -> float:
        """Seconds to wait at least after a cycle that took `seconds`, bound `binds` pods and left `waiting` jobs."""
        calm = waiting >= self.crowd and binds < self.in_flight
        return min(self.pause * seconds, self.longest_pause) if calm and seconds >= self.quick else 0.0

    def pause_after(self, seconds: float, news: int) -> float:
        """Seconds to wait after a cycle that took `seconds` and had `news` changed jobs."""
        pause = 0.0 if seconds < self.quick or news < self.few else min(self.pause * seconds, self.longest_pause)
        return max(self.min_interval - seconds, pause)


class Observing(msgspec.Struct, frozen=True):
    """What every process is told that watches a cluster and decides about it."""

    settings: Settings = Settings()
    kubeconfig: str | None = None
    context: str | None = None
    config: Path | None = None
    lenient: bool = False
    """Skip what the configuration asks for and Maar does not know, also when it is read again."""
    brakes: Path | None = None
    history: str | None = None
