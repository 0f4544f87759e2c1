"""Errors in objects and manifests.

An object that no API server accepts (an unknown unit, a number as a label) raises. An object that decodes but is
invalid (a negative minimum) never raises: its job waits with the reason.
"""

from __future__ import annotations


class FieldError(ValueError):
    """A field that cannot be decoded; the caller adds the object to the message."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class ManifestError(ValueError):
    """A file that cannot be read, a document that cannot be decoded, or a duplicate document."""
