"""What plugins and actions must offer: one method each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from maar.session.register import Register
    from maar.session.session import Session


class Plugin(Protocol):
    """A policy: registers its hooks when a session opens. Made anew for every session."""

    def open(self, session: Session, on: Register) -> None:
        """Register hooks; read what the session starts with."""


class Action(Protocol):
    """A verb: acts on the session inside statements. Made anew for every session."""

    def execute(self, session: Session) -> None:
        """Act."""
