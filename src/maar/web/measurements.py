"""The scheduler's side of measurements: batches from the HTTP process into the history, and rows back.

The HTTP process (`maar.web.front`) has checked tokens, limits and fields.
"""

from __future__ import annotations

import msgspec

from maar.history.errors import HistoryError
from maar.history.history import History
from maar.history.records import Measurement
from maar.web.messages import MeasurementBatch, Post, ReadMeasurements, Report, Stored, Taken


def take(history: History, batch: MeasurementBatch, now: float) -> Taken:
    """Put measurements into the history."""
    return Taken([history.add(measurements_in(post, now)) for post in batch.posts])


async def read(history: History, asked: ReadMeasurements) -> Stored:
    """The newest stored measurements of a job."""
    try:
        rows = await history.measurements_of(asked.namespace, asked.name)
    except HistoryError as error:
        return Stored(asked.id, b"[]", str(error))
    return Stored(asked.id, msgspec.json.encode(rows))


def measurements_in(post: Post, now: float) -> list[Measurement]:
    """The measurements of one request, as the history stores them."""
    return [_measurement(post, report, now) for report in post.reports]


def _measurement(post: Post, report: Report, now: float) -> Measurement:
    fields = msgspec.structs.asdict(report)
    at_start = fields.pop("workers_at_start")
    fields["goodput"] = "" if report.goodput is None else msgspec.json.encode(report.goodput).decode()
    fields["resized"] = report.resized or at_start not in (None, report.workers)
    return Measurement(namespace=post.namespace, name=post.name, arrived=now, **fields)
