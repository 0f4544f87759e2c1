"""Addresses of databases."""

import pytest

from maar.history.address import default_address, read_address, shown
from maar.history.errors import BadAddress


@pytest.mark.parametrize(
    ("text", "url", "said"),
    [
        ("history.db", "sqlite:///history.db", "history.db"),
        ("/var/lib/maar/h.db", "sqlite:////var/lib/maar/h.db", "/var/lib/maar/h.db"),
        ("sqlite:////var/h.db", "sqlite:////var/h.db", "/var/h.db"),
        ("postgresql://me:pw@db/maar", "postgresql+psycopg://me:pw@db/maar", "postgresql://me:***@db/maar"),
        ("postgres://db/maar?password=pw", "postgresql+psycopg://db/maar?password=pw", "postgresql://db/maar"),
        ("postgresql+psycopg://db:5/maar", "postgresql+psycopg://db:5/maar", "postgresql://db:5/maar"),
    ],
)
def test_addresses(text: str, url: str, said: str) -> None:
    read = read_address(text)
    assert url == read.render_as_string(hide_password=False)
    assert said == shown(read)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mysql://me:pw@db/maar", "history: unknown database type: `mysql`; known: postgresql, sqlite"),
        ("sqlite://", "history: SQLite needs a file: `sqlite:///history.db`"),
        ("sqlite:///:memory:", "history: SQLite needs a file: `sqlite:///history.db`"),
        ("postgresql://me:pw@db:port/x", "history: invalid database URL: `postgresql://...`"),
        ("", "history: expected a file, a sqlite or postgresql URL, or `none`, got nothing"),
    ],
)
def test_bad_addresses_are_named_without_their_secrets(text: str, problem: str) -> None:
    with pytest.raises(BadAddress) as caught:
        read_address(text)
    assert problem == str(caught.value)


def test_the_default_is_a_file_in_the_state_folder() -> None:
    assert "/home/me/.local/state/maar/history.db" == default_address({"HOME": "/home/me"})
    assert "/state/maar/history.db" == default_address({"HOME": "/home/me", "XDG_STATE_HOME": "/state"})
