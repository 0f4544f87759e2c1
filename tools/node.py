"""Install what a real node needs from the packages of the system, for `make test-node`.

    python tools/node.py

It does nothing if all commands are there. It installs only on Debian and Ubuntu and only as root; else it prints what
is missing, and `make test-node` decides what that means. It uses only the standard library, because it runs first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CNI = Path("/usr/lib/cni")
"""Where Debian's package has the network plugins."""
PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",  # for kube-proxy
    "ip": "iproute2",
    "unshare": "util-linux",
    "buildah": "buildah",  # these three make the image
    "mmdebstrap": "mmdebstrap",
    "skopeo": "skopeo",
    str(CNI / "bridge"): "containernetworking-plugins",
    str(CNI / "loopback"): "containernetworking-plugins",
    str(CNI / "host-local"): "containernetworking-plugins",
}
"""Commands and files, and the packages that have them."""


def missing() -> list[str]:
    """The packages that are not installed."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return sorted({package for command, package in PACKAGES.items() if shutil.which(command, path=path) is None})


def main() -> None:
    packages = missing()
    if not packages:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print(f"a real node needs packages, and root to install them: {', '.join(packages)}", file=sys.stderr)
        return
    print(f"installing packages for a real node (once): {', '.join(packages)}", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", "--quiet=2", *command], env=quiet, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"cannot install packages: apt-get {command[0]}: {(done.stderr or done.stdout).strip()}")


if __name__ == "__main__":
    main()
