"""Errors of the history, with messages for the operator of Maar."""

from __future__ import annotations


class HistoryError(Exception):
    """The history cannot be used."""


class BadAddress(HistoryError):
    """The address is not a supported database; a retry does not help."""


class NewerSchema(HistoryError):
    """A newer Maar created the tables."""


class Unreachable(HistoryError):
    """The database does not answer or cannot write; a retry may help."""


class Refused(HistoryError):
    """The database rejects the rows; a retry does not help."""
