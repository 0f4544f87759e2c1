"""The base of deploy/Dockerfile: which it is, and its digest, so that a tag that moves does not change the image."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

from tools.image.targets import Refused

LINE = re.compile(r"^ARG BASE=(?P<name>[^\s@]+)(?P<digest>@sha256:[0-9a-f]{64})?$", re.MULTILINE)


def base_of(dockerfile: Path) -> re.Match[str]:
    """The line with the base."""
    found = LINE.search(dockerfile.read_text())
    if found is None:
        raise Refused(f"{dockerfile}: no line `ARG BASE=NAME` or `ARG BASE=NAME@sha256:...`")
    return found


def pin(dockerfile: Path) -> str:
    """Ask the registry for the digest of the tag, and write it into the Dockerfile; returns the new base."""
    name = base_of(dockerfile)["name"]
    # The raw manifest of a name for several processors is a list; its digest pins all of them.
    done = subprocess.run(["skopeo", "inspect", "--raw", f"docker://{name}"], capture_output=True, check=False)
    if done.returncode:
        last = done.stderr.decode().strip().splitlines()[-1]
        reason = re.sub(r'.*msg="(.*)"$', r"\1", last).replace('\\"', '"')
        raise Refused(f"cannot ask a registry for `{name}`: {reason}\n{dockerfile.name} is unchanged")
    base = f"{name}@sha256:{hashlib.sha256(done.stdout).hexdigest()}"
    dockerfile.write_text(LINE.sub(f"ARG BASE={base}", dockerfile.read_text(), count=1))
    return base
