"""A base for the image from Debian's packages, for machines that reach no registry of images.

mmdebstrap resolves the packages with apt, checks their signatures and unpacks them. It runs none of their scripts, so
that it makes a base for another processor in the same way. What those scripts would do, and Python needs, `complete`
does. The base has no shell.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.image.buildah import Buildah
from tools.image.needs import require
from tools.image.targets import MADE, ROOT, Refused, Target

SUITE = "bookworm"
PACKAGES = (
    "base-files",  # /etc/os-release: scanners read it
    "base-passwd",
    "ca-certificates",
    "libpython3.11-stdlib",
    "libstdc++6",  # the wheels of numpy and scipy expect it on the system
    "media-types",  # /etc/mime.types: content types of the page
    "netbase",  # /etc/services, /etc/protocols
    "python3-minimal",
    "tzdata",
)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def make_base(target: Target, epoch: int) -> Path:
    """Make the base for a processor; returns its OCI archive."""
    require("mmdebstrap", "buildah")
    MADE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="maar-base-") as folder:
        files = Path(folder) / "files.tar"
        hook = f"cd '{ROOT}' && '{sys.executable}' -m tools.image.debian \"$1\""
        command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=extract", f"--architectures={target.arch}"]
        command += [f"--include={','.join(PACKAGES)}", f"--extract-hook={hook}", "--skip=output/dev", SUITE, str(files)]
        done = subprocess.run(
            command, env={"PATH": PATH, "SOURCE_DATE_EPOCH": str(epoch)}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Refused(
                f"cannot unpack Debian's packages: mmdebstrap: {(done.stderr or done.stdout).strip()[-2000:]}"
            )
        target.base.unlink(missing_ok=True)
        with Buildah() as buildah:
            buildah.commit_files(
                files,
                target,
                environment={"PATH": PATH, "LANG": "C.UTF-8", "PYTHON_VERSION": python_version(done.stderr)},
                archive=target.base,
                epoch=epoch,
            )
    return target.base


def python_version(printed: str) -> str:
    found = re.search(r"^python ([\d.]+)", printed, re.MULTILINE)
    if found is None:
        raise Refused("cannot tell which Python the base has: no package `python3.11-minimal` among those unpacked")
    return found[1]


def complete(root: Path) -> None:
    """Finish the unpacked packages. mmdebstrap runs this before it packs them; what is printed goes to its stderr."""
    status = ""
    for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        fields = subprocess.run(["dpkg-deb", "--field", package], capture_output=True, text=True, check=True).stdout
        status += f"{fields.strip()}\nStatus: install ok installed\n\n"
        if package.name.startswith("python3.11-minimal_"):
            version = re.search(r"^Version: ([\d.]+)", fields, re.MULTILINE)
            assert version is not None
            print(f"python {version[1]}")
    (root / "var/lib/dpkg").mkdir(parents=True, exist_ok=True)
    (root / "var/lib/dpkg/status").write_text(status)
    certificates = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (root / "etc/ssl/certs/ca-certificates.crt").write_text("".join(each.read_text() for each in certificates))
    for name in ("passwd", "group"):
        shutil.copy(root / f"usr/share/base-passwd/{name}.master", root / "etc" / name)
    # The names of this machine and of its mirrors stay out. Nothing can be installed in the image anyway.
    for file in ("etc/hostname", "etc/resolv.conf", "etc/apt/sources.list"):
        (root / file).unlink(missing_ok=True)
    for folder in ("usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian"):
        shutil.rmtree(root / folder, ignore_errors=True)
    for text in (root / "usr/share/doc").rglob("*"):
        if text.name != "copyright" and not text.is_dir():
            text.unlink()  # licences stay


if __name__ == "__main__":
    complete(Path(sys.argv[1]))
