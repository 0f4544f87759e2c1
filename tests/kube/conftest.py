"""Reads a cluster from YAML in a test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from maar.kube.picture.manifests import read
from maar.model.snapshot import Cluster


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Cluster]:
    """Reads YAML into a cluster; an ignored object fails the test."""

    def loaded(text: str, scheduler_names: frozenset[str] | None = None, now: float = 0.0) -> Cluster:
        file = tmp_path / "objects.yaml"
        file.write_text(text)
        found = read([str(file)], scheduler_names, now)
        assert {} == found.ignored
        return found.cluster

    return loaded
