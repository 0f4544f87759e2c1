"""Read OCI archives: a tar file with an index, a manifest, the configuration and the layers."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.image.targets import Refused


class Archive:
    """One image in an OCI archive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with tarfile.open(path) as archive:
                self._offsets = {each.name: (each.offset_data, each.size) for each in archive if each.isfile()}
            (entry,) = self._json("index.json")["manifests"]
            self.digest: str = entry["digest"]
            self.name: str = entry.get("annotations", {}).get("org.opencontainers.image.ref.name", "")
            self._layers = self._blob(self.digest)["layers"]
            self.configuration: dict[str, Any] = self._blob(self._blob(self.digest)["config"]["digest"])
        except (OSError, tarfile.TarError, KeyError, ValueError) as error:
            raise Refused(f"{path}: not an OCI archive with one image: {error}") from error

    @property
    def layers(self) -> list[int]:
        """The compressed size of each layer in bytes."""
        return [int(layer["size"]) for layer in self._layers]

    @property
    def size(self) -> int:
        """Bytes to download."""
        return sum(self.layers)

    @property
    def settings(self) -> dict[str, Any]:
        """The user, command, environment and labels."""
        found: dict[str, Any] = self.configuration["config"]
        return found

    def members(self) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
        """Every file of every layer, in their order, and the layer to read it from."""
        for layer in self._layers:
            offset, _ = self._offsets[blob(layer["digest"])]
            with open(self.path, "rb") as file:
                file.seek(offset)
                with tarfile.open(fileobj=file, mode="r|gz") as files:
                    for member in files:
                        yield files, member

    def unpack(self, folder: Path) -> None:
        """Write the files of all layers into a folder; an image without removed files only, as ours are."""
        for files, member in self.members():
            if Path(member.name).name.startswith(".wh."):
                raise Refused(f"{self.path}: a layer removes a file: `{member.name}`; ours start from scratch")
            # Other filters take away modes, such as those of /tmp. The archives are our own.
            files.extract(member, folder, numeric_owner=True, filter="fully_trusted")

    def _read(self, name: str) -> bytes:
        offset, size = self._offsets[name]
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def _json(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._read(name))
        return found

    def _blob(self, digest: str) -> dict[str, Any]:
        return self._json(blob(digest))


def blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"
