"""Waiting for a condition, and how long tests wait before they give up.

No test is about this time: it only ends a test whose condition never comes true. So it is far more than a busy machine
needs. What must be fast is measured by a benchmark (docs/benchmarks.md).

Helpers that wait for something of their own, such as pods of a cluster, call one of the two functions here.
"""

from __future__ import annotations

import asyncio
import inspect
import linecache
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

PATIENCE = 240.0
"""Seconds; less than the longest lease. On an idle machine most conditions come true within one."""
LOOK_S = 0.001
"""Seconds between two looks at something in this event loop."""
ASK_S = 0.05
"""Seconds between two questions to others: more would slow down what is waited for, and meet the limits of servers."""


def wait_until(holds: Callable[[], T], what: str = "", patience: float = PATIENCE) -> T:
    """Wait until a condition is true, and return what it returned.

    The TimeoutError says in words what was waited for, or shows the line of the condition.
    """
    ends = time.monotonic() + patience
    while not (found := holds()):
        if time.monotonic() > ends:
            raise TimeoutError(_says(holds, what, patience))
        time.sleep(ASK_S)
    return found


@overload
async def until(holds: Callable[[], Awaitable[T]], what: str = "", patience: float = PATIENCE) -> T: ...
@overload
async def until(holds: Callable[[], T], what: str = "", patience: float = PATIENCE) -> T: ...
async def until(holds: Callable[[], Any], what: str = "", patience: float = PATIENCE) -> Any:
    """The same in an event loop. The condition may be a coroutine function; it is cancelled when the time is over."""
    try:
        async with asyncio.timeout(patience) as limit:
            while True:
                found = holds()
                asks = inspect.isawaitable(found)
                if asks:
                    found = await found
                if found:
                    return found
                await asyncio.sleep(ASK_S if asks else LOOK_S)
    except TimeoutError:
        if not limit.expired():
            raise  # the condition's own
        raise TimeoutError(_says(holds, what, patience)) from None


def _says(holds: Callable[[], Any], what: str, patience: float) -> str:
    return f"not within {patience:g} s: {what or words_of(holds)}"


def words_of(holds: Callable[..., Any]) -> str:
    """The line of a condition, for the message where no words are given."""
    code = getattr(holds, "__code__", None)
    return (linecache.getline(code.co_filename, code.co_firstlineno).strip() if code else "") or repr(holds)
