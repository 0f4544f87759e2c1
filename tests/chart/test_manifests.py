"""The plain manifests in `deploy/` are the rendered chart."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import yaml
from tests.support.charts import Object, by_name, program, rendered
from tests.support.real.parts import CHECKOUT

pytestmark = pytest.mark.real

DEPLOY = CHECKOUT / "deploy"


def test_make_manifests_would_change_nothing() -> None:
    program("helm")
    command = [sys.executable, str(CHECKOUT / "tools" / "manifests.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert (0, "") == (done.returncode, done.stdout + done.stderr), "run `make manifests`"


def test_kubectl_apply_sends_what_helm_installs() -> None:
    """All objects but the pod of `helm test`, however the files are made."""
    files = [*sorted(DEPLOY.glob("*.yaml")), DEPLOY / "web" / "web.yaml"]
    plain: list[Object] = [item for file in files for item in yaml.safe_load_all(file.read_text())]
    objects = by_name(rendered({"namespace.create": True, "web.tls.source": "secret"}))
    del objects["Pod", "maar-test"]
    assert objects == by_name(plain)
