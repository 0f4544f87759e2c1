"""What can go wrong with a history, in words for whoever runs Maar."""

from __future__ import annotations


class HistoryError(Exception):
    """The history cannot be used."""


class BadAddress(HistoryError):
    """Not an address of a database that Maar knows; trying again does not help."""


class NewerSchema(HistoryError):
    """The tables were made by a newer Maar."""


class Unreachable(HistoryError):
    """The database does not answer, or cannot write; it may later."""


class Refused(HistoryError):
    """The database answers, and does not take these rows; it never will."""
