"""Images of a real node: makes those that `make image` does not make, and loads archives into containerd."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path
from typing import Any

OCI = "application/vnd.oci.image"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_archive(path: Path, name: str, program: Path) -> None:
    """Write an image with one static program as an OCI archive."""
    layer = _tar({"program": program.read_bytes()}, 0o755)
    diff = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    config = {
        "architecture": MACHINES[platform.machine()],
        "os": "linux",
        "config": {"Entrypoint": ["/program"]},
        "rootfs": {"type": "layers", "diff_ids": [diff]},
    }
    _Archive({}).write(path, name, config, [], layer)


def derive(archive: Path, path: Path, name: str, files: dict[str, bytes]) -> None:
    """Write another image: that of an archive, with some files replaced. `.wh.NAME` removes a file."""
    with tarfile.open(archive) as tar:
        blobs = {member.name: _content(tar, member) for member in tar if member.isfile()}
    old = _Archive(blobs)
    (entry,) = old.json("index.json")["manifests"]
    manifest = old.json(old.blob(entry))
    config = old.json(old.blob(manifest["config"]))
    layer = _tar(files, 0o644)
    config["rootfs"]["diff_ids"].append(f"sha256:{hashlib.sha256(layer).hexdigest()}")
    config.pop("history", None)  # it would have to name the new layer
    old.write(path, name, config, manifest["layers"], layer)


class _Archive:
    """The files of an OCI archive."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def json(self, file: str) -> Any:
        return json.loads(self._files[file])

    def blob(self, descriptor: dict[str, Any]) -> str:
        return f"blobs/sha256/{descriptor['digest'].partition(':')[2]}"

    def write(self, path: Path, name: str, config: dict[str, Any], layers: list[dict[str, Any]], layer: bytes) -> None:
        """Write an archive with one image: the layers that are here already, and one more."""
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": self._add(json.dumps(config).encode(), "config.v1+json"),
            "layers": [*layers, self._add(layer, "layer.v1.tar")],
        }
        entry = self._add(json.dumps(manifest).encode(), "manifest.v1+json")
        index = {"schemaVersion": 2, "manifests": [entry | {"annotations": {"io.containerd.image.name": name}}]}
        self._files |= {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode()}
        path.write_bytes(_tar(self._files, 0o644))

    def _add(self, data: bytes, kind: str) -> dict[str, Any]:
        found = {"mediaType": f"{OCI}.{kind}", "digest": f"sha256:{hashlib.sha256(data).hexdigest()}"}
        self._files[self.blob(found)] = data
        return found | {"size": len(data)}


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()


def load(socket: Path, archive: Path) -> list[str]:
    """Load an archive into containerd, for the kubelet. Returns the names of its images."""
    ctr = ["ctr", "--address", str(socket), "--namespace", "k8s.io", "images"]
    done = subprocess.run([*ctr, "import", str(archive)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cannot load `{archive}`: {done.stderr.strip()}")
    # A line for each image: `unpacking NAME (DIGEST)...done`
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("unpacking ")]
