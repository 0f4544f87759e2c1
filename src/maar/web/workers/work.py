"""The worker: takes a question, answers it, and takes the next one. What takes too much memory ends it.

Questions come as pickles from the parent, and answers go back with their length before them. Nothing else may be
written to the pipe of answers, so standard output is redirected.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from typing import Any, BinaryIO, NamedTuple

from maar.web.api.errors import Refused
from maar.web.forecasting.messages import read_scene
from maar.web.limited import bound, peak
from maar.web.workers.tasks import Task
from maar.whatif.edit import Scene

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
    scene: Scene | None = None
    while os.getppid() == parent:
        begun, reply = time.process_time(), Reply()
        try:
            scene, reply = _taken(sys.stdin.buffer, scene)
        except EOFError:
            return
        except MemoryError:
            scene, reply = None, Reply(memory=True)
        _send(answers, reply._replace(peak=peak(), cpu=time.process_time() - begun))
        if reply.memory:
            return


def _taken(source: BinaryIO, scene: Scene | None) -> tuple[Scene | None, Reply]:
    """Take one question: the scene that is now known, and the reply."""
    unpickler = pickle.Unpickler(source)
    task: Task
    task, changes = unpickler.load()
    if changes:
        scene = None  # frees its memory before the next one is read
        scene = read_scene(unpickler)
    try:
        return scene, Reply(task.answer(scene))
    except Refused as refused:
        return scene, Reply(refused=(refused.status, refused.view.error, refused.view.field))
    except MemoryError:
        raise
    except Exception as error:
        return scene, Reply(bug=type(error).__name__)


def _send(answers: BinaryIO, reply: Reply) -> None:
    try:
        data = pickle.dumps(reply, pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        data = pickle.dumps(Reply(memory=True), pickle.HIGHEST_PROTOCOL)
    answers.write(len(data).to_bytes(LENGTH, "big") + data)
    answers.flush()
