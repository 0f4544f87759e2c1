"""A statement: a transaction inside a session.

    with session.statement() as statement:
        ...place, nominate, evict...
        mark = statement.checkpoint()
        ...
        statement.rollback(mark)
        statement.commit()

Leaving without `commit` undoes everything since the beginning, including the columns of plugins. Statements nest: an
inner commit hands its changes to the outer statement, which may still undo them.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from maar.session.journal import Mark

if TYPE_CHECKING:
    from maar.session.session import Session


class Statement:
    """The changes between entering and leaving, kept only if committed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._committed = False

    def __enter__(self) -> Statement:
        self._start = self.checkpoint()
        self._session.depth += 1
        return self

    def checkpoint(self) -> Mark:
        """A point inside the statement to roll back to."""
        return self._session.state.mark()

    def rollback(self, mark: Mark | None = None) -> None:
        """Undo everything since the checkpoint, or since the beginning."""
        self._session.state.rollback(mark or self._start)

    def commit(self) -> None:
        self._committed = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.depth -= 1
        if not self._committed or kind is not None:
            self.rollback()
        if self._session.depth == 0:
            self._session.state.forget()
