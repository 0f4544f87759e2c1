"""How `maar run` runs: what is ours, how often, how much at once."""

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
