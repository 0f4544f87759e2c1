"""buildah as a program: a storage of our own in build/, no daemon, and nothing that a container in CI forbids."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.image.targets import DOCKERFILE, NAME, WORK, Refused, Target

OPTIONS = ["--root", str(WORK / "storage"), "--runroot", str(WORK / "run"), "--storage-driver", "vfs"]
"""`vfs` copies folders. `overlay` took as long for this image, and leaves mounts behind where a build is killed."""


class Buildah:
    """One build. At its end only images with a name stay in the storage: bases that were pulled from a registry."""

    def __enter__(self) -> Buildah:
        WORK.mkdir(parents=True, exist_ok=True)
        self._lock = open(WORK / "lock", "w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # a build at a time: they share a storage
        return self

    def __exit__(self, *error: object) -> None:
        self._run("rm", "--all")
        self._run("rmi", "--prune", "--force")
        self._lock.close()

    def _run(self, *arguments: str, offline: bool = False) -> str:
        command = ["buildah", *OPTIONS, *arguments]
        if offline:  # buildah's own `--network=none` does not go with this isolation
            command = ["unshare", "--net", "--", *command]
        done = subprocess.run(
            command, env={**os.environ, "BUILDAH_ISOLATION": "chroot"}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise Refused(f"buildah {arguments[0]}: {(done.stderr or done.stdout).strip()[-3000:]}")
        return done.stdout.strip()

    def pull(self, base: str, target: Target) -> str:
        """The image's id, from an archive or from a registry."""
        if Path(base).is_file():
            return self._run("pull", "--quiet", f"oci-archive:{Path(base).resolve()}").splitlines()[-1]
        if base.endswith(".tar"):
            raise Refused(f"no such file: `{base}`; `make image-base` makes it")
        try:
            return self._run("pull", "--quiet", "--arch", target.arch, base).splitlines()[-1]
        except Refused as refused:
            raise Refused(
                f"cannot pull the base `{base}`: {refused}\n"
                "where no registry can be reached: make image-base, then make image "
                f"BASE={os.path.relpath(target.base)}"
            ) from None

    def inspect(self, image: str) -> dict[str, Any]:
        """The image's OCI configuration."""
        found: dict[str, Any] = json.loads(self._run("inspect", "--type", "image", image))["OCIv1"]
        return found

    def commit_files(
        self, files: Path, target: Target, environment: Mapping[str, str], archive: Path, epoch: int
    ) -> None:
        """An image with the files of a tar file only."""
        made = self._run("from", "--arch", target.arch, "scratch")
        self._run("add", made, str(files), "/")
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        self._run("config", "--arch", target.arch, "--os", "linux", *variables, made)
        self._run("commit", "--quiet", "--format=oci", f"--timestamp={epoch}", made, f"oci-archive:{archive}")

    def build(
        self,
        context: Path,
        target: Target,
        arguments: Mapping[str, str],
        archive: Path,
        epoch: int,
        dockerfile: Path = DOCKERFILE,
    ) -> None:
        """Build a Dockerfile in a network without interfaces, and write the image to an archive."""
        given = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        command = ["build", "--quiet", "--pull=false", "--layers", "--no-cache", "--isolation=chroot", "--format=oci"]
        command += [f"--platform=linux/{target.arch}", f"--timestamp={epoch}", *given, f"--file={dockerfile}"]
        image = self._run(*command, str(context), offline=True).splitlines()[-1]
        archive.unlink(missing_ok=True)
        self._run("push", "--quiet", "--format=oci", image, f"oci-archive:{archive}:{NAME}")
