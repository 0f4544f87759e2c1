"""Build the image on a base from Debian's packages and test it: `make test-image`, or `python -m tests.image`.

Arguments are those of pytest. Where the machine lacks something, it says what, and skips. With CI=true
in the environment, a skip is a failure. The archive stays in build/ for the tests on a real node.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.image.built import WANTED
from tools.image.__main__ import report
from tools.image.debian import make_base
from tools.image.make import epoch, make_image
from tools.image.needs import missing, require_programs
from tools.image.targets import Refused, native

PROGRAMS = ("buildah", "mmdebstrap", "runc", "skopeo", "unshare")


def main() -> int:
    strict = os.environ.get("CI") == "true"
    target = native()
    with suppress(Refused):  # `missing` says it too
        require_programs(*PROGRAMS)
    if reason := missing(*PROGRAMS):
        print(f"tests of the image: {'failed' if strict else 'skipped'}: {reason}", file=sys.stderr)
        return 1 if strict else 0
    try:
        if not target.base.exists():
            print(f"made {os.path.relpath(make_base(target, epoch()))}")
        report(target, make_image(target, str(target.base), source=None))
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 1
    os.environ[WANTED] = "1"
    return pytest.main(["-n", "0", str(Path(__file__).parent), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
