"""Starts the forecasting process, sends it a question, and takes its answer. It never blocks the event loop.

A process makes one forecast, so its memory is returned each time. It is stopped with the wait for its answer.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from maar.web.forecasting.messages import ForecastAnswer, ForecastQuestion, parts_of
from maar.web.limited import started

MORE = 120.0
"""Seconds beyond twice the budget after which a process is stuck: a busy machine gives it little time."""
MEMORY = 1 << 30
"""Bytes of address space of a process. Tuned by hand."""
LONGEST = 2000
"""The longest error that is read."""


class ProcessFailed(Exception):
    """The process ended without an answer."""


async def ask(question: ForecastQuestion, memory: int = MEMORY) -> ForecastAnswer:
    """The answer of a new process with a limit on its address space; raises `ProcessFailed`."""
    try:
        process = await started("maar.web.forecasting", memory, stderr=asyncio.subprocess.PIPE)
    except OSError as error:
        raise ProcessFailed(f"cannot start: {error.strerror}") from None
    try:
        async with asyncio.timeout(2 * question.head.budget + MORE):
            _, data, said = await asyncio.gather(_send(process, question), _read(process.stdout), _tail(process.stderr))
            code = await process.wait()
    except TimeoutError:
        raise ProcessFailed("no answer in time") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if code != 0:
        raise ProcessFailed(f"exit code {code}: {said}" if said else f"exit code {code}")
    try:
        return msgspec.msgpack.decode(data, type=ForecastAnswer)
    except msgspec.DecodeError as error:
        raise ProcessFailed(f"malformed answer: {error}") from None


async def _send(process: asyncio.subprocess.Process, question: ForecastQuestion) -> None:
    pipe = process.stdin
    assert pipe is not None
    with contextlib.suppress(ConnectionError):  # it has ended: its exit code says why
        for part in parts_of(question):
            pipe.write(part)
            await pipe.drain()
            await asyncio.sleep(0)
    pipe.close()
    with contextlib.suppress(ConnectionError):
        await pipe.wait_closed()


async def _read(pipe: asyncio.StreamReader | None) -> bytes:
    assert pipe is not None
    return await pipe.read()


async def _tail(pipe: asyncio.StreamReader | None) -> str:
    """The last line of what a process says, if it says little."""
    assert pipe is not None
    said = b""
    while chunk := await pipe.read(65536):
        said = (said + chunk)[-LONGEST:]
    return said.decode(errors="replace").strip().rpartition("\n")[2]
