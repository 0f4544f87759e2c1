"""The image that `python -m tests.image` has just built."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.image.built import WANTED
from tools.image.archive import Archive
from tools.image.buildah import Buildah
from tools.image.container import Container, container
from tools.image.targets import native

collect_ignore_glob = [] if os.environ.get(WANTED) else ["test_*.py"]


@pytest.fixture(scope="session")
def archive() -> Archive:
    return Archive(native().archive)


@pytest.fixture(scope="session")
def running(archive: Archive) -> Iterator[Container]:
    """The image, unpacked, to run programs in."""
    with container(archive) as unpacked:
        yield unpacked


@pytest.fixture
def buildah() -> Iterator[Buildah]:
    with Buildah() as program:
        yield program
