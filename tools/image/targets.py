"""Which images are made: their processors, and where their files are."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import maar

ROOT = Path(__file__).resolve().parents[2]
MADE = ROOT / "build"
WORK = MADE / "image"
"""Wheels, the build context and buildah's storage; `make clean` removes it."""
DOCKERFILE = ROOT / "deploy/Dockerfile"


class Refused(Exception):
    """What the user asked for cannot be done; the message says why, and what would help."""


@dataclass(frozen=True, slots=True)
class Target:
    """A processor: its name in OCI images and in Debian, and in the tags of wheels."""

    arch: str
    machine: str

    @property
    def archive(self) -> Path:
        return MADE / f"maar-image-{maar.__version__}-{self.arch}.tar"

    @property
    def sbom(self) -> Path:
        return self.archive.with_suffix(".cdx.json")

    @property
    def base(self) -> Path:
        return MADE / f"maar-base-{self.arch}.tar"

    @property
    def context(self) -> Path:
        return WORK / f"context-{self.arch}"


TARGETS = {target.arch: target for target in (Target("amd64", "x86_64"), Target("arm64", "aarch64"))}
NAME = f"localhost/maar:{maar.__version__}"
"""The image's name in its archive, and after an import of the archive."""


def native() -> Target:
    """The target of this machine."""
    machine = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
    for target in TARGETS.values():
        if target.machine == machine:
            return target
    raise Refused(f"no image is made on this processor: `{machine}`; known are {', '.join(sorted(TARGETS))}")
