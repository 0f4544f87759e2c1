"""Repeats the tests of real parts, to find those that fail now and then: `make test-repeat N=5 BUSY=4`.

    python -m tests.repeat [--times 5] [--busy 0] [--only real node image] [ARGUMENTS OF PYTEST]

`real` are all tests with that marker, `node` and `image` those of `make test-node` and `make test-image`. Busy
processes compute beside them all the time. Every suite is run to its end. The last line is JSON, and the exit code is 1
if any run failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SUITES = {
    "real": [sys.executable, "-m", "pytest", "-n", "auto", "-m", "real", "tests"],
    "node": [sys.executable, "-m", "tests.node"],
    "image": [sys.executable, "-m", "tests.image"],
}
BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(1_000_000))"
"""Computes until its parent has ended."""
CLOSING = re.compile(r"^=+ (.* in [0-9.]+s.*?) =+$|^((?:\d+ \w+(?:, )?)+ in [0-9.]+s.*)$", re.MULTILINE)
"""The last line of pytest, with and without `-q`."""


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that compute as long as this is open."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(suite: str, arguments: list[str]) -> dict[str, Any]:
    """One run of a suite. If it fails, its output is shown."""
    begun = time.monotonic()
    done = subprocess.run(
        [*SUITES[suite], *arguments],
        env={**os.environ, "MAAR_REAL": "1", "CI": "true"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    closing = CLOSING.findall(done.stdout)
    if done.returncode:
        print(done.stdout, flush=True)
    return {
        "suite": suite,
        "failed": done.returncode != 0,
        "said": next(filter(None, closing[-1])) if closing else "",
        "seconds": round(time.monotonic() - begun),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute beside the tests")
    parser.add_argument("--only", nargs="+", choices=SUITES, default=list(SUITES))
    given, arguments = parser.parse_known_args()
    found = []
    with busy(given.busy):
        for turn in range(given.times):
            for suite in given.only:
                found.append(run(suite, arguments))
                print(f"run {turn + 1}, beside {given.busy} busy processes: {found[-1]}", flush=True)
    failures = sum(each["failed"] for each in found)
    print(json.dumps({"busy": given.busy, "runs": len(found), "failures": failures, "said": found}))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
