"""What the holder of a shard decides: placements, wants, nodes to lend, victims. A stand-in for `decide`.

It is deterministic, and sees pods where the mind last saw them. It reads wants and the map as they are.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from tests.shards.model.rules import Rules
from tests.shards.model.setting import Setting
from tests.shards.model.state import (
    ASKED,
    BIND,
    ELECTED,
    EVICT,
    NO_WANT,
    PAUSED,
    RELEASE,
    SURPLUS,
    WAITING,
    Mind,
    Request,
    State,
)


class Decisions(NamedTuple):
    """What one mind would do now."""

    announce: list[Request]
    """The next batch: evictions, the binds of a gang, or the release of one."""
    want: tuple[int, int] | None
    """A gang and the nodes that it wants."""
    waiting: list[int]
    wants_now: list[int]
    """For each waiting gang what its want would be."""
    lend: tuple[int, ...]
    """For each node the shard that it is to be given to, or -1."""


class Decider:
    """Decides, and remembers: many states differ only in what one mind does not see."""

    def __init__(self, setting: Setting, rules: Rules) -> None:
        self._setting, self._rules = setting, rules
        self._known: dict[object, Decisions] = {}

    def __call__(self, state: State, mind: Mind, sent: list[Request]) -> Decisions:
        pods = None if self._setting.lag else state.pods
        owner = state.owner if self._setting.preempt else None
        key = (mind, tuple(sent), state.wants, state.present, state.route, state.proposed, pods, owner)
        decisions = self._known.get(key)
        if decisions is None:
            decisions = self._known[key] = self._decide(state, mind, sent)
        return decisions

    def _decide(self, state: State, mind: Mind, sent: list[Request]) -> Decisions:
        board = Board(self._setting, self._rules, state, mind, sent)
        victims = board.victims() if self._setting.preempt else []
        announce = victims or board.placement() or board.release()
        back, lend = board.unused_loans(), []
        for n, node in enumerate(self._setting.nodes):
            gang = board.borrower(n) if mind.usable >> n & 1 else -1
            lend.append(board.shard_of(gang) if gang >= 0 else node.home if n in back else -1)
        wants = [board.want(gang) for gang in board.waiting]
        return Decisions(announce, board.new_want(), board.waiting, wants, tuple(lend))


class Board:
    """The cluster as one mind sees it."""

    def __init__(self, setting: Setting, rules: Rules, state: State, mind: Mind, sent: list[Request]) -> None:
        self.setting, self.rules, self.state, self.mind = setting, rules, state, mind
        self.seen = list(mind.view) if setting.lag else list(state.pods)
        """Where pods are, with the binds that the mind has announced."""
        self.open: set[int] = set()
        """Pods with announced writes that are not settled."""
        for request in sent:
            self.open.add(request.pod)
            if request.what == BIND:
                self.seen[request.pod] = request.node

    @cached_property
    def busy(self) -> list[int]:
        """How many pods each node has."""
        busy = [0] * len(self.setting.nodes)
        for place in self.seen:
            if place >= 0:
                busy[place] += 1
        return busy

    @cached_property
    def waiting(self) -> list[int]:
        """The gangs that this mind decides for and that need pods, in order."""
        return [g for g in range(len(self.setting.gangs)) if self.is_mine(g) and self._needs_pods(g)]

    def members(self, gang: int) -> range:
        return self.setting.members[gang]

    def is_mine(self, gang: int) -> bool:
        it = self.setting.gangs[gang]
        if it.tied >= 0 and self.rules.tied_by_owner:
            return bool(self.mind.usable >> it.tied & 1)
        return bool(self.mind.queues >> it.queue & 1)

    def _is_short(self, gang: int) -> bool:
        """Whether a gang has too few pods, also when all announced binds succeed."""
        places = [self.seen[pod] for pod in self.members(gang)]
        bound = sum(place >= 0 for place in places)
        return WAITING in places and bound < self.setting.least(gang) and (bound == 0 or self.rules.finish_gangs)

    def _needs_pods(self, gang: int) -> bool:
        """Whether it is time to decide for a gang: what was sent for it is settled."""
        if self._is_leaving(gang) and (self.state.wants[gang] <= 0 or self.state.wants[gang] & ELECTED):
            return False
        return self._is_short(gang) and not any(pod in self.open for pod in self.members(gang))

    def _is_leaving(self, gang: int) -> bool:
        """Whether the queue is to be let go, so that nothing new is begun for it."""
        it = self.setting.gangs[gang]
        return it.tied < 0 and self.state.proposed[it.queue] != self.mind.shard and self.rules.let_go_first

    def missing(self, gang: int) -> list[int]:
        return [pod for pod in self.members(gang) if self.seen[pod] == WAITING]

    def _reserved(self, gang: int) -> int:
        """Nodes that wants before this gang name, and nodes that are locked for another one."""
        if not self.rules.one_order:
            return 0
        taken = 0
        for want in self.state.wants[:gang]:
            if want > 0 and not want & ELECTED:
                taken |= want
        if self.elected not in (-1, gang) and self.rules.locks:
            taken |= self.state.wants[self.elected]
        return taken

    def _is_elected(self, gang: int) -> bool:
        return self.state.wants[gang] > 0 and bool(self.state.wants[gang] & ELECTED)

    def _keeps_place(self, gang: int) -> bool:
        """Whether a gang that fits on own nodes has a want until it is bound."""
        return self._is_elected(gang) and self.rules.elected_until_bound

    @cached_property
    def elected(self) -> int:
        """The elected gang that counts for this mind, or -1."""
        elected = [g for g in range(len(self.state.wants)) if self._is_elected(g)]
        if not self.rules.one_election:
            elected.sort(key=lambda g: not self.is_mine(g))
        return elected[0] if elected else -1

    def _election(self, gang: int) -> int:
        """The want of a gang as the elected one: nodes that it needs if they were empty; 0 if it cannot be elected.

        Nodes that other wants name are added when these have ended.
        """
        elected, wants = self.elected, self.state.wants
        is_later = -1 < elected < gang and self.rules.one_election
        is_after_own = elected not in (-1, gang) and self.is_mine(elected)
        if not self.setting.elect or is_later or is_after_own:
            return NO_WANT
        missing, nodes = len(self.missing(gang)), self.setting.nodes
        room = sum(node.room for n, node in enumerate(nodes) if self.state.present >> n & 1)
        if room < missing and self.rules.empty_nodes_help:
            return NO_WANT
        others = [w for g, w in enumerate(wants) if g != gang and w > 0 and not w & ELECTED]
        free = [n for n in range(len(nodes)) if self.state.present >> n & 1 and not any(w >> n & 1 for w in others)]
        free.sort(key=lambda n: (not (wants[gang] > 0 and wants[gang] >> n & 1), not self.mind.usable >> n & 1))
        slots = [n for n in free for _ in range(nodes[n].room)][:missing]
        return ELECTED | sum(1 << n for n in set(slots)) if slots else NO_WANT

    def _slots(self, gang: int, nodes: int, victims: bool = False) -> list[int]:
        """Free slots for the gang on some nodes, each as the number of its node."""
        tied = self.setting.gangs[gang].tied
        slots = []
        for n, node in enumerate(self.setting.nodes):
            if nodes >> n & self.state.present >> n & 1 and tied in (-1, n):
                busy = self.busy[n]
                if victims:
                    busy -= sum(place == n and self.setting.pods[pod] > gang for pod, place in enumerate(self.seen))
                slots += [n] * (node.room - busy)
        return slots

    def _within_limit(self, gang: int, more: int) -> bool:
        queue = self.setting.gangs[gang].queue
        used = sum(p >= 0 and self.setting.gangs[self.setting.pods[i]].queue == queue for i, p in enumerate(self.seen))
        return used + more <= self.setting.queues[queue].limit

    def own_nodes(self, gang: int) -> int:
        """Nodes that a placement may use without asking anyone."""
        tied = self.setting.gangs[gang].tied
        if tied >= 0 and not self.rules.tied_by_owner:
            return 1 << tied
        return self.mind.usable & ~self._reserved(gang)

    def request(self, pod: int, what: str, node: int, gain: int) -> Request:
        return Request(self.mind.shard, self.mind.epoch, pod, what, node, gain)

    def placement(self) -> list[Request]:
        """The binds of the first gang that fits on own nodes."""
        for gang in self.waiting:
            missing = self.missing(gang)
            slots = self._slots(gang, self.own_nodes(gang))
            if len(slots) >= len(missing) and self._within_limit(gang, len(missing)):
                return [self.request(pod, BIND, n, gang) for pod, n in zip(missing, slots, strict=False)]
        return []

    def want(self, gang: int) -> int:
        """The nodes that the whole cluster has for a gang, own ones first; 0 if it does not fit or need not ask.

        A gang that does not fit may be elected.
        """
        missing = self.missing(gang)
        if not self._within_limit(gang, len(missing)):
            return NO_WANT
        everywhere = ~self._reserved(gang)
        for victims in (False, True) if self.setting.preempt else (False,):
            own = self._slots(gang, everywhere & self.mind.usable, victims)
            if len(own) >= len(missing) and not victims and not self._keeps_place(gang):
                return NO_WANT
            slots = own + self._slots(gang, everywhere & ~self.mind.usable, victims)
            if len(slots) >= len(missing) or (slots and not self.rules.fits_whole_cluster):
                return sum(1 << n for n in set(slots[: len(missing)]))
        return self._election(gang)

    def new_want(self) -> tuple[int, int] | None:
        """The first gang whose want is to be written, changed or withdrawn, and its nodes.

        A want stays as it is while its nodes are enough, and ends when the gang is bound, not when its binds are sent.
        """
        for gang, now in enumerate(self.state.wants):
            if now > 0 and self.is_mine(gang):
                if self._is_settled(gang):
                    return gang, NO_WANT
                if now & ELECTED and (self._is_leaving(gang) or (self.rules.one_election and self.elected < gang)):
                    return gang, NO_WANT
                if self.setting.preempt and not now & ASKED and gang in self.waiting and not now & ~self.mind.usable:
                    return gang, now | ASKED
        for gang in self.waiting:
            now = self.state.wants[gang]
            if now == PAUSED or self._stays(gang, now):
                continue
            if (nodes := self.want(gang)) != now:
                return gang, nodes
        return None

    def _stays(self, gang: int, now: int) -> bool:
        return now > 0 and not now & ELECTED and (self._is_enough(gang, now) or not self.rules.rewrite_wants)

    def _is_settled(self, gang: int) -> bool:
        """Whether enough pods of a gang are bound for sure."""
        bound = sum(self.seen[pod] >= 0 and pod not in self.open for pod in self.members(gang))
        return bound >= self.setting.least(gang)

    def _is_enough(self, gang: int, nodes: int) -> bool:
        if not self.rules.fits_whole_cluster:
            return True
        slots = self._slots(gang, nodes & ~self._reserved(gang), self.setting.preempt)
        return len(slots) >= len(self.missing(gang))

    def fits_somewhere(self, gang: int) -> bool:
        return len(self._slots(gang, ~self._reserved(gang))) >= len(self.missing(gang))

    def borrower(self, node: int) -> int:
        """The gang that a node is to be lent for, or -1: the first want in the order, if no own job comes before it."""
        if self.setting.nodes[node].kept or not self.state.present >> node & 1:
            return -1
        asking = [g for g, want in enumerate(self.state.wants) if want > 0 and want >> node & 1]
        asking = [g for g in asking if not self.state.wants[g] & ELECTED]
        if not asking:
            return self._elected_borrower(node)
        own = [g for g in range(len(self.setting.gangs)) if self.is_mine(g) and self.state.wants[g] != PAUSED]
        own = [g for g in own if (self._is_short(g) if self.rules.want_until_bound else self._needs_pods(g))]
        if self.rules.one_order:
            gang = asking[0]
            before = [g for g in own if g < gang and self.state.wants[g] == NO_WANT]
        else:
            gang = next((g for g in asking if not self.is_mine(g)), -1)
            before = own
        if gang < 0 or self.shard_of(gang) == self.mind.shard or any(map(self.fits_somewhere, before)):
            return -1
        if self.busy[node] >= self.setting.nodes[node].room and not self.setting.preempt:
            return -1
        return gang

    def _elected_borrower(self, node: int) -> int:
        """The elected gang of another shard, if the node is locked for it and empty."""
        gang = self.elected
        if gang < 0 or not self.state.wants[gang] >> node & 1 or self.busy[node]:
            return -1
        return -1 if self.shard_of(gang) == self.mind.shard else gang

    def shard_of(self, gang: int) -> int:
        return self.state.route[self.setting.gangs[gang].queue]

    def unused_loans(self) -> list[int]:
        """Borrowed nodes to give back, after a want has missed its deadline."""
        if PAUSED not in (self.state.wants[g] for g in range(len(self.setting.gangs)) if self.is_mine(g)):
            return []
        if any(self.state.wants[g] != PAUSED for g in self.waiting):
            return []
        return [
            n
            for n, node in enumerate(self.setting.nodes)
            if self.mind.usable >> n & 1
            and node.home != self.mind.shard
            and self.busy[n] == 0
            and not any(want > 0 and want >> n & 1 for want in self.state.wants)
        ]

    def release(self) -> list[Request]:
        """A gang that is bound in part and cannot be finished anywhere: free its pods."""
        for gang in self.waiting:
            bound = [pod for pod in self.members(gang) if self.seen[pod] >= 0]
            if bound and not self.fits_somewhere(gang):
                return [self.request(pod, RELEASE, self.seen[pod], gang) for pod in bound]
        return []

    def victims(self) -> list[Request]:
        """Pods to evict for the first want that has its nodes, from gangs after it in the order."""
        for gain, nodes in enumerate(self.state.wants):
            asker = self.shard_of(gain)
            if nodes <= 0:
                continue
            if self.rules.nodes_first:
                if self.rules.asks and not nodes & ASKED:
                    continue
                if any(nodes >> n & 1 and shard != asker for n, shard in enumerate(self.state.owner)):
                    continue
            for gang in range(gain + 1, len(self.setting.gangs)):
                if not (self.is_mine(gang) or (not self.rules.own_victims and asker == self.mind.shard)):
                    continue
                bound = [pod for pod in self.members(gang) if self.seen[pod] >= 0]
                here = [pod for pod in bound if nodes >> self.seen[pod] & 1]
                if not here or any(pod in self.open for pod in bound):
                    continue
                spare = len(bound) - len(here) >= self.setting.least(gang)
                what, chosen = (SURPLUS, here) if spare else (EVICT, bound)
                return [self.request(pod, what, self.seen[pod], gain) for pod in chosen]
        return []
