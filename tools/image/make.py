"""One build of the image: the base, the wheels, the Dockerfile, the trial."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from tools.image.buildah import Buildah
from tools.image.context import gather
from tools.image.needs import require
from tools.image.targets import ROOT, Refused, Target, native
from tools.image.trial import Trial, judge

import maar


def make_image(target: Target, base: str, source: str | None) -> Trial:
    """Build the image of a target and try it; one that is not as it must be is removed."""
    require("buildah")
    with Buildah() as buildah:
        image = buildah.pull(base, target)
        python = python_of(buildah, image, base)
        local = Path(base).is_file()
        arguments = {"BASE": image, "BASE_NAME": Path(base).name if local else base, "VERSION": maar.__version__}
        arguments |= {"REVISION": revision(), "SOURCE": source or f"swh:1:rev:{commit()}"}
        if target != native():
            arguments["BUILD_BASE"] = buildah.pull(str(native().base) if local else base, native())
        buildah.build(gather(target, python, epoch()), target, arguments, target.archive, epoch())
    trial = judge(target)
    if trial.faults:
        target.archive.unlink()
        raise Refused("\n  ".join(["the image is not as it must be, so it was removed:", *trial.faults]))
    return trial


def python_of(buildah: Buildah, image: str, base: str) -> str:
    """The full version of the base's Python."""
    for variable in buildah.inspect(image)["config"].get("Env", []):
        if found := re.fullmatch(r"PYTHON_VERSION=(3\.\d+\.\d+)\S*", variable):
            return found[1]
    raise Refused(f"the base `{base}` does not say which Python it has: no PYTHON_VERSION in its environment")


def git(*arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def commit() -> str:
    return git("rev-parse", "HEAD") or "unknown"


def revision() -> str:
    """The commit of the checkout; `-dirty` follows if there are changes."""
    return commit() + ("-dirty" if git("status", "--porcelain") else "")


def epoch() -> int:
    """The time of all files of the image: the same sources make the same image."""
    given = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")
    if given and not given.isdecimal():
        raise Refused(f"SOURCE_DATE_EPOCH: expected seconds since 1970, got `{given}`")
    return int(given) if given else int(time.time())
