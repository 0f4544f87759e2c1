"""Reads the file of `maar allocate`: YAML or JSON text to a table of jobs, or all its errors.

This module has the name, type and default of each field; `maar.elastic.jobs` explains its meaning. A valid file is
converted in one step; an invalid file is read job by job, for precise errors.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np

from maar.config.arguments import build, clean
from maar.config.problems import ConfigError, Findings, shown
from maar.elastic.jobs import Jobs, make_jobs
from maar.elastic.speedup import LINEAR, Curve, curve
from maar.model.documents import DocumentError, TooDeep, documents, refuse_repeated
from maar.model.words import unknown

MOST = 1_000_000
"""Maximum workers per job and GPUs per worker: more than any cluster has, but small enough for a speed-up table."""

Count = Annotated[int, msgspec.Meta(ge=1, le=MOST, description="a whole number from 1 to 1,000,000")]
Size = Annotated[Count | None, msgspec.Meta(description="a whole number from 1 to 1,000,000")]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e15, description="a number of at least 0")]
Moment = Annotated[Seconds | None, msgspec.Meta(description="a number of at least 0")]
Points = dict[Count, Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]]
Speedup = Annotated[Points | None, msgspec.Meta(description="speed-ups by workers, e.g. `{1: 1.0, 2: 1.8}`")]


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One job of a file."""

    name: str
    submit: Seconds = 0.0
    min: Count = 1
    max: Size = None
    """Default: `requested`, so the job does not grow."""
    requested: Size = None
    """Default: `min`."""
    gpus_per_worker: Count = 1
    speedup: Speedup = None
    """Default: linear."""
    remaining: Moment = None
    """Default: unknown."""
    attained: Seconds = 0.0
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] = 0
    first_start: Moment = None
    """Default: never started."""
    waited: Seconds = 0.0
    ran: Seconds = 0.0
    size: Annotated[int, msgspec.Meta(ge=0, le=MOST, description="a whole number from 0 to 1,000,000")] = 0
    restart: Seconds = 0.0
    done: Moment = None
    """Default: `attained` at the speed of the requested size."""
    delayed: Moment = None
    """Default: `waited`."""
    promised: Moment = None
    """Default: no promise."""

    @property
    def asked(self) -> int:
        return self.min if self.requested is None else self.requested

    @property
    def most(self) -> int:
        return max(self.min, self.asked) if self.max is None else self.max


FIELDS = Listed.__struct_fields__


def read_jobs(text: str, source: str) -> Jobs:
    """The jobs of a file; `source` is its name in messages."""
    findings = Findings(source)
    listed = _listed(_document(text, findings), findings)
    _check(listed, findings)
    if findings.problems:
        raise ConfigError(findings.problems)
    return _table(list(listed.values()))


def _document(text: str, findings: Findings) -> object:
    try:
        found = list(documents(text, refuse_repeated))
    except TooDeep as error:
        findings.problem("", error.problem)
    except DocumentError as error:
        findings.problem(str(error.place or ""), f"not valid YAML: {error.problem}")
    else:
        if len(found) <= 1:
            return found[0] if found else None
        findings.problem("", f"expected one document, got {len(found)}")
    raise ConfigError(findings.problems)


def _listed(document: object, findings: Findings) -> dict[int, Listed]:
    """The valid jobs, by their index in the list."""
    if isinstance(document, dict):
        for key in document:
            if key != "jobs":
                findings.problem("", unknown("key", str(key), ["jobs"]))
        document = document.get("jobs")
    if not isinstance(document, list):
        findings.problem("jobs", f"expected a list of jobs, got {shown(document)}")
        return {}
    try:
        return dict(enumerate(msgspec.convert(document, list[Listed], strict=False)))
    except (msgspec.ValidationError, OverflowError):
        jobs = {i: _job(raw, f"jobs[{i}]", findings) for i, raw in enumerate(document)}
        return {i: job for i, job in jobs.items() if job is not None}


def _job(raw: object, path: str, findings: Findings) -> Listed | None:
    """One job; its errors go to `findings`."""
    if not isinstance(raw, dict):
        findings.problem(path, f"expected a mapping, got {shown(raw)}")
        return None
    before = len(findings.problems)
    if raw.get("name") is None:
        findings.problem(path, "a job needs a `name`")
    for key in raw:
        if key not in FIELDS:
            findings.problem(path, unknown("field", str(key), FIELDS))
    given = {key: value for key, value in raw.items() if key in FIELDS}
    if not _points_are_good(given.get("speedup"), f"{path}.speedup", findings):
        del given["speedup"]
    cleaned = clean("job", Listed, given, path, findings)
    if len(findings.problems) > before:
        return None
    job = build("job", Listed, cleaned, path, findings)
    assert job is None or isinstance(job, Listed)
    return job


def _points_are_good(points: object, path: str, findings: Findings) -> bool:
    """Report every invalid point on its own. `clean` reports a value that is not a mapping."""
    before = len(findings.problems)
    for workers, speed in points.items() if isinstance(points, dict) else ():
        try:
            msgspec.convert({workers: speed}, Points, strict=False)
        except (msgspec.ValidationError, OverflowError):
            got = f"{shown(workers)} workers: {shown(speed)}"
            findings.problem(path, f"expected at least 1 worker and a speed-up above 0, got {got}")
    return len(findings.problems) == before


def _check(listed: dict[int, Listed], findings: Findings) -> None:
    """Check rules between fields: names are unique, sizes are consistent."""
    taken: dict[str, int] = {}
    for i, job in listed.items():
        first = taken.setdefault(job.name, i)
        if first != i:
            findings.problem(f"jobs[{i}].name", f"already used by jobs[{first}]: `{job.name}`")
        if not job.name:
            findings.problem(f"jobs[{i}].name", "expected a name, got ``")
        if job.most < job.min:
            findings.problem(f"jobs[{i}].max", f"expected at least `min`, {job.min}, got `{job.most}`")
        elif not job.min <= job.asked <= job.most:
            findings.problem(f"jobs[{i}].requested", f"expected a size from {job.min} to {job.most}, got `{job.asked}`")


def _table(listed: list[Listed]) -> Jobs:
    curves: dict[tuple[tuple[int, float], ...], Curve] = {(): LINEAR}
    speedups = []
    for job in listed:
        points = tuple((job.speedup or {}).items())
        if points not in curves:
            curves[points] = curve(dict(points))
        speedups.append(curves[points])
    table = make_jobs(
        [job.name for job in listed],
        min=np.array([job.min for job in listed], dtype=np.int64),
        max=np.array([job.most for job in listed], dtype=np.int64),
        requested=np.array([job.asked for job in listed], dtype=np.int64),
        gpus=np.array([job.gpus_per_worker for job in listed], dtype=np.int64),
        priority=np.array([job.priority for job in listed], dtype=np.int64),
        submit=[job.submit for job in listed],
        remaining=[math.inf if job.remaining is None else job.remaining for job in listed],
        attained=[job.attained for job in listed],
        first_start=[math.inf if job.first_start is None else job.first_start for job in listed],
        waited=[job.waited for job in listed],
        ran=[job.ran for job in listed],
        speedup=speedups,
        size=np.array([job.size for job in listed], dtype=np.int64),
        restart=[job.restart for job in listed],
        promised=[math.inf if job.promised is None else job.promised for job in listed],
        delayed=[job.waited if job.delayed is None else job.delayed for job in listed],
    )
    stated = [row for row, job in enumerate(listed) if job.done is not None]
    table.done[stated] = [job.done for job in listed if job.done is not None]
    return table
