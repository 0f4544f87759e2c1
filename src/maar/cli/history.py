"""`maar history`: shows the recorded jobs and the speed-up model.

Reads the database directly, also while `maar run` writes it. It writes nothing.
"""

from __future__ import annotations

import difflib
import os
import time

import click
import msgspec

from maar.cli.reports.history_text import as_text
from maar.cli.reports.history_view import Everything, view
from maar.cli.support.exits import BadInput, CannotRun
from maar.cli.support.inputs import OUTPUT
from maar.cli.support.output import escaped, say, say_json
from maar.history.address import NONE, default_address, read_address, shown
from maar.history.errors import BadAddress, HistoryError
from maar.history.news import FIRST
from maar.history.store import Store
from maar.model.words import meant


@click.command()
@click.option(
    "--history", "history_at", envvar="MAAR_HISTORY", metavar="WHERE",
    help="A SQLite file or a postgresql:// URL, as for `maar run`. Default: ~/.local/state/maar/history.db.",
)  # fmt: skip
@OUTPUT
@click.argument("what", required=False, metavar="[JOB|CATEGORY]")
def history(history_at: str | None, output: str, what: str | None) -> None:
    """Show recorded jobs: times, GPU hours, epoch times by number of workers, and the speed-up curve.

    JOB is `namespace/name` or a name. CATEGORY is one from the output without arguments, which shows everything.
    """
    where = history_at or default_address(os.environ)
    if where == NONE:
        raise BadInput("no history: the address is `none`; set another one with --history")
    try:
        url = read_address(where)
        seen = _read(Store(url, write=False))
    except BadAddress:
        raise
    except HistoryError as error:
        raise CannotRun(f"cannot read the history: {error}") from None
    if what is not None:
        names = seen.names()
        seen = seen.only(what)
        if not seen.jobs and not seen.categories:
            near = difflib.get_close_matches(what, names, n=1)
            raise BadInput(f"unknown job or category `{what}`{meant(near)}")
    if output == "json":
        say_json(msgspec.json.format(msgspec.json.encode(seen)).decode())
    elif not seen.jobs and not seen.categories:
        say(escaped(f"{shown(url)}: empty; `maar run --history` records jobs, `maar.report` records epochs"))
    else:
        say(as_text(seen, detailed=what is not None))


def _read(store: Store) -> Everything:
    if not store.open():
        return Everything((), ())
    try:
        return view(store.events(newest=FIRST), store.measurements(newest=FIRST), time.time())
    finally:
        store.close()
