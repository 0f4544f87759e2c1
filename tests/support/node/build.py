"""The image that the tests on a real node install: built from the sources of this checkout, if it is not already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.support.real.parts import CHECKOUT
from tools.image.debian import make_base
from tools.image.make import epoch, make_image
from tools.image.targets import native

SOURCES = ("src", "deploy/crds", "deploy/Dockerfile", "tools/image", "pyproject.toml", "requirements.txt")


def build_image() -> None:
    """Build the image on a base from Debian's packages, unless its archive is newer than all its sources."""
    target = native()
    if target.archive.exists() and target.archive.stat().st_mtime > max(map(_changed, _sources())):
        return
    if not target.base.exists():
        make_base(target, epoch())
    make_image(target, str(target.base), source=None)


def _sources() -> Iterator[Path]:
    for name in SOURCES:
        path = CHECKOUT / name
        found = path.rglob("*") if path.is_dir() else [path]
        yield from (file for file in found if file.is_file() and "__pycache__" not in file.parts)


def _changed(path: Path) -> float:
    return path.stat().st_mtime
