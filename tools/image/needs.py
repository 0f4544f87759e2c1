"""The programs that building an image needs: install them, or say what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tools.image.targets import Refused

PACKAGES = {
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "qemu-aarch64-static": "qemu-user-static",
    "qemu-x86_64-static": "qemu-user-static",
    "runc": "runc",
    "skopeo": "skopeo",
    "unshare": "util-linux",
}
"""The package of Debian and Ubuntu that has each program."""


def missing(*programs: str) -> str | None:
    """What keeps this machine from building or running an image, in one line: programs, the rights of root."""
    if absent := absent_programs(*programs):
        packages = " ".join(sorted({PACKAGES[name] for name in absent}))
        return f"not installed: {', '.join(absent)}; on Debian and Ubuntu: apt-get install {packages}"
    if os.geteuid() != 0:
        return "not root: a build mounts, changes its root folder and owns files of several users; run it with sudo"
    if subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False).returncode:
        return "no namespaces: root may not make a mount and a network namespace here; a container must be privileged"
    return None


def absent_programs(*programs: str) -> list[str]:
    return [name for name in programs if shutil.which(name) is None]


def require(*programs: str) -> None:
    """Programs and the rights to build and run images with them; refuses with the reason."""
    require_programs(*programs)
    if reason := missing(*programs):
        raise Refused(reason)


def require_programs(*programs: str) -> None:
    """Install the programs that are missing, where that is possible; otherwise refuse."""
    absent = absent_programs(*programs)
    if absent and os.geteuid() == 0 and shutil.which("apt-get"):
        install(sorted({PACKAGES[name] for name in absent}))
    elif absent:
        raise Refused(missing(*programs) or "")


def install(packages: list[str]) -> None:
    print(f"installing {', '.join(packages)} from the packages of the system (once)", file=sys.stderr, flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", "--quiet=2", *command], env=quiet, capture_output=True, text=True, check=False
        )
        if done.returncode:
            reason = (done.stderr or done.stdout).strip()
            raise Refused(f"cannot install {', '.join(packages)}: apt-get {command[0]}: {reason}")
