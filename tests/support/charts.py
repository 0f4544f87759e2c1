"""The charts in `deploy/`, rendered by the real helm; and promtool. Both come from `make real`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.real.parts import CHECKOUT, available, folders

CHART = CHECKOUT / "deploy" / "chart"
CRDS_CHART = CHECKOUT / "deploy" / "chart-crds"
NAME, NAMESPACE = "maar", "maar-system"

Object = dict[str, Any]


@cache
def program(name: str) -> Path:
    """The path of `helm` or `promtool`. Skips the test where it is not built; with `MAAR_REAL` that is a failure."""
    if not (found := available(name)):
        (pytest.fail if os.environ.get("MAAR_REAL") else pytest.skip)(found.why_not)
    return folders()[name] / name


def ran(name: str, *arguments: str | Path, folder: Path | None = None) -> str:
    """The output of a program that must succeed."""
    done = subprocess.run([program(name), *arguments], capture_output=True, text=True, cwd=folder, env=environment())
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def refused(*arguments: str | Path) -> str:
    """The error message of a helm command that must fail."""
    done = subprocess.run([program("helm"), *arguments], capture_output=True, text=True, env=environment())
    assert 1 == done.returncode, done.stdout
    return done.stderr


def environment() -> dict[str, str]:
    """No plugins, no configuration and no cluster of the person who runs the tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "KUBE"))}
    return {**kept, "HELM_PLUGINS": os.devnull, "KUBECONFIG": os.devnull}


def settings(values: Mapping[str, Any]) -> list[str]:
    """Values by dotted path, as `--set-json`."""
    return [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]


def rendered(values: Mapping[str, Any] | None = None, chart: Path = CHART, name: str = NAME) -> list[Object]:
    """All objects that the chart makes of these values."""
    text = _template(chart, name, tuple(settings(values or {})))
    return [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]


@cache
def _template(chart: Path, name: str, values: tuple[str, ...]) -> str:
    """What helm renders. Certificates are different each time, and the same for the tests of one process."""
    return ran("helm", "template", name, chart, f"--namespace={NAMESPACE}", *values)


def refusal(values: Mapping[str, Any]) -> str:
    """What helm says about values that it must refuse."""
    return refused("template", NAME, CHART, f"--namespace={NAMESPACE}", *settings(values))


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Objects by kind and name."""
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(found) == len(objects), "no two objects have the same kind and name"
    return found
