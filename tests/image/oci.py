"""Images made by hand: small OCI archives, and a registry that serves one."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def layer(files: Mapping[str, bytes], modes: Mapping[str, int] | None = None) -> bytes:
    """A compressed layer with these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = (modes or {}).get(name, 0o644)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def descriptor(kind: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest, "size": len(content)}


class Image:
    """The parts of an image: its manifest and its blobs by digest."""

    def __init__(self, config: Mapping[str, Any], *layers: bytes) -> None:
        diffs = [f"sha256:{hashlib.sha256(gzip.decompress(each)).hexdigest()}" for each in layers]
        configuration = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": diffs},
            }
        ).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor("config.v1+json", configuration),
            "layers": [descriptor("layer.v1.tar+gzip", each) for each in layers],
        }
        self.layers = manifest["layers"]
        self.manifest = json.dumps(manifest).encode()
        self.blobs = {f"sha256:{hashlib.sha256(each).hexdigest()}": each for each in (configuration, *layers)}
        self.digest = f"sha256:{hashlib.sha256(self.manifest).hexdigest()}"

    def write(self, path: Path, name: str = "localhost/maar:test") -> Path:
        """Write the image as an OCI archive."""
        entry = descriptor("manifest.v1+json", self.manifest)
        entry["annotations"] = {"org.opencontainers.image.ref.name": name}
        files = {"index.json": json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()}
        files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
        for digest, content in {**self.blobs, self.digest: self.manifest}.items():
            files[f"blobs/{digest.replace(':', '/')}"] = content
        path.write_bytes(gzip.decompress(layer(files)))
        return path


@contextmanager
def registry(image: Image) -> Iterator[str]:
    """Serve an image under every name and tag; gives the address of the registry."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            last = self.path.rpartition("/")[2]
            if "/manifests/" in self.path and last in (image.digest, "3.12-slim"):
                self.answer(200, image.manifest, MANIFEST)
            elif "/blobs/" in self.path and last in image.blobs:
                self.answer(200, image.blobs[last], "application/octet-stream")
            else:
                self.answer(200 if self.path == "/v2/" else 404, b"{}", "application/json")

        def answer(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
