"""Everything that can happen next: what processes do, what the API server does with requests, and faults.

Each step is atomic at the API server: one write, or one consistent read. Between two steps of a process anything else
may happen, so a process that is slow, frozen or suspended needs no step of its own. It just does nothing for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.shards.model.invariants import BROKEN_GANG, FOR_NOTHING, HOPELESS
from tests.shards.model.placing import Decider, Decisions
from tests.shards.model.rules import Rules
from tests.shards.model.setting import Setting
from tests.shards.model.state import (
    ABSENT,
    ACTIVE,
    ASKED,
    BIND,
    DONE,
    ELECTED,
    NO_WANT,
    PAUSED,
    RAISED,
    SURPLUS,
    WAITING,
    WON,
    Lease,
    MapWrite,
    Mind,
    Request,
    State,
    bits,
    put,
    shard_name,
)


class Step(NamedTuple):
    """What happens, and the state after it."""

    text: str
    after: State
    fair: bool = True
    """Whether it happens for sure at some time, if it stays possible: not faults, not what frozen processes do."""
    broken: str = ""
    """The invariant that this step breaks, if any."""


class Machine:
    """The protocol on one small cluster."""

    def __init__(self, setting: Setting, rules: Rules, reduce: bool = True) -> None:
        self.setting, self.rules = setting, rules
        self._gang = setting.pods
        self._firsts = [members[0] for members in setting.members]
        self._decide = Decider(setting, rules)
        self._fresh_if_idle = reduce and setting.lag and not setting.moves
        self._former_go = reduce and all(
            (
                rules.intent_first,
                rules.new_intent_for_retry,
                rules.raise_epoch,
                rules.map_version,
                rules.epoch_before_write,
                rules.never_withdrawn,
            )
        )

    def steps(self, state: State) -> Iterator[Step]:
        for step in self._all(state):
            after = step.after
            if self._former_go and len(after.minds) > 1:
                kept = tuple(mind for mind in after.minds if not self._is_former(after, mind))
                if len(kept) < len(after.minds):
                    after = after._replace(minds=kept)
            if self._fresh_if_idle:
                after = self._without_idle_views(after)
            if after != state:
                yield step if after is step.after else step._replace(after=after)

    def _without_idle_views(self, state: State) -> State:
        """A mind sees pods as they are if its queues have no job left: an old view would only delay its lends."""
        minds, changed = [], False
        for mind in state.minds:
            if mind.view and mind.view != state.pods:
                queues = (
                    gang.queue
                    for gang, at in zip(self.setting.gangs, self._firsts, strict=True)
                    if state.pods[at] != DONE
                )
                if not any(mind.queues >> q & 1 for q in queues):
                    mind, changed = mind._replace(view=state.pods), True
            minds.append(mind)
        return state._replace(minds=tuple(minds)) if changed else state

    def _is_former(self, state: State, mind: Mind) -> bool:
        """Whether the map has a newer epoch: nothing that this process begins takes effect, so it is forgotten."""
        return state.leases[mind.shard].epoch != mind.epoch < state.epochs[mind.shard]

    def _all(self, state: State) -> Iterator[Step]:
        for mind in state.minds:
            if state.leases[mind.shard].epoch == mind.epoch:
                yield from self._holder(state, mind)
            else:
                sent = self._open(state, mind)
                decisions = self._decide(state, mind, sent) if mind.stage == ACTIVE else None
                for step in self._anyone(state, mind, sent, decisions):
                    yield step._replace(fair=False)
        yield from self._server(state)
        yield from self._world(state)
        yield from self._faults(state)

    # -- helpers

    def _with(self, state: State, before: Mind, after: Mind | None) -> State:
        rest = tuple(mind for mind in state.minds if mind is not before)
        minds = rest if after is None else tuple(sorted((*rest, after), key=lambda mind: (mind.shard, mind.epoch)))
        return state._replace(minds=minds)

    def _moved(self, state: State, pod: int, another: bool = False) -> State:
        """The version of a pod moves; `another`: the pod is a new one of the same name."""
        if not (self.rules.version or another) or not any(request.pod == pod for request in state.wire):
            return state
        if another:
            state = self._without_decided(state, pod)
        if self.rules.new_intent_for_retry or another:
            kept = (r for r in state.wire if r.pod != pod or (r.decided and not another))
            return state._replace(wire=frozenset(kept))
        wire = frozenset(r._replace(valid=False) if r.pod == pod and not r.decided else r for r in state.wire)
        return state._replace(wire=wire)

    def _without_decided(self, state: State, pod: int) -> State:
        """A pod has another uid than decided evictions name: carrying them out would do nothing."""
        if not self.setting.restless:
            return state
        leases = tuple(lease._replace(decided=lease.decided & ~(1 << pod)) for lease in state.leases)
        minds = tuple(mind._replace(to_evict=mind.to_evict & ~(1 << pod)) for mind in state.minds)
        return state._replace(leases=leases, minds=minds)

    def _settled(self, state: State, shard: int, epoch: int, pod: int) -> State:
        """The intent for a pod is not needed any more."""
        lease = state.leases[shard]
        if lease.epoch != epoch or not lease.intents >> pod & 1:
            return state
        lease = lease._replace(intents=lease.intents & ~(1 << pod), decided=lease.decided & ~(1 << pod))
        return state._replace(leases=_lease(state.leases, shard, lease))

    def _look(self, state: State, mind: Mind) -> Mind:
        return mind._replace(view=state.pods) if self.setting.lag else mind

    def _look_at(self, state: State, mind: Mind, pod: int) -> Mind:
        return mind._replace(view=put(mind.view, pod, state.pods[pod])) if mind.view else mind

    def _map_moved(self, state: State, own: MapWrite | None = None) -> State:
        if self.rules.map_version:
            return state._replace(map_wire=frozenset())
        return state._replace(map_wire=state.map_wire - {own}) if own else state

    def _knows_epoch(self, state: State, mind: Mind) -> bool:
        """Whether the map allows a write by this mind, if it checks."""
        if not (self.rules.raise_epoch and self.rules.epoch_before_write):
            return True
        return state.epochs[mind.shard] == mind.epoch

    # -- what a process does

    def _holder(self, state: State, mind: Mind) -> Iterator[Step]:
        """What only the holder of the Lease can do, because it writes the Lease or the Shard."""
        sent = self._open(state, mind)
        if mind.stage != ACTIVE:
            yield from self._anyone(state, mind, sent, None)
            return
        me, decisions = _name(mind), self._decide(state, mind, sent)
        yield from self._anyone(state, mind, sent, decisions)
        if self.setting.lag and mind.view != state.pods:
            after = self._with(state, mind, self._look(state, mind))
            yield Step(f"{me}: its watch shows all pods as they are", after)
        if self.rules.intent_first and decisions.announce:
            yield self._announced(state, mind, decisions.announce)
        if self.setting.restless:
            yield from self._refused_by_owners(state, mind, sent)
        if decisions.want is not None:
            yield self._wanted(state, mind, *decisions.want)
        if self.rules.deadline:
            yield from self._deadlines(state, mind, decisions)
        if not self.rules.owner_writes:
            for gang in decisions.waiting:
                for n, owner in enumerate(state.owner):
                    if owner != mind.shard and state.wants[gang] > 0 and state.wants[gang] >> n & 1:
                        after = self._map_moved(state._replace(owner=put(state.owner, n, mind.shard)))
                        yield Step(f"{me}: writes itself into the ShardMap as owner of n{n}", after)

    def _wanted(self, state: State, mind: Mind, gang: int, nodes: int) -> Step:
        room = sum(node.room for n, node in enumerate(self.setting.nodes) if state.present >> n & 1)
        members = self.setting.members[gang]
        lost = sum(place >= 0 and not state.present >> place & 1 for place in (state.pods[pod] for pod in members))
        hopeless = nodes > 0 and not nodes & ASKED and room < self.setting.least(gang) - lost
        what = f"wants {_nodes(nodes % ASKED)}" if nodes else "wants nothing any more"
        if nodes & ASKED:
            what = f"has {_nodes(nodes % ASKED)} and asks for evictions"
        if nodes & ELECTED:
            what = f"is elected, lock {_nodes(nodes % ASKED)}"
        after = state._replace(wants=put(state.wants, gang, nodes))
        return Step(
            f"{_name(mind)}: writes into its Shard: gang {gang} {what}",
            after,
            True,
            HOPELESS if hopeless else "",
        )

    def _deadlines(self, state: State, mind: Mind, decisions: Decisions) -> Iterator[Step]:
        """A want that is not served in time ends. This is certain only for wants that never can be served."""
        for gang, new in zip(decisions.waiting, decisions.wants_now, strict=True):
            nodes = state.wants[gang]
            if nodes <= 0 or nodes & ASKED:
                continue
            kept = any(nodes >> n & 1 and node.kept for n, node in enumerate(self.setting.nodes))
            if kept or self.setting.short_deadlines:
                then = PAUSED if self.rules.pause else new
                text = f"{_name(mind)}: the want of gang {gang} misses its deadline"
                yield Step(text, state._replace(wants=put(state.wants, gang, then)), kept)

    def _anyone(self, state: State, mind: Mind, sent: list[Request], decisions: Decisions | None) -> Iterator[Step]:
        """What a process does that believes to hold its Lease, rightly or not."""
        me = _name(mind)
        yield from self._unanswered(state, mind, sent)
        if decisions is None:
            yield from self._take_over(state, mind)
            return
        if decisions.announce and not self.rules.intent_first:
            yield self._announced(state, mind, decisions.announce)
        if mind.leaving is not None:
            yield from self._map_answers(state, mind, mind.leaving)
            return
        if not self._knows_epoch(state, mind):
            return
        for n, owner in enumerate(state.owner):
            if owner == mind.shard and not mind.usable >> n & 1:
                after = mind._replace(usable=mind.usable | 1 << n)
                how = "uses"
                if self.rules.taker_lists:
                    after, how = self._look(state, after), "lists all pods and uses"
                text = f"{me}: {how} n{n}, which the map gives it"
                yield Step(text, self._with(state, mind, after))
        busy = {request.node for request in sent if request.what == BIND} if self.rules.settle_before_lending else ()
        for n, to in enumerate(decisions.lend):
            if to >= 0 and n not in busy:
                write = MapWrite(mind.shard, mind.epoch, False, n, to)
                after = mind._replace(usable=mind.usable & ~(1 << n), leaving=write)
                yield self._send_map(state, mind, after, write)
        for q, proposed in enumerate(state.proposed):
            if mind.queues >> q & 1 and state.route[q] == mind.shard != proposed:
                open_ = any(self._queue(request.pod) == q for request in sent)
                asks = any(want > 0 and self.setting.gangs[gang].queue == q for gang, want in enumerate(state.wants))
                if not (open_ and self.rules.settle_before_letting_go) and not (
                    asks and self.rules.wants_end_before_letting_go
                ):
                    write = MapWrite(mind.shard, mind.epoch, True, q, proposed)
                    after = mind._replace(queues=mind.queues & ~(1 << q), leaving=write)
                    yield self._send_map(state, mind, after, write)
            elif not mind.queues >> q & 1 and (
                state.route[q] == mind.shard or (proposed == mind.shard and not self.rules.let_go_first)
            ):
                after = mind._replace(queues=mind.queues | 1 << q)
                if self.rules.queue_taker_lists:
                    after = self._look(state, after)
                how = "lists all pods and decides" if self.rules.queue_taker_lists else "decides"
                yield Step(f"{me}: {how} for queue q{q}", self._with(state, mind, after))

    def _queue(self, pod: int) -> int:
        return self.setting.gangs[self._gang[pod]].queue

    def _take_over(self, state: State, mind: Mind) -> Iterator[Step]:
        me, shard = _name(mind), mind.shard
        if mind.stage == WON:
            if self.rules.raise_epoch and state.epochs[shard] > mind.epoch:
                yield Step(f"{me}: reads a newer epoch in the ShardMap, and stops", self._with(state, mind, None))
                return
            after = mind._replace(stage=RAISED, usable=bits(state.owner, shard), queues=bits(state.route, shard))
            text = "reads the ShardMap, without raising the epoch"
            if self.rules.raise_epoch:
                state = self._map_moved(state._replace(epochs=put(state.epochs, shard, mind.epoch)))
                text = "raises the epoch in the ShardMap"
            if not self.rules.list_after_fences:
                after, text = self._look(state, after), f"{text}, and lists all pods"
            yield Step(f"{me}: {text}", self._with(state, mind, after))
        elif mind.to_evict:
            yield self._carried_out(state, mind)
        elif mind.to_fence:
            pod = (mind.to_fence & -mind.to_fence).bit_length() - 1
            after = mind._replace(to_fence=mind.to_fence & ~(1 << pod))
            fenced = self._settled(self._moved(self._with(state, mind, after), pod), shard, mind.epoch, pod)
            yield Step(f"{me}: fences pod {self._pod(pod)}", fenced)
        else:
            after = mind._replace(stage=ACTIVE)
            if self.rules.list_after_fences:
                after = self._look(state, after)
                text = "lists all pods and begins to decide"
            else:
                text = "begins to decide"
            yield Step(f"{me}: {text}", self._with(state, mind, after))

    def _refused_by_owners(self, state: State, mind: Mind, sent: list[Request]) -> Iterator[Step]:
        """The owner of a gang changes its pods: all its evictions are announced as decided, and sent by uid."""
        open_ = [request for request in sent if request.what != BIND and not request.decided]
        for gang in sorted({self._gang[request.pod] for request in open_}):
            of_gang = [request for request in open_ if self._gang[request.pod] == gang]
            decided = {request._replace(decided=True) for request in of_gang}
            lease = state.leases[mind.shard]
            lease = lease._replace(decided=lease.decided | sum(1 << request.pod for request in of_gang))
            after = state._replace(
                wire=state.wire - set(of_gang) | decided, leases=_lease(state.leases, mind.shard, lease)
            )
            what = ", ".join(map(self._request, of_gang))
            text = f"{_name(mind)}: is refused, for the owner changes gang {gang}: announces as decided, by uid: {what}"
            yield Step(text, after, False)

    def _carried_out(self, state: State, mind: Mind) -> Step:
        """The winner evicts one pod that its predecessor had decided to evict."""
        pod = (mind.to_evict & -mind.to_evict).bit_length() - 1
        rest = ~(1 << pod)
        after = self._with(state, mind, mind._replace(to_evict=mind.to_evict & rest, to_fence=mind.to_fence & rest))
        place = state.pods[pod]
        gains = {r.gain for r in state.wire if r.pod == pod and r.decided}
        if place >= 0:
            after = self._evicted(after, pod, min(gains, default=-1))
        text = f"{_name(mind)}: carries out the decided eviction of {self._pod(pod)}"
        return Step(text, self._settled(after, mind.shard, mind.epoch, pod))

    def _evicted(self, state: State, pod: int, gain: int) -> State:
        """A pod leaves its node, for a gang that wants it."""
        place, gang = state.pods[pod], self._gang[pod]
        after = self._moved(state._replace(pods=put(state.pods, pod, WAITING)), pod, another=True)
        named = gain >= 0 and state.wants[gain] > 0 and state.wants[gain] >> place & 1
        if named and gain != gang and self._bound(after.pods, gain) < self.setting.least(gain):
            after = after._replace(owed=put(state.owed, place, gain))
        return after

    def _announced(self, state: State, mind: Mind, requests: list[Request]) -> Step:
        """New writes: decided, announced on the Lease, sent."""
        me, what = _name(mind), ", ".join(map(self._request, requests))
        # The server refuses a write that was decided on an old version of its pod.
        view = mind.view if self.setting.lag else state.pods
        fresh = [request for request in requests if view[request.pod] == state.pods[request.pod]]
        after = state._replace(wire=state.wire | set(fresh))
        if requests[0].what == BIND and not self.rules.want_until_bound:
            after = after._replace(wants=put(state.wants, requests[0].gain, NO_WANT))
        for request in requests:
            if request not in fresh:
                before = next(m for m in after.minds if (m.shard, m.epoch) == (mind.shard, mind.epoch))
                after = self._with(after, before, self._look_at(after, before, request.pod))
        if not self.rules.intent_first:
            return Step(f"{me}: sends without an intent: {what}", after)
        lease = state.leases[mind.shard]
        lease = lease._replace(intents=lease.intents | sum(1 << request.pod for request in fresh))
        after = after._replace(leases=_lease(state.leases, mind.shard, lease))
        return Step(f"{me}: announces on its Lease and sends: {what}", after)

    def _open(self, state: State, mind: Mind) -> list[Request]:
        """Requests that the process knows to be on their way."""
        mine = (r for r in state.wire if r.shard == mind.shard and r.epoch == mind.epoch and r.known)
        return sorted(mine)

    def _unanswered(self, state: State, mind: Mind, sent: list[Request]) -> Iterator[Step]:
        """Requests that get no answer are settled."""
        me = _name(mind)
        for request in sent:
            pod = request.pod
            looked = self._look_at(state, mind, pod)
            if request.decided:
                continue  # it is repeated until it is answered: the same request
            if not request.valid:
                again = state._replace(wire=state.wire - {request} | {request._replace(valid=True)})
                text = f"{me}: is refused (409), and sends again without a new intent: {self._request(request)}"
                yield Step(text, again)
            elif self.rules.settle_by_fence:
                fenced = self._moved(self._with(state, mind, looked), pod)
                if not self.rules.version:
                    fenced = fenced._replace(wire=state.wire - {request} | {request._replace(known=False)})
                settled = self._settled(fenced, mind.shard, mind.epoch, pod)
                yield Step(f"{me}: gets no answer, and fences pod {self._pod(pod)}", settled)
            else:
                forgotten = self._with(state, mind, looked)
                forgotten = forgotten._replace(wire=state.wire - {request} | {request._replace(known=False)})
                text = f"{me}: gets no answer, reads pod {self._pod(pod)}, and takes the request for lost"
                yield Step(text, self._settled(forgotten, mind.shard, mind.epoch, pod))

    def _send_map(self, state: State, before: Mind, after: Mind, write: MapWrite) -> Step:
        sent = self._with(state, before, after)._replace(map_wire=state.map_wire | {write})
        return Step(f"{_name(before)}: sends to the ShardMap: {_entry(write)}", sent)

    def _map_answers(self, state: State, mind: Mind, write: MapWrite) -> Iterator[Step]:
        me = _name(mind)
        if write in state.map_wire:
            if not self.rules.never_withdrawn and not write.queue:
                after = mind._replace(leaving=None, usable=mind.usable | 1 << write.entry)
                text = f"{me}: gets no answer, and uses n{write.entry} again"
                yield Step(text, self._with(state, mind, after))
            return
        if not self._knows_epoch(state, mind):
            return  # it reads the map and stops: the same as doing nothing any more
        now = (state.route if write.queue else state.owner)[write.entry]
        if now == mind.shard or (not self.rules.map_version and now != write.to):
            sent = state._replace(map_wire=state.map_wire | {write})
            yield Step(f"{me}: gets a conflict, reads the ShardMap and sends again: {_entry(write)}", sent)
        else:
            known = self._with(state, mind, mind._replace(leaving=None))
            yield Step(f"{me}: learns that it gave away {_what(write)}", known)

    # -- what the API server does

    def _server(self, state: State) -> Iterator[Step]:
        # What a dead or former holder has sent may never arrive.
        alive = {(m.shard, m.epoch) for m in state.minds if state.leases[m.shard].epoch == m.epoch}
        for request in sorted(state.wire):
            if request.valid:
                yield self._commit(state, request, (request.shard, request.epoch) in alive)
        for write in sorted(state.map_wire):
            fair = (write.shard, write.epoch) in alive
            if write.queue:
                after = state._replace(route=put(state.route, write.entry, write.to))
                gone = (gang.queue == write.entry for gang in self.setting.gangs)
                wants = tuple(NO_WANT if g else want for g, want in zip(gone, state.wants, strict=True))
                after = after._replace(wants=wants)
            else:
                after = state._replace(owner=put(state.owner, write.entry, write.to))
            text = f"API server: the ShardMap has {_entry(write)}, sent by {_name(write)}"
            yield Step(text, self._map_moved(after, write), fair)

    def _commit(self, state: State, request: Request, fair: bool) -> Step:
        """The server executes or refuses a request, and its sender has the answer."""
        pod, place, broken = request.pod, state.pods[request.pod], ""
        after = state._replace(wire=state.wire - {request})
        done = place == (WAITING if request.what == BIND else request.node)
        if done and request.what == BIND:
            after = self._moved(after._replace(pods=put(state.pods, pod, request.node)), pod)
            owed, gang = state.owed[request.node], self._gang[pod]
            if -1 < owed < gang:
                broken = FOR_NOTHING
            if self._bound(after.pods, gang) >= self.setting.least(gang):
                after = after._replace(owed=tuple(-1 if g == gang else g for g in state.owed))
        elif done:
            after = self._evicted(after, pod, request.gain)
            gang = self._gang[pod]
            if request.what == SURPLUS and self._bound(after.pods, gang) < self.setting.least(gang):
                broken = BROKEN_GANG
        after = self._settled(after, request.shard, request.epoch, pod)
        for mind in after.minds:
            if request.known and (mind.shard, mind.epoch) == (request.shard, request.epoch):
                after = self._with(after, mind, self._look_at(after, mind, pod))
                break
        verb = "executes" if done else "refuses"
        text = f"API server: {verb} {self._request(request)}, sent by {_name(request)}"
        return Step(text, after, fair, broken)

    def _bound(self, pods: tuple[int, ...], gang: int) -> int:
        return sum(place >= 0 and of == gang for place, of in zip(pods, self._gang, strict=True))

    # -- what happens around it

    def _world(self, state: State) -> Iterator[Step]:
        for gang in range(len(self.setting.gangs)):
            members = [pod for pod, of in enumerate(self._gang) if of == gang]
            places = [state.pods[pod] for pod in members]
            if ABSENT in places:
                after = state._replace(pods=self._all_at(state, members, WAITING))
                yield Step(f"user: creates the pods of gang {gang}", after)
            elif DONE not in places and sum(place >= 0 for place in places) >= self.setting.least(gang):
                then = WAITING if self.setting.gangs[gang].again else DONE
                after = state._replace(pods=self._all_at(state, members, then), wants=put(state.wants, gang, NO_WANT))
                for pod in members:
                    after = self._moved(after, pod, another=True)
                again = ", and its user creates it again" if then == WAITING else ""
                yield Step(f"kubelets: the pods of gang {gang} end{again}", after)
            if state.wants[gang] == PAUSED:
                after = state._replace(wants=put(state.wants, gang, NO_WANT))
                yield Step(f"time: the pause of gang {gang} ends", after)
        for n in range(len(self.setting.nodes)):
            lost = [pod for pod, place in enumerate(state.pods) if place == n]
            if lost and not state.present >> n & 1:
                after = state._replace(pods=self._all_at(state, lost, WAITING))
                for pod in lost:
                    after = self._moved(after, pod, another=True)
                yield Step(f"controllers: the pods of the deleted n{n} are replaced", after)

    def _all_at(self, state: State, pods: list[int], place: int) -> tuple[int, ...]:
        return tuple(place if pod in pods else now for pod, now in enumerate(state.pods))

    def _faults(self, state: State) -> Iterator[Step]:
        take_overs, deletions, moves = state.left
        for shard, lease in enumerate(state.leases):
            name = shard_name(shard)
            holder = next((m for m in state.minds if (m.shard, m.epoch) == (shard, lease.epoch)), None)
            if not self.rules.intents_of_won_version and lease.seen != lease.intents:
                looked = state._replace(leases=_lease(state.leases, shard, lease._replace(seen=lease.intents)))
                yield Step(f"candidate: reads the Lease of {name}", looked, False)
            if holder is None:
                text = f"{name}{lease.epoch + 1}: wins the expired Lease of {name}"
                yield Step(text, self._won(state, shard))
            elif take_overs:
                fewer = state._replace(left=(take_overs - 1, deletions, moves))
                yield Step(f"{_name(holder)}: crashes", self._with(fewer, holder, None), False)
                text = f"{name}{lease.epoch + 1}: wins the Lease of {name}, because {name}{lease.epoch} is frozen"
                yield Step(text, self._won(fewer, shard), False)
        for n in range(len(self.setting.nodes)):
            if state.present >> n & 1:
                if deletions:
                    gone = state._replace(present=state.present & ~(1 << n), left=(take_overs, deletions - 1, moves))
                    if not self.rules.entries_outlive_nodes:
                        gone = self._map_moved(gone._replace(owner=put(state.owner, n, self.setting.nodes[n].home)))
                    yield Step(f"admin: deletes n{n}", gone, False)
            else:
                back, label = state._replace(present=state.present | 1 << n), ""
                if self.setting.relabelled and not self.rules.slot_by_name:
                    label = " with another topology label"
                    if state.owner[n] == self.setting.nodes[n].home:
                        back = back._replace(owner=put(state.owner, n, self.setting.relabelled[n]))
                yield Step(f"admin: creates n{n} again{label}", back, False)
        if moves:
            for q, shard in enumerate(state.proposed):
                to = (shard + 1) % self.setting.shards
                after = state._replace(proposed=put(state.proposed, q, to), left=(take_overs, deletions, moves - 1))
                yield Step(f"admin: pins queue q{q} to shard {shard_name(to)}", after, False)

    def _won(self, state: State, shard: int) -> State:
        lease = state.leases[shard]
        to_fence = lease.intents if self.rules.intents_of_won_version or lease.seen < 0 else lease.seen
        if not self.rules.fence_inherited:
            to_fence = 0
        to_evict = lease.decided if self.rules.carry_out_decided else 0
        kept = (lease.intents, lease.decided) if self.rules.keep_inherited else (0, 0)
        won = Lease(lease.epoch + 1, *kept)
        mind = Mind(shard, won.epoch, WON, to_fence, 0, 0, None, (), to_evict)
        minds = tuple(sorted((*state.minds, mind), key=lambda mind: (mind.shard, mind.epoch)))
        return state._replace(leases=_lease(state.leases, shard, won), minds=minds)

    # -- words

    def _pod(self, pod: int) -> str:
        gang = self._gang[pod]
        return f"g{gang}-{pod - self._gang.index(gang)}"

    def _request(self, request: Request) -> str:
        """For example `bind g0-1 to n2`."""
        return f"{request.what} {self._pod(request.pod)} {'to' if request.what == BIND else 'from'} n{request.node}"


def _lease(leases: tuple[Lease, ...], shard: int, lease: Lease) -> tuple[Lease, ...]:
    return leases[:shard] + (lease,) + leases[shard + 1 :]


def _name(of: Mind | Request | MapWrite) -> str:
    return f"{shard_name(of.shard)}{of.epoch}"


def _nodes(nodes: int) -> str:
    return " and ".join(f"n{n}" for n in range(nodes.bit_length()) if nodes >> n & 1)


def _what(write: MapWrite) -> str:
    return f"queue q{write.entry}" if write.queue else f"n{write.entry}"


def _entry(write: MapWrite) -> str:
    return f"{_what(write)} belongs to shard {shard_name(write.to)}"
