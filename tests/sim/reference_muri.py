"""A second implementation of the published rules, job by job and without Maar, for `test_muri`."""

from __future__ import annotations

import math
from dataclasses import dataclass

SIZES = (1, 2, 4, 8, 16, 32)
SECONDS = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}


@dataclass(eq=False)
class Job:
    """One job. Times of a trace are in milliseconds."""

    name: str
    gpus: int
    submit_ms: float
    left: float
    model: str
    iteration_ms: float
    runs: bool = False
    executed: float = 0.0
    checked: float = 0.0
    end: float = -1.0

    @property
    def submit(self) -> float:
        """In seconds."""
        return self.submit_ms / 1000

    @property
    def iteration(self) -> float:
        """In seconds."""
        return self.iteration_ms * 1.015 / 1000

    @property
    def lost(self) -> int:
        """Seconds lost after each event; between two sizes, the value of the larger one."""
        size = next((size for size in SIZES if size >= self.gpus), SIZES[-1])
        return SECONDS[self.model][SIZES.index(size)] if self.model in SECONDS else 10

    def work(self, seconds: float) -> None:
        """Progress between two events."""
        if self.runs:
            self.left -= max(seconds - self.lost, 0) / self.iteration


def place(jobs: list[Job], nodes: int, each: int) -> None:
    """Place all jobs again on empty nodes."""
    free = [each] * nodes
    for job in jobs:
        chosen: dict[int, int] = {}
        whole, rest = (0, job.gpus) if job.gpus <= each else divmod(job.gpus, each)
        for node in range(nodes):
            if len(chosen) < whole and free[node] == each:
                chosen[node] = each
        there = len(chosen) == whole
        if rest:
            others = [node for node in range(nodes) if node not in chosen and free[node] >= rest]
            there = there and bool(others)
            chosen.update(dict.fromkeys(others[:1], rest))
        job.runs = there
        if there:
            for node, count in chosen.items():
                free[node] -= count


def first_end(ends: list[tuple[float, Job]]) -> tuple[float, list[Job]]:
    """The first group of equal ends; the time of a group is that of its first job in the list."""
    groups: list[tuple[float, list[Job]]] = []
    for end, job in ends:
        for time, members in groups:
            if math.isclose(time, end, rel_tol=1e-9):
                members.append(job)
                break
        else:
            groups.append((end, [job]))
    return min(groups, key=lambda group: group[0], default=(math.inf, []))


def shortest_first(jobs: list[Job], by_service: bool, nodes: int, each: int) -> dict[str, float]:
    """Place jobs by srtf or srsf."""
    coming = sorted(jobs, key=lambda job: job.submit)
    there: list[Job] = []
    last = 0.0
    while coming or there:
        end, ending = first_end([(last + job.left * job.iteration, job) for job in there if job.runs])
        comes = coming[0].submit if coming else math.inf
        now = min(end, comes)
        for job in there:
            job.work(now - last)
            if job in ending and end == now:
                job.end = now
        there = [job for job in there if job.end < 0]
        while comes == now and coming and math.isclose(coming[0].submit, now, rel_tol=1e-9):
            there.append(coming.pop(0))
        there.sort(key=lambda job: job.left * job.iteration * (job.gpus if by_service else 1))
        place(there, nodes, each)
        last = now
    return {job.name: job.end for job in jobs}


def tiresias(jobs: list[Job], gpus: int) -> dict[str, float]:
    """Three queues of counted GPUs."""
    limits = (3250.0, 7200.0)
    jobs = sorted(jobs, key=lambda job: job.submit)
    coming = list(jobs)
    queues: list[list[Job]] = [[], [], []]
    last = 0.0
    while coming or any(queues):
        ends = {job.name: last + job.left * job.iteration for queue in queues for job in queue if job.runs}
        steps = [
            math.ceil(limit / job.gpus) - job.executed + last
            for limit, queue in zip(limits, queues, strict=False)
            for job in queue
            if job.runs
        ]
        now = min([*ends.values(), *steps, *(job.submit for job in coming[:1])])
        for queue in queues:
            for job in [job for job in queue if job.runs]:
                job.work(now - last)
                job.executed = job.executed + now - job.checked
                job.checked = now
                if ends[job.name] == now:
                    job.end = now
                    queue.remove(job)
        while coming and coming[0].submit == now:
            queues[0].append(coming.pop(0))
        for job in [job for job in jobs if job.runs and job.end < 0]:  # in the order of arrival
            number = next(number for number, queue in enumerate(queues) if job in queue)
            if number < len(limits) and job.executed * job.gpus >= limits[number]:
                queues[number].remove(job)
                queues[number + 1].append(job)
        free = gpus
        for number, queue in enumerate(queues):
            for job in queue:
                if job.gpus <= free:
                    free -= job.gpus
                    job.checked = job.checked if job.runs else now
                    job.runs = True
                else:
                    job.runs = False
            queues[number] = [job for job in queue if job.runs] + [job for job in queue if not job.runs]
        last = now
    return {job.name: job.end for job in jobs}
