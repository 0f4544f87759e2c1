"""`maar history`: what jobs did, and what Maar learnt from it.

Reads the database directly, while `maar run` writes it or when none runs; writes nothing. Text is
`maar.cli.history_text`.
"""

from __future__ import annotations

import difflib
import os
import time

import click
import msgspec

from maar.cli.history_text import as_text
from maar.cli.history_view import Everything, view
from maar.history.address import NONE, default_address, read_address, shown
from maar.history.errors import BadAddress, HistoryError
from maar.history.news import FIRST
from maar.history.store import Store


@click.command()
@click.option(
    "--history", "history_at", envvar="MAAR_HISTORY", metavar="WHERE",
    help="As for `maar run`: a SQLite file or postgresql://...  Default: a file in the state folder.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
@click.argument("what", required=False, metavar="[JOB|CATEGORY]")
def history(history_at: str | None, output: str, what: str | None) -> None:
    """Show what jobs did: their accounts, how long epochs took on how many workers, and the curve made of it.

    JOB is `namespace/name` or a name; CATEGORY as in the list. Without either: all.
    """
    where = history_at or default_address(os.environ)
    if where == NONE:
        raise click.ClickException("there is no history: `none`; name one with --history")
    try:
        url = read_address(where)
        seen = _read(Store(url, write=False))
    except BadAddress as error:
        raise click.ClickException(str(error)) from None
    except HistoryError as error:
        raise click.ClickException(f"cannot read the history: {error}") from None
    if what is not None:
        names = seen.names()
        seen = seen.only(what)
        if not seen.jobs and not seen.categories:
            raise click.ClickException(_unknown(what, names))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(seen)).decode())
    elif not seen.jobs and not seen.categories:
        click.echo(f"{shown(url)}: nothing yet; jobs come here by `maar run --history`, epochs by `maar.report`")
    else:
        click.echo(as_text(seen, detailed=what is not None), nl=False)


def _read(store: Store) -> Everything:
    if not store.open():
        return Everything((), ())
    try:
        return view(store.events(newest=FIRST), store.measurements(newest=FIRST), time.time())
    finally:
        store.close()


def _unknown(what: str, names: list[str]) -> str:
    near = difflib.get_close_matches(what, names, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"nothing is known of `{what}`{hint}"
