"""`python -m tools.image COMMAND`: make a base, build the image, pin the base."""

from __future__ import annotations

import argparse
import os
import sys

from tools.image.debian import make_base
from tools.image.digest import base_of, pin
from tools.image.make import epoch, make_image
from tools.image.needs import require_programs
from tools.image.targets import DOCKERFILE, TARGETS, Refused, Target, native
from tools.image.trial import Trial


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.image", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    base = commands.add_parser("base", help="make a base from Debian's packages")
    build = commands.add_parser("build", help="build the image into an OCI archive")
    for each in (base, build):
        each.add_argument(
            "--arch", choices=sorted(TARGETS), help="processor of the image; default: that of this machine"
        )
    build.add_argument("--base", help="name or OCI archive of the base; default: that of deploy/Dockerfile")
    build.add_argument("--source", help="address of the source, for a label; default: the commit")
    commands.add_parser("pin", help="write the digest of the base into deploy/Dockerfile")
    given = parser.parse_args()
    try:
        if given.command == "pin":
            require_programs("skopeo")
            print(f"pinned {pin(DOCKERFILE)}")
            return
        target = TARGETS[given.arch] if given.arch else native()
        if given.command == "base":
            print(f"made {os.path.relpath(make_base(target, epoch()))}")
        else:
            name = given.base or base_of(DOCKERFILE)[0].removeprefix("ARG BASE=")
            report(target, make_image(target, name, given.source))
    except Refused as refused:
        sys.exit(f"error: {refused}")


def report(target: Target, trial: Trial) -> None:
    """Print what was made."""
    emulated = "" if target == native() else ", emulated"
    print(f"made {os.path.relpath(target.archive)}")
    print(f"  name    {trial.archive.name}")
    print(f"  digest  {trial.archive.digest}")
    print(f"  size    {trial.archive.size / 1e6:.1f} MB compressed")
    print(f"  start   {trial.seconds:.2f} s of CPU until `maar run` looks for its cluster{emulated}")
    print(f"  bill    {os.path.relpath(target.sbom)}: {trial.components} components")


if __name__ == "__main__":
    main()
