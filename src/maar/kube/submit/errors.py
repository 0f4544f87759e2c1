"""Errors of the training service, each with a fitting HTTP status. What the API server refuses is an `ApiError`."""

from __future__ import annotations


class SubmitError(ValueError):
    """What the caller asks for is not possible."""

    status = 422

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        """The path of the field; empty if it is none."""
        self.problem = problem


class BadManifest(SubmitError):
    """A manifest that cannot be used."""

    status = 400


class CannotChange(SubmitError):
    """A change that the kind of a job does not allow."""


class NoSuchJob(SubmitError):
    """There is no object for a job that the caller names."""

    status = 404


class Ambiguous(SubmitError):
    """Several objects have the name of a job."""
