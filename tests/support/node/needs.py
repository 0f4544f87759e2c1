"""What a machine needs for a real node, and what it lacks, in words for the person who asked for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.real.parts import folders
from tools import node as packages

PARTS = ("etcd", "kubernetes", "kubernetes-oldest", "node", "helm", "kwok")
CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "memory", "pids")


def missing() -> list[str]:
    """What a real node needs and this machine lacks."""
    if sys.platform != "linux":
        return [f"Linux: this is {sys.platform}"]
    lacks = lacking_rights() + lacking_cgroups(CGROUPS)
    lacks += [f"a package of the system: `{name}`" for name in packages.missing()]
    homes = folders()
    if unbuilt := [name for name in PARTS if not homes[name].is_dir()]:
        lacks.append(f"programs of Kubernetes: {', '.join(unbuilt)}; `make node` builds them (minutes, once)")
    return lacks


def lacking_rights() -> list[str]:
    """What this user may not do."""
    if os.geteuid() != 0:
        return ["root: a node makes namespaces, mounts and cgroups"]
    unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
    try:
        done = subprocess.run(unshare, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []  # the package is missing too
    return [f"namespaces: {done.stderr.strip()}; a container must be privileged"] if done.returncode else []


def lacking_cgroups(folder: Path) -> list[str]:
    """What a node cannot do with the cgroups that are mounted in a folder."""
    if (folder / "cgroup.controllers").is_file():  # version 2
        found = (folder / "cgroup.controllers").read_text().split()
    else:
        found = [name for name in CONTROLLERS if (folder / name / "cgroup.procs").is_file()]
    lacks = [f"the cgroup controller `{name}` below `{folder}`" for name in CONTROLLERS if name not in found]
    if not lacks and not os.access(folder, os.W_OK):
        lacks.append(f"cgroups that can be written: `{folder}` is read-only")
    return lacks
