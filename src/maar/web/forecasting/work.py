"""The forecasting process: reads a question, answers it within bounds of time and memory, and ends.

It ends when its parent does.
"""

from __future__ import annotations

import os
import sys
import time

import msgspec

from maar.web.forecasting.messages import read
from maar.web.forecasting.rolling import answered
from maar.web.limited import bound, peak


def main() -> None:
    most, parent = map(int, sys.argv[1:3])
    bound(most)
    question = read(sys.stdin.buffer)
    answer = answered(question, lambda: os.getppid() == parent)
    answer = msgspec.structs.replace(answer, memory=peak(), cpu=time.process_time())
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    sys.stdout.buffer.flush()
