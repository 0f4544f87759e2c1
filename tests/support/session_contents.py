"""The contents of a session, to compare before and after a rollback, which must restore all of it.

It takes every attribute of the session, its hooks and its state, including attributes that are added later. It leaves
out only the caches that the classes declare (`CACHES`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maar.session.hooks import Hooks
from maar.session.journal import Journal
from maar.session.memory import Memory
from maar.session.session import Session


def contents(session: Session) -> dict[str, Any]:
    """The contents of a session as plain values, which later changes of the session do not affect."""
    found: dict[str, Any] = _plain(session)
    return found


def _plain(value: object) -> Any:
    match value:
        case Session() | Journal():
            return {name: _plain(v) for name, v in vars(value).items() if name not in value.CACHES}
        case Memory():
            return value.facts()
        case Hooks():
            return _plain(vars(value))
        case np.ndarray():
            return value.dtype, value.shape, value.tolist()
        case dict():
            return {key: _plain(v) for key, v in value.items()}
        case list() | tuple() | set():
            return type(value)(_plain(v) for v in value) if type(value) in (list, tuple, set) else _plain(tuple(value))
        case _:
            return value  # immutable, or not changed by a session: compared as it is
