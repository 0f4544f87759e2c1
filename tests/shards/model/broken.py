"""What happens without each rule: the cluster that shows it, the danger, and the harm that is done in the end."""

from __future__ import annotations

from typing import NamedTuple

from tests.shards.model import settings as on
from tests.shards.model.invariants import (
    BROKEN_GANG,
    FOR_NOTHING,
    HOPELESS,
    IN_PART,
    LATE,
    NEVER,
    OVER_COMMIT,
    OVER_LIMIT,
    STARVED,
    TWO_BINDERS,
    TWO_OWNERS,
)
from tests.shards.model.setting import Setting


class Case(NamedTuple):
    setting: Setting
    danger: str
    """The first invariant that breaks."""
    harm: str
    """The first one if two owners or two binders do not count by themselves."""


BROKEN = {
    "intent_first": Case(on.FAIL_OVER, TWO_OWNERS, OVER_COMMIT),
    "version": Case(on.FAIL_OVER, TWO_OWNERS, OVER_COMMIT),
    "new_intent_for_retry": Case(on.FAIL_OVER, TWO_OWNERS, OVER_COMMIT),
    "settle_by_fence": Case(on.FAIL_OVER, TWO_OWNERS, OVER_COMMIT),
    "intents_of_won_version": Case(on.FAIL_OVER, TWO_OWNERS, OVER_COMMIT),
    "keep_inherited": Case(on.FAIL_OVER, TWO_OWNERS, OVER_COMMIT),
    "raise_epoch": Case(on.SHARED, TWO_OWNERS, OVER_COMMIT),
    "fence_inherited": Case(on.FAIL_OVER, TWO_OWNERS, OVER_COMMIT),
    "carry_out_decided": Case(on.DECIDED, LATE, BROKEN_GANG),
    "list_after_fences": Case(on.FAIL_OVER, OVER_COMMIT, OVER_COMMIT),
    "finish_gangs": Case(on.HOPELESS, IN_PART, IN_PART),
    "map_version": Case(on.SHARED, TWO_OWNERS, OVER_COMMIT),
    "owner_writes": Case(on.SHARED, TWO_OWNERS, OVER_COMMIT),
    "epoch_before_write": Case(on.SHARED, TWO_OWNERS, OVER_COMMIT),
    "entries_outlive_nodes": Case(on.NODES, TWO_OWNERS, OVER_COMMIT),
    "slot_by_name": Case(on.NODES, TWO_OWNERS, OVER_COMMIT),
    "settle_before_lending": Case(on.SHARED, TWO_OWNERS, OVER_COMMIT),
    "never_withdrawn": Case(on.NODES, TWO_OWNERS, OVER_COMMIT),
    "taker_lists": Case(on.SHARED, OVER_COMMIT, OVER_COMMIT),
    "fits_whole_cluster": Case(on.HOPELESS, HOPELESS, HOPELESS),
    "one_order": Case(on.ORDER, NEVER, NEVER),
    "want_until_bound": Case(on.ROUTING_PREEMPTION, FOR_NOTHING, FOR_NOTHING),
    "rewrite_wants": Case(on.NODES_FAIL_OVER, NEVER, NEVER),
    "deadline": Case(on.KEPT, NEVER, NEVER),
    "pause": Case(on.KEPT, NEVER, NEVER),
    "locks": Case(on.STREAM, STARVED, STARVED),
    "one_election": Case(on.STREAM, STARVED, STARVED),
    "empty_nodes_help": Case(on.HOPELESS, HOPELESS, HOPELESS),
    "elected_until_bound": Case(on.STREAM, STARVED, STARVED),
    "nodes_first": Case(on.PREEMPTION, FOR_NOTHING, FOR_NOTHING),
    "asks": Case(on.ROUTING_PREEMPTION, FOR_NOTHING, FOR_NOTHING),
    "own_victims": Case(on.SURPLUS, BROKEN_GANG, BROKEN_GANG),
    "let_go_first": Case(on.ROUTING, TWO_BINDERS, OVER_LIMIT),
    "settle_before_letting_go": Case(on.ROUTING, TWO_BINDERS, OVER_LIMIT),
    "wants_end_before_letting_go": Case(on.ROUTING_PREEMPTION, FOR_NOTHING, FOR_NOTHING),
    "queue_taker_lists": Case(on.ROUTING, OVER_LIMIT, OVER_LIMIT),
    "tied_by_owner": Case(on.TIED, TWO_OWNERS, OVER_COMMIT),
}
