"""The build uses no network, and a base from a registry or from a file."""

from pathlib import Path

import pytest
from tests.image.oci import Image, layer, registry
from tools.image.buildah import Buildah
from tools.image.make import python_of
from tools.image.targets import Refused, native

LOOK = "import socket; names = [name for _, name in socket.if_nameindex()]; assert names == ['lo'], names"
TRY = "import socket; socket.create_connection(('127.0.0.1', {port}), timeout=5)"


def build(buildah: Buildah, folder: Path, program: str) -> Path:
    (folder / "Dockerfile").write_text(f'ARG BASE\nFROM ${{BASE}}\nRUN ["python3", "-c", "{program}"]\n')
    (folder / "context").mkdir()
    arguments = {"BASE": buildah.pull(str(native().base), native())}
    made = folder / "image.tar"
    buildah.build(folder / "context", native(), arguments, made, epoch=0, dockerfile=folder / "Dockerfile")
    return made


def test_a_build_has_no_network(buildah: Buildah, tmp_path: Path) -> None:
    assert build(buildah, tmp_path, LOOK).exists()


def test_a_build_that_needs_this_machine_fails(buildah: Buildah, tmp_path: Path) -> None:
    with registry(Image({}, layer({}))) as address, pytest.raises(Refused, match=r"(?s)buildah build: .*Errno"):
        build(buildah, tmp_path, TRY.format(port=address.rpartition(":")[2]))


def test_a_pinned_base_is_pulled(buildah: Buildah, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = Image({"Env": ["PYTHON_VERSION=3.12.9"]}, layer({"etc/os-release": b""}))
    with registry(image) as address:
        insecure(tmp_path, monkeypatch, address)
        name = f"{address}/library/python:3.12-slim"
        assert "3.12.9" == python_of(buildah, buildah.pull(name, native()), name)
        pinned = f"{name}@{image.digest}"
        assert "3.12.9" == python_of(buildah, buildah.pull(pinned, native()), pinned)
        with pytest.raises(Refused, match=r"(?s)cannot pull the base.*make image-base, then make image BASE=build/"):
            buildah.pull(f"{address}/library/python:3.99", native())


def test_a_base_says_its_python(buildah: Buildah, tmp_path: Path) -> None:
    file = str(Image({"Env": ["PATH=/bin"]}, layer({"etc/passwd": b""})).write(tmp_path / "base.tar"))
    with pytest.raises(Refused, match=r"base.tar` does not say which Python it has: no PYTHON_VERSION"):
        python_of(buildah, buildah.pull(file, native()), file)
    with pytest.raises(Refused, match=r"no such file: `missing.tar`; `make image-base` makes it"):
        buildah.pull("missing.tar", native())


def insecure(folder: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Let buildah use a registry without TLS."""
    (folder / "registries.conf").write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", str(folder / "registries.conf"))
