"""The binaries of a real cluster: where tools/controlplane/build.py (`make real`) puts them, and whether they exist."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[3]
BUILD = CHECKOUT / "tools" / "controlplane" / "build.py"


class Available(NamedTuple):
    """Whether a real cluster can be started, and if not, why and what to do."""

    ok: bool
    why_not: str = ""

    def __bool__(self) -> bool:
        return self.ok


def folders() -> dict[str, Path]:
    """The folder of each part, built or not: `etcd`, `kubernetes`, `kubectl`, `kwok` and others."""
    asked = subprocess.run([sys.executable, BUILD, "--where"], capture_output=True, text=True, check=True)
    return {name: Path(part["folder"]) for name, part in json.loads(asked.stdout).items()}


def available(*parts: str) -> Available:
    """Whether these parts are built; without arguments, the parts of a cluster with kubelets."""
    if not BUILD.is_file():
        return Available(False, f"not in a checkout of Maar: no `{BUILD}`")
    homes = folders()
    missing = [name for name in parts or ("etcd", "kubernetes", "kwok") if not homes[name].is_dir()]
    if missing:
        return Available(False, f"not built: {', '.join(missing)}; `make real` builds them (minutes, once)")
    return Available(True)
