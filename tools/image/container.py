"""Run an image as a kubelet would: its own user, a read-only file system, no rights, no network but loopback.

runc comes with buildah. An image for another processor runs in qemu's user mode, one program at a time.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.image.archive import Archive
from tools.image.needs import require
from tools.image.targets import TARGETS, native


class Container:
    """The unpacked files of an image, to run programs in."""

    def __init__(self, folder: Path, archive: Archive) -> None:
        self._folder = folder
        self._archive = archive
        self._runs = 0

    def run(
        self, *command: str, entry: list[str] | None = None, files: Mapping[str, bytes] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of Maar, or of another program, in a container of its own.

        Files are mounted below /etc/maar, for reading.
        """
        self._runs += 1
        bundle = self._folder / f"run-{self._runs}"
        (bundle / "files").mkdir(parents=True)
        for name, content in (files or {}).items():
            (bundle / "files" / name).write_bytes(content)
        (bundle / "config.json").write_text(json.dumps(self._specification(entry, list(command), bundle)))
        arguments = ["runc", "--root", str(self._folder / "runc"), "run", "--bundle", str(bundle)]
        return subprocess.run(
            [*arguments, f"maar-image-{self._folder.name}-{self._runs}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _specification(self, entry: list[str] | None, command: list[str], bundle: Path) -> dict[str, Any]:
        """An OCI runtime specification, after the image's configuration."""
        settings = self._archive.settings
        user, group = map(int, settings["User"].split(":"))
        arch = self._archive.configuration["architecture"]
        mounts = [
            mount("/proc", "proc", "proc"),
            mount("/dev", "tmpfs", "tmpfs", "nosuid", "mode=755", "size=65536k"),
            mount("/tmp", "tmpfs", "tmpfs", "nosuid", "nodev", "mode=1777"),
            mount("/etc/maar", "bind", str(bundle / "files"), "bind", "ro"),
        ]
        program = entry or settings["Entrypoint"]
        if arch != native().arch:
            # An emulator runs programs, not scripts: Python is named, with the script of the command.
            emulator = f"qemu-{TARGETS[arch].machine}-static"
            program = [f"/emulator/{emulator}", *(entry or [self._python(), "/opt/maar/bin/maar"])]
            emulators = self._folder / "emulator"
            emulators.mkdir(exist_ok=True)
            shutil.copy(str(shutil.which(emulator)), emulators)
            mounts.append(mount("/emulator", "bind", str(emulators), "bind", "ro"))
        return {
            "ociVersion": "1.0.2",
            "process": {
                "terminal": False,
                "user": {"uid": user, "gid": group},
                "args": [*program, *command],
                "env": settings["Env"],
                "cwd": settings.get("WorkingDir") or "/",
                "noNewPrivileges": True,
            },
            "root": {"path": str(self._folder / "files"), "readonly": True},
            "hostname": "maar",
            "mounts": mounts,
            "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
        }

    def _python(self) -> str:
        places = ("usr/local/bin/python3", "usr/bin/python3")
        return next(f"/{each}" for each in places if (self._folder / "files" / each).exists())


def mount(destination: str, kind: str, source: str, *options: str) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


@contextmanager
def container(archive: Archive) -> Iterator[Container]:
    """Unpack an image for as long as it is used."""
    arch = archive.configuration["architecture"]
    require("runc", *([] if arch == native().arch else [f"qemu-{TARGETS[arch].machine}-static"]))
    with tempfile.TemporaryDirectory(prefix="maar-image-") as made:
        folder = Path(made)
        (folder / "files").mkdir()
        archive.unpack(folder / "files")
        for missing in ("proc", "dev", "tmp", "etc/maar", "emulator"):  # a read-only file system gets no new folders
            (folder / "files" / missing).mkdir(parents=True, exist_ok=True)
        yield Container(folder, archive)
