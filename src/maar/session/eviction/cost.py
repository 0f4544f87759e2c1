"""What an eviction costs: the one order by which victims are compared.

Fields are compared from the first to the last, and smaller is cheaper:

    field         what it says                                          where it comes from
    ------------  ----------------------------------------------------  --------------------------------------------
    evicts        pods are evicted; else elastic jobs only shrink       `Unit.shrinks`
    breaks        a whole gang goes; else only surplus above minimums   `Unit.whole`
    queue         the place of the victim's queue among queues          neutral: for the hook `victim_queue_order`
    priority      the highest priority among the victims' jobs          `Job.priority`
    gangs         gangs that go, for each task that then fits           whole units, and the room that they make
    pod_priority  the priority of the pod itself                        `Task.priority`; only where single pods of one
                                                                        node or job are put in order
    work          GPU seconds lost, then CPU seconds                    time since the start or the last checkpoint;
                                                                        a job that shrinks loses none

A `Rank` is a cost with what tells equal costs apart, so that every order is total.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple


class Work(NamedTuple):
    """Work that is lost; CPU seconds tell pods without GPUs apart."""

    gpu_seconds: float
    cpu_seconds: float


NO_WORK = Work(0.0, 0.0)


class Cost(NamedTuple):
    """What it costs that some pods go."""

    evicts: bool
    breaks: bool = False
    queue: tuple[Any, ...] = ()
    priority: int = 0
    gangs: float | Fraction = 0
    pod_priority: int = 0
    work: Work = NO_WORK

    def shared(self, tasks: int) -> Cost:
        """The same where the gangs make room for that many tasks."""
        return Cost(self.evicts, self.breaks, self.queue, self.priority, self.gangs / tasks, 0, self.work)


TieKey = tuple[tuple[str, int], ...]
"""Jobs by key and, of one job, the highest index first: worker 0 hosts the rendezvous."""


class Rank(NamedTuple):
    """The place of a choice among others."""

    cost: Cost
    key: TieKey
    number: int
    """Of the task, job, node or domain that is chosen."""
