"""The cache: one consistent snapshot for each cycle, including decisions that no watch has shown yet.

A decision is assumed as soon as it is made, so that the next cycle does not make it again (`kube.picture.assumed`).
Watches update the picture while a cycle runs; a snapshot is taken between two updates and never changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from maar.controller.snapshots import isolation
from maar.controller.snapshots.cycle import Cycle
from maar.controller.snapshots.isolation import JOB, Suspect
from maar.controller.snapshots.own import EVERYTHING, OwnPart
from maar.controller.snapshots.pool_times import PoolTimes
from maar.kube.picture.assumed import Assumed
from maar.kube.picture.picture import Picture
from maar.kube.read.state import latest
from maar.model.facts import About, joined
from maar.model.jobs import Job
from maar.model.lengths import Estimate
from maar.model.plan import Bind, Evict, Nominate, Plan, Ungate, Wait
from maar.model.snapshot import Changed, Cluster, Snapshot
from maar.model.tasks import Status, Task

Lengths = Callable[[Job, tuple[Task, ...]], Estimate | None]
"""How long a job runs by its history; `None` if too little is known."""

SET_ASIDE = 600.0
"""Seconds for which a job or an object is left out after a decision failed because of it; tuned by hand."""


class Rest(NamedTuple):
    """How long a job is not started."""

    uid: str
    seconds: float
    until: float | None = None
    """Set in the next snapshot."""


class Aside(NamedTuple):
    """Why something is left out of decisions, and until when."""

    reason: str
    until: float


class Cache:
    """The cluster as the next decision sees it."""

    def __init__(self, picture: Picture, lengths: Lengths | None = None) -> None:
        """`lengths` estimates how long jobs run."""
        self.picture = picture
        self._lengths = lengths
        self._estimates: dict[str, tuple[str, Estimate | None]] = {}
        """Uid and estimate of each job. Once a job has a node, its estimate stays."""
        self._snapshot: Snapshot | None = None
        self._last: Plan | None = None
        self.pool_times = PoolTimes()
        self._resting: frozenset[str] = frozenset()
        self._skipped: frozenset[str] = frozenset()
        self._waits: dict[str, Wait] = {}
        """Why each job waits, by the last decision about it."""
        self._woken = False
        """Whether all jobs were woken since the last snapshot, for example while a decision ran in a thread."""
        self._tasks: dict[str, Task] = {}
        """Tasks of the last snapshot, by key."""
        self._tasks_of: dict[str, tuple[Task, ...]] = {}
        """Tasks of the last snapshot, by job."""
        self._aside: dict[Suspect, Aside] = {}
        """Jobs and other objects because of which a decision failed."""
        self._rests: dict[str, Rest] = {}
        """Jobs that changed again and again while they were being started."""
        self._rebuild = False
        """Whether something other than a job is no longer set aside since the last snapshot."""
        self.own = EVERYTHING
        """What this process decides for."""
        for assumed in (picture.assumed, picture.elastic.assumed):
            assumed.on_forget.append(self.wake_all)

    @property
    def started(self) -> bool:
        return self._snapshot is not None

    @property
    def latest(self) -> Snapshot:
        assert self._snapshot is not None, "no snapshot yet"
        return self._snapshot

    def snapshot(self, now: float) -> Snapshot:
        """The current cluster; the cost grows with the changes since the last snapshot."""
        for suspect in [suspect for suspect, aside in self._aside.items() if now >= aside.until]:
            self._try_again(suspect)
        self._end_rests(now)
        update = self.picture.take(now)
        self._woken = False
        around = update.around
        if self._last is not None:
            # The election and locks of the last plan are still on their way to the objects.
            last, resized = self._last, self.pool_times.current()
            facts = joined(around.facts, last.facts, self.own.has_fact)
            if not self.own.is_all:
                # What this process wrote is among what is seen (`read.state`), maybe in an older version.
                resized = latest(around.resized, resized)
                facts += tuple(fact for fact in last.facts if fact.about is About.CLUSTER)
            around = replace(around, elect=last.elect, locks=last.locks, facts=facts, resized=resized)
        changed = self._with_estimates(self._with_rests(self._without_aside(update.changed)))
        self._forget_gone(around)
        around = isolation.bare_around(around, self._reasons)
        before, self._snapshot = self._snapshot, None
        following = None
        rebuild, self._rebuild = update.rebuild or self._rebuild, False
        if before is not None and not rebuild:
            with contextlib.suppress(Exception):  # whatever it is, it fails again below, where its cause is found
                following = before.after(around, changed)
        self.changed: dict[str, Changed] = changed
        """The jobs that changed between the last two snapshots."""
        self.rebuilt: bool = following is None
        """Whether the tables were built from scratch."""
        self._snapshot = following or self._built(around, now)
        self._index(self.changed)
        self._keep_resting(frozenset(self.changed))
        return self._snapshot

    def decide_for(self, own: OwnPart) -> None:
        """Other processes decide for everything else in the last snapshot."""
        self.own = own

    def tasks_of(self, job: str) -> tuple[str, ...]:
        """The tasks of a job in the last snapshot."""
        return tuple(task.key for task in self._tasks_of.get(job, ()))

    # -- what is set aside

    def _built(self, around: Cluster, now: float) -> Snapshot:
        """All tables from scratch; what they cannot be built with is set aside."""
        cluster = self._cluster(around)
        try:
            return Snapshot(cluster)
        except Exception as error:
            found = self.find_culprits(cluster, _build)
            if found is None:
                raise
            self.changed = {**self.changed, **self._put_aside(found, error, now, cluster)}
            return Snapshot(self._cluster(around))

    def find_culprits(self, cluster: Cluster, check: Callable[[Cluster], int]) -> frozenset[Suspect] | None:
        """What makes `check` fail; `None` if that cannot be found. May run in another thread.

        `check` returns how much is decided. Jobs are suspected first. But one object may make the decision about every
        job fail, so it is set aside instead of jobs if more is decided then.
        """

        def decided(aside: frozenset[Suspect]) -> int | None:
            try:
                return check(isolation.bare_cluster(cluster, dict.fromkeys(aside, "set aside")))
            except Exception:  # noqa: BLE001 whatever it is, the search is for its cause
                return None

        def fails(aside: frozenset[Suspect]) -> bool:
            return decided(aside) is None

        keys = sorted((job.key for job in cluster.jobs), key=lambda key: (key not in self.changed, key))
        suspects = [s for s in (Suspect(JOB, key) for key in keys) if s not in self._aside]
        others = [s for s in isolation.surroundings(cluster) if s not in self._aside]
        jobs = isolation.many_culprits(fails, suspects)
        if jobs is None:
            found = isolation.many_culprits(fails, [*suspects, *others])
            return None if found is None or isolation.MOST < len(found) == len(suspects) + len(others) else found
        around = isolation.culprits(fails, others, 1) if jobs else None
        if around is None or len(around) > 1:
            return jobs
        return around if (decided(around) or 0) > (decided(jobs) or 0) else jobs

    def set_aside(self, found: frozenset[Suspect], error: Exception, now: float) -> Snapshot:
        """The last snapshot with these jobs and objects set aside, because a decision fails with them."""
        around = self.latest.cluster
        changed = self._put_aside(found, error, now, self.cluster())
        self.changed = {**self.changed, **changed}
        self.rebuilt = True
        self._snapshot = Snapshot(self._cluster(around))
        self._index(changed)
        self._keep_resting(frozenset(changed))
        return self._snapshot

    def _put_aside(
        self, found: frozenset[Suspect], error: Exception, now: float, cluster: Cluster
    ) -> dict[str, Changed]:
        for suspect in sorted(found):
            reason = self.picture.problems.bug(*suspect, error)
            self._aside[suspect] = Aside(f"left out for {SET_ASIDE / 60:.0f} minutes: {reason}", now + SET_ASIDE)
        jobs = {suspect.key: self._aside[suspect].reason for suspect in found if suspect.kind == JOB}
        if len(jobs) < len(found):
            self._resting = frozenset()  # any job may wait for another reason now
        tasks: dict[str, list[Task]] = {key: [] for key in jobs}
        for task in cluster.tasks:
            if task.job in tasks:
                tasks[task.job].append(task)
        return {
            job.key: isolation.bare_job(job, tasks[job.key], jobs[job.key]) for job in cluster.jobs if job.key in jobs
        }

    def _without_aside(self, changed: dict[str, Changed]) -> dict[str, Changed]:
        if not self._aside:
            return changed
        for key, change in changed.items():
            if change is None:
                self._forget_aside(Suspect(JOB, key))
        reasons = self._reasons
        return {
            key: isolation.bare_change(change, reason) if (reason := reasons.get(Suspect(JOB, key))) else change
            for key, change in changed.items()
        }

    def _forget_gone(self, around: Cluster) -> None:
        """Forget objects that were set aside and have gone."""
        aside = {suspect for suspect in self._aside if suspect.kind != JOB}
        for suspect in aside.difference(isolation.surroundings(around)) if aside else ():
            self._forget_aside(suspect)

    def _forget_aside(self, suspect: Suspect) -> None:
        if self._aside.pop(suspect, None) is not None:
            self.picture.problems.valid(*suspect)

    def _try_again(self, suspect: Suspect) -> None:
        self._forget_aside(suspect)
        if suspect.kind == JOB:
            self.picture.make_again(suspect.key)
        else:
            self._rebuild = True
            self._resting = frozenset()

    @property
    def _reasons(self) -> dict[Suspect, str]:
        return {suspect: aside.reason for suspect, aside in self._aside.items()}

    def _cluster(self, around: Cluster) -> Cluster:
        cluster = isolation.bare_cluster(self.picture.cluster(around), self._reasons)
        cluster = replace(cluster, jobs=tuple(map(self._resting_job, cluster.jobs))) if self._rests else cluster
        known = tuple(replace(job, estimate=self._known(job)) for job in cluster.jobs) if self._estimates else ()
        return replace(cluster, jobs=known) if known else cluster

    # -- how long jobs run

    def _with_estimates(self, changed: dict[str, Changed]) -> dict[str, Changed]:
        if self._lengths is None:
            return changed
        found: dict[str, Changed] = {}
        for key, change in changed.items():
            if change is None:
                self._estimates.pop(key, None)
            else:
                self._estimate(*change)
                change = replace(change[0], estimate=self._known(change[0])), change[1]
            found[key] = change
        return found

    def _known(self, job: Job) -> Estimate | None:
        uid, estimate = self._estimates.get(job.key, ("", None))
        return estimate if uid == job.uid else None

    def _estimate(self, job: Job, tasks: tuple[Task, ...]) -> bool:
        """Estimate a job that has no node yet, or that is new here; returns whether the estimate has changed."""
        before = self._estimates.get(job.key)
        if self._lengths is None or job.elastic is not None:
            return False
        if before is not None and before[0] == job.uid and any(task.node for task in tasks):
            return False
        now = self._estimates[job.key] = job.uid, self._lengths(job, tasks)
        return before != now

    def learn(self) -> bool:
        """Estimate all waiting jobs again; returns whether there is news."""
        if self._snapshot is None or self._lengths is None:
            return False
        waiting = [self._snapshot.jobs.jobs[row] for row in self._snapshot.jobs.active]
        news = [job.key for job in waiting if self._estimate(job, self._tasks_of.get(job.key, ()))]
        for key in news:
            self.picture.make_again(key)
        return bool(news)

    # -- what rests

    def rest(self, job: str, uid: str, seconds: float) -> None:
        """Do not start a job for this time, counted from the next snapshot on. What it has, it keeps."""
        self._rests[job] = Rest(uid, seconds)
        self.picture.make_again(job)

    def rests(self, job: str) -> bool:
        return job in self._rests

    def _end_rests(self, now: float) -> None:
        for job, rest in list(self._rests.items()):
            if rest.until is None:
                self._rests[job] = rest._replace(until=now + rest.seconds)
            elif now >= rest.until:
                del self._rests[job]
                self.picture.make_again(job)

    def _with_rests(self, changed: dict[str, Changed]) -> dict[str, Changed]:
        if not self._rests:
            return changed
        for key, change in changed.items():
            if change is None:
                self._rests.pop(key, None)
        return {
            key: (self._resting_job(change[0]), change[1]) if change is not None and key in self._rests else change
            for key, change in changed.items()
        }

    def _resting_job(self, job: Job) -> Job:
        rest, elastic = self._rests.get(job.key), job.elastic
        if rest is None or rest.uid != job.uid:
            return job
        if elastic is not None and not elastic.suspended:
            elastic = replace(elastic, max=max(min(elastic.max, elastic.size), elastic.min))
        return replace(job, rests=rest.until, elastic=elastic)

    def _index(self, changed: dict[str, Changed]) -> None:
        for job in changed:
            for task in self._tasks_of.pop(job, ()):
                del self._tasks[task.key]
        for job, now in changed.items():
            if now is not None and now[1]:
                self._tasks_of[job] = now[1]
                self._tasks.update((task.key, task) for task in now[1])

    def cluster(self) -> Cluster:
        """The last snapshot as plain data, for a recording."""
        return self._cluster(self.latest.cluster)

    @property
    def has_resting(self) -> bool:
        """Whether the next cycle skips some jobs."""
        return bool(self._resting)

    def let_rest(self, jobs: frozenset[str]) -> None:
        """Skip these waiting jobs until they change or room may have become free."""
        self._resting = frozenset() if self._woken else jobs

    def in_need_of_company(self, jobs: frozenset[str]) -> frozenset[str]:
        """The jobs among `jobs` that a bound pod may help: they have pod affinity or a hard spread constraint."""
        shapes, tasks, table = self.latest.shapes.shapes, self.latest.tasks, self.latest.jobs
        needy = {i for i, shape in enumerate(shapes) if shape.affinity or any(s.hard for s in shape.spread)}
        if not needy:
            return frozenset()
        known = [job for job in jobs if job in table.number]
        return frozenset(j for j in known if needy & set(tasks.shape[table.members[table.number[j]]].tolist()))

    @property
    def is_woken(self) -> bool:
        """Whether all jobs were woken since the last snapshot."""
        return self._woken

    def wake_all(self) -> None:
        """Look at all jobs in the next cycle: room may have become free, or the rules have changed."""
        self._resting = frozenset()
        self._woken = True

    def _keep_resting(self, changed: frozenset[str]) -> None:
        self._resting -= changed
        number = self.latest.jobs.number
        self._skipped = frozenset(number.keys() & self._resting)
        self.latest.resting = frozenset(map(number.__getitem__, self._skipped))

    def publish(self, number: int, plan: Plan, now: float) -> Cycle:
        """The cycle that decided `plan` on the last snapshot, for everyone who reads it."""
        own, skipped = self.own, self._skipped
        decided: tuple[Bind | Evict | Nominate | Ungate, ...] = (*plan.bind, *plan.evict, *plan.nominate, *plan.ungate)
        # Skipped jobs wait for the same reasons as before. Another shard may have got the queue of one of them.
        waits = {job: wait for job, wait in self._waits.items() if job in skipped and own.has_job(job)}
        waits.update((wait.job, wait) for wait in plan.waiting)
        self._waits = waits
        return Cycle(
            number,
            now,
            self.latest,
            plan,
            waits=MappingProxyType(waits),
            skipped=skipped,
            changed=MappingProxyType(self.changed),
            rebuilt=self.rebuilt,
            pods=MappingProxyType({one.task: self._tasks[one.task] for one in decided}),
            own=own,
        )

    # -- what is assumed

    def assume(self, plan: Plan) -> None:
        """Treat everything that the plan decided as done, until watches show it."""
        for admit in plan.admit:
            self.picture.admit(admit.job)
        for bind in plan.bind:
            self._assume(bind.task, Status.BOUND, bind.node, bind.chosen)
        for evict in plan.evict:
            task = self.task(evict.task)
            self._assume(task.key, Status.RELEASING, task.node, task.chosen)
        nominated = {n.task: n.node for n in plan.nominate}
        for nominate in plan.nominate:
            self._assume(nominate.task, Status.NOMINATED, nominate.node)
        bound = {bind.task for bind in plan.bind}
        for task in self._nominated_before():
            if task.key not in nominated and task.key not in bound and self.own.has_job(task.job):
                self._assume(task.key, Status.PENDING, "")
        if self._last is None:
            self.pool_times.begin(self.latest.cluster.resized)
        self._last = plan

    def start_over(self) -> None:
        """Forget the last plan: another instance may have decided since."""
        self._last = None

    def _nominated_before(self) -> list[Task]:
        table = self.latest.tasks
        rows = (table.status == int(Status.NOMINATED)).nonzero()[0]
        return [table.tasks[row] for row in rows.tolist()]

    def _assume(self, key: str, status: Status, node: str, chosen: tuple[tuple[str, str], ...] = ()) -> None:
        self.picture.assumed.assume(key, Assumed(self.task(key).uid, status, node, chosen))

    def task(self, key: str) -> Task:
        return self._tasks[key]

    def find(self, key: str) -> Task | None:
        return self._tasks.get(key)


def _build(cluster: Cluster) -> int:
    """Build the tables of a cluster; nothing is decided."""
    Snapshot(cluster)
    return 0
