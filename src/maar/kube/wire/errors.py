"""Errors in objects: the field, the value, and where known the object and the file.

An object that no API server would accept (an unknown unit, a label that is a number) raises. An object that decodes but
makes no sense (a negative minimum) never raises: its job waits with the reason.
"""

from __future__ import annotations


class FieldError(ValueError):
    """A field that cannot be decoded; which object it is in is added by whoever knows."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class ManifestError(ValueError):
    """A file that cannot be read, a document that cannot be decoded, or two that say the same."""
