"""The worker: takes a question, answers it, and takes the next one. What takes too much memory ends it.

Questions come as pickles from the parent, and answers go back with their length before them. Nothing else may be
written to the pipe of answers, so standard output is redirected.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import time
from typing import Any, BinaryIO, NamedTuple

from maar.web.api.errors import Refused
from maar.web.forecasting.messages import read_plan, read_scene
from maar.web.limited import bound, peak
from maar.web.workers.tasks import About, WorkerTask

LENGTH = 8
"""Bytes of the length of an answer."""


class Reply(NamedTuple):
    """What goes back."""

    answer: Any = None
    refused: tuple[int, str, str] | None = None
    """The status, the reason and the field of a refusal."""
    bug: str = ""
    """The name of an error that nobody expected."""
    memory: bool = False
    """Whether the question needed too much of it: the process ends."""
    peak: int = 0
    """The most bytes that the process had in memory so far."""
    cpu: float = 0.0
    """Seconds of this question."""


def main() -> None:
    most, parent = map(int, sys.argv[1:3])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    bound(most)
    about: About | None = None
    while os.getppid() == parent:
        begun, reply = time.process_time(), Reply()
        try:
            about, reply = _taken(sys.stdin.buffer, about)
        except EOFError:
            return
        except MemoryError:
            about, reply = None, Reply(memory=True)
        _send(answers, reply._replace(peak=peak(), cpu=time.process_time() - begun))
        if reply.memory:
            return


def _taken(source: BinaryIO, about: About | None) -> tuple[About | None, Reply]:
    """Take one question: what is now known of the cluster, and the reply."""
    unpickler = pickle.Unpickler(source)  # noqa: S301 from our own process
    task: WorkerTask
    task, changes = unpickler.load()
    if changes:
        about = None  # frees its memory before the next one is read
        gc.disable()  # it would look at each part again and again
        try:
            scene = read_scene(unpickler)
            about = About(scene, *read_plan(unpickler))
        finally:
            gc.enable()
    try:
        return about, Reply(task.answer(about))
    except Refused as refused:
        return about, Reply(refused=(refused.status, refused.view.error, refused.view.field))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 the process that asks tells its name
        return about, Reply(bug=type(error).__name__)


def _send(answers: BinaryIO, reply: Reply) -> None:
    try:
        data = pickle.dumps(reply, pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        data = pickle.dumps(Reply(memory=True), pickle.HIGHEST_PROTOCOL)
    answers.write(len(data).to_bytes(LENGTH, "big") + data)
    answers.flush()
