"""Metrics of `maar web` in the format of Prometheus: how forecasts are made, and how good they were by queue.

Written by hand, as those of queues: there may be thousands of queues.
"""

from __future__ import annotations

from collections.abc import Iterator

from maar.web.forecasting.keeper import Keeper
from maar.web.queue_metrics import escaped

Line = tuple[str, str, str, float | None]
"""Name, type, help and value; without a value there is none now."""


def text(as_of: float, keeper: Keeper | None) -> bytes:
    lines = ["# HELP maar_web_as_of_timestamp_seconds What the cluster showed until then is in the answers\n"]
    lines += ["# TYPE maar_web_as_of_timestamp_seconds gauge\n", f"maar_web_as_of_timestamp_seconds {as_of}\n"]
    if keeper is not None:
        for name, kind, what, value in _process(keeper):
            lines += [f"# HELP {name} {what}\n# TYPE {name} {kind}\n"]
            lines += [] if value is None else [f"{name} {value}\n"]
        lines += _quality(keeper)
    return "".join(lines).encode()


def _process(keeper: Keeper) -> Iterator[Line]:
    counts, latest = keeper.counts, keeper.latest
    yield "maar_forecasts_total", "counter", "Forecasts that were made", counts.made
    yield "maar_forecast_failures_total", "counter", "Forecasting processes that failed", counts.failed
    yield "maar_forecasts_kept_total", "counter", "Forecasts of jobs that were written to the history", counts.kept
    yield "maar_forecasts_not_kept", "gauge", "Whether the history cannot be written", float(bool(keeper.log.problem))
    yield "maar_forecast_process_bytes", "gauge", "Most memory of the last forecasting process", counts.memory
    made = None if latest is None else latest.made
    at = None if made is None else made.at
    yield "maar_forecast_timestamp_seconds", "gauge", "When the newest forecast was made, in Unix seconds", at
    yield "maar_forecast_rollouts", "gauge", "Roll-outs of the newest forecast", None if made is None else made.rollouts
    took = None if latest is None else latest.seconds
    yield "maar_forecast_seconds", "gauge", "How long the newest forecast took", took
    learned = None if latest is None else latest.samples
    yield "maar_forecast_finished_jobs", "gauge", "Finished jobs that the newest forecast learned from", learned


QUALITY = {
    "maar_forecast_coverage_p90": "Share of jobs that started by the p90 that was shown, by their age at the forecast",
    "maar_forecast_median_error_seconds": "Median time between p50 and the real start",
    "maar_forecast_judged_jobs": "Jobs whose forecasts were judged, with those that wait or were cancelled",
    "maar_forecast_p90_factor": "What the wait until p90 of new forecasts is multiplied by",
}


def _quality(keeper: Keeper) -> list[str]:
    lines = {name: [f"# HELP {name} {what}\n# TYPE {name} gauge\n"] for name, what in QUALITY.items()}
    for one in keeper.verdicts.judged:
        labels = f'{{queue="{escaped(one.queue)}",age="{one.age.value}"}}'
        values = (one.shown.coverage_p90, one.shown.median_error, one.shown.judged, one.factor)
        for name, value in zip(lines, values, strict=True):
            if value is not None:
                lines[name].append(f"{name}{labels} {value}\n")
    return [line for of in lines.values() for line in of]
