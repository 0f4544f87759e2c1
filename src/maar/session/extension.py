"""The interfaces of plugins and actions: one method each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from maar.session.register import Register
    from maar.session.session import Session


class Plugin(Protocol):
    """A policy: registers its hooks when a session opens. Every session makes a new instance."""

    def open(self, session: Session, on: Register) -> None:
        """Register hooks and read the initial state of the session."""


class Action(Protocol):
    """A verb: acts on the session inside statements. Every session makes a new instance."""

    def execute(self, session: Session) -> None:
        """Run the action."""
