"""The address of a history: parses the value of `--history` to a database URL for SQLAlchemy.

history.db                       a SQLite file
sqlite:////var/lib/maar.db       the same as a URL
postgresql://user@host/database  PostgreSQL, through psycopg
none                             no history
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from maar.history.errors import BadAddress

NONE = "none"
_POSTGRES = {"postgres", "postgresql", "postgresql+psycopg"}
_SECRETS = ("password", "passfile", "sslpassword")


def default_address(environ: Mapping[str, str]) -> str:
    """The default file, in the XDG state folder."""
    home = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or "/tmp", ".local", "state")  # noqa: S108 no home is known
    return str(Path(home) / "maar" / "history.db")


def read_address(text: str) -> URL:
    """The address as a URL with its driver."""
    if "://" not in text:
        if not text.strip():
            raise BadAddress("history: expected a file, a sqlite or postgresql URL, or `none`, got nothing")
        return URL.create("sqlite", database=text)
    scheme = text.partition("://")[0]
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise BadAddress(f"history: invalid database URL: `{scheme}://...`") from None  # it may contain a password
    if scheme in _POSTGRES:
        if find_spec("psycopg") is None:
            raise BadAddress("history: PostgreSQL needs psycopg: pip install 'maar[postgres]'")
        return url.set(drivername="postgresql+psycopg")
    if scheme != "sqlite":
        raise BadAddress(f"history: unknown database type: `{scheme}`; known: postgresql, sqlite")
    if url.database in (None, "", ":memory:"):
        raise BadAddress("history: SQLite needs a file: `sqlite:///history.db`")
    return url


def shown(url: URL) -> str:
    """A URL for messages, without its password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    secrets = [name for name in _SECRETS if name in url.query]
    plain = url.difference_update_query(secrets).set(drivername=url.get_backend_name())
    return plain.render_as_string(hide_password=True)
