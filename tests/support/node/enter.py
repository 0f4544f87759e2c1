"""The way onto a real node: check the machine, build the image, and run a program inside `walls`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tests.support.node.build import build_image
from tests.support.node.needs import missing
from tests.support.node.walls import INSIDE, run
from tools.image.targets import Refused


def enter(what: str, program: Sequence[str]) -> int:
    """Run a program inside, and return its exit code.

    Where the machine lacks something, it says what, and skips. With CI=true in the environment, a skip is a failure.
    """
    sbin = [path for path in ("/usr/sbin", "/sbin") if path not in os.environ["PATH"].split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *sbin])
    if lacks := missing():
        strict = os.environ.get("CI") == "true"
        print(f"{what} on a real node: {'failed' if strict else 'skipped'}, the machine lacks:", file=sys.stderr)
        for lack in lacks:
            print(f"  {lack}", file=sys.stderr)
        return 1 if strict else 0
    try:
        build_image()
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 1
    os.environ[INSIDE] = "1"
    return run(program)
