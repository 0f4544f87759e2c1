"""The rules of the protocol as switches. The names and numbers are those of docs/shards-proof.md."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Rules:
    """The protocol is all of them; a test sets one to False."""

    # 1 intent first
    intent_first: bool = True
    """The Lease names the objects before requests are sent."""
    version: bool = True
    """A request carries the version that its object had when the intent was written."""
    new_intent_for_retry: bool = True
    """A request that is repeated for another version needs a new intent."""
    # 2 fence
    settle_by_fence: bool = True
    """A request without an answer is settled by a fence, not by a GET."""
    # 3 take-over
    intents_of_won_version: bool = True
    """The intents are read in the same version of the Lease that the winner replaces."""
    keep_inherited: bool = True
    """Intents of predecessors stay on the Lease until they are fenced."""
    raise_epoch: bool = True
    """The winner writes its epoch into the ShardMap."""
    fence_inherited: bool = True
    """The winner fences everything that the intents name."""
    carry_out_decided: bool = True
    """The winner carries out the evictions that the Lease states as decided, before it decides anything."""
    list_after_fences: bool = True
    """The winner lists pods after the last fence."""
    finish_gangs: bool = True
    """Gangs that are bound in part are finished or released."""
    # 4 one owner
    map_version: bool = True
    """The ShardMap is written by compare-and-swap."""
    owner_writes: bool = True
    """Only the holder of the owning shard changes an entry."""
    epoch_before_write: bool = True
    """The version of the map that a write replaces contains the writer's own epoch."""
    entries_outlive_nodes: bool = True
    """The entry of a deleted node stays."""
    slot_by_name: bool = True
    """The slot of a node depends on its name only, not on labels, which change."""
    # 5 lending
    settle_before_lending: bool = True
    """The owner settles everything that it sent to a node before it lends the node."""
    never_withdrawn: bool = True
    """A lend that was sent is repeated until it is answered."""
    taker_lists: bool = True
    """The taker uses a node after a consistent LIST."""
    # 6 wants
    fits_whole_cluster: bool = True
    """A want is written only if `decide` over the whole cluster places the gang."""
    one_order: bool = True
    """All wants and all waiting jobs stand in one order."""
    want_until_bound: bool = True
    """A want, and the place of its gang in the order, stands until the gang is bound, not until binds are sent."""
    rewrite_wants: bool = True
    """A want whose nodes are no longer enough is decided again."""
    deadline: bool = True
    """A want ends when its deadline is missed."""
    pause: bool = True
    """After a missed deadline, a pause comes before the next want."""
    # locked nodes
    locks: bool = True
    """Owners keep the nodes that an elected job wants from other jobs."""
    one_election: bool = True
    """Of several elected jobs the first in the order counts, in every shard; the other elections end."""
    empty_nodes_help: bool = True
    """A job is elected only if it fits when nodes are empty."""
    elected_until_bound: bool = True
    """When an elected job fits, its want becomes an ordinary one, also if the shard has all nodes."""
    # 7 preemption
    nodes_first: bool = True
    """Victims are evicted when the asker owns the nodes."""
    asks: bool = True
    """The asker says in its want that it uses all nodes; that the map names it is not enough."""
    own_victims: bool = True
    """Only the shard of the victim's job evicts."""
    # 8 routing
    let_go_first: bool = True
    """A queue has its new shard when the present one has let it go."""
    settle_before_letting_go: bool = True
    """The present shard settles all requests for jobs of the queue first."""
    wants_end_before_letting_go: bool = True
    """The present shard serves or ends the wants of the queue first."""
    queue_taker_lists: bool = True
    """The new shard decides for the queue after a consistent LIST."""
    tied_by_owner: bool = True
    """Pods tied to one node are bound by the owner of that node."""

    def without(self, name: str) -> Rules:
        """The protocol with one rule broken."""
        return replace(self, **{name: False})

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in fields(cls)]
