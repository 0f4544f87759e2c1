"""`maar when`: when a job starts and ends, as far as that can be said."""

from __future__ import annotations

import click

from maar.cli.asking.detail import when_text
from maar.cli.asking.options import Asked, asking, show


@asking(watch=True, history=True)
@click.argument("job", metavar="NS/JOB")
@click.option(
    "--seconds", type=click.FloatRange(1), default=30.0, show_default=True, metavar="N",
    help="Time for the forecast, if it is made here.",
)  # fmt: skip
def when(asked: Asked, job: str, seconds: float) -> None:
    """Show when a job starts and ends: the time by which it does with a chance of 50 % and of 90 %.

    `maar web` forecasts from the run times of earlier jobs. Without --server the forecast is made here, from --history.
    Without that, only limits that owners declare (`maar.dev/max-runtime`, `activeDeadlineSeconds`) count. Where these
    say nothing, the answer is "unknown".
    """
    key = asked.key(job)
    show(asked, lambda source: source.job(key, seconds, True), lambda found: when_text(found.detail, found.as_of))
