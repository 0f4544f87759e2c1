"""Run the tests of this folder on a real node: `make test-node`, or `python -m tests.node [ARGUMENTS OF PYTEST]`.

Where the machine lacks something, it says what, and skips. With CI=true in the environment, a skip is a failure.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.node.enter import enter

if __name__ == "__main__":
    sys.exit(enter("tests", [sys.executable, "-m", "pytest", "-n", "0", str(Path(__file__).parent), *sys.argv[1:]]))
