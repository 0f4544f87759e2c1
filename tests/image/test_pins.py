"""The wheels of the image are those that the requirement files pin, for its Python and its processor."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.tags import cpython_tags
from packaging.utils import canonicalize_name
from tests.test_skeleton import pyproject
from tools.image.context import INSTALLER, POSTGRES
from tools.image.inside.assemble import platforms
from tools.image.pins import Pin, choose, environment, read

ROOT = Path(__file__).parents[2]
HASHES = [f"sha256:{digit * 64}" for digit in "ab"]
TEXT = f"""
# This file was made by a tool
always==1.0 \\
    --hash={HASHES[0]} \\
    --hash={HASHES[1]}
    # via maar
Old_Python==2 ; python_full_version < '3.12' \\
    --hash={HASHES[0]}
windows==3 ; sys_platform == 'win32' \\
    --hash={HASHES[0]}
arm==4 ; platform_machine == 'aarch64' \\
    --hash={HASHES[0]}
"""


@pytest.mark.parametrize(
    ("python", "machine", "names"),
    [
        ("3.11.2", "x86_64", ["always", "old-python"]),
        ("3.12.1", "x86_64", ["always"]),
        ("3.13.0", "aarch64", ["always", "arm"]),
    ],
)
def test_markers_are_those_of_the_image(python: str, machine: str, names: list[str]) -> None:
    assert names == [pin.name for pin in read(TEXT, environment(python, machine))]


def test_a_pin_is_written_as_pip_reads_it() -> None:
    pin, *_ = read(TEXT, environment("3.12.1", "x86_64"))
    assert Pin("always", "1.0", tuple(HASHES)) == pin
    assert f"always==1.0 \\\n    --hash={HASHES[0]} \\\n    --hash={HASHES[1]}" == str(pin)
    assert [pin] == list(read(f"{pin}\n", environment("3.12.1", "x86_64")))


def test_a_requirement_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"not pinned: loose>=1"):
        list(read("loose>=1\n", environment("3.12.1", "x86_64")))


def test_the_image_has_the_postgresql_driver_and_its_installer_is_pinned() -> None:
    variables = environment("3.11.2", "x86_64")
    pins = {pin.name: pin for pin in read((ROOT / "requirements-dev.txt").read_text(), variables)}
    (wanted,) = map(Requirement, pyproject()["project"]["optional-dependencies"]["postgres"])
    assert wanted.name in POSTGRES
    assert {f"{wanted.name}-{extra}" for extra in wanted.extras} < set(POSTGRES)
    assert all(pin.hashes for pin in choose([*POSTGRES, INSTALLER], pins))
    with pytest.raises(ValueError, match=r"not pinned in requirements-dev.txt: nothing-like-it; run `make lock`"):
        choose(["nothing-like-it"], pins)


def test_every_dependency_of_users_is_pinned_for_the_image() -> None:
    for machine in ("x86_64", "aarch64"):
        pinned = {pin.name for pin in read((ROOT / "requirements.txt").read_text(), environment("3.11.2", machine))}
        wanted = {canonicalize_name(Requirement(each).name) for each in pyproject()["project"]["dependencies"]}
        assert set() == wanted - pinned


def test_wheels_for_an_older_glibc_are_taken() -> None:
    ours = platforms("x86_64")
    assert {"manylinux_2_36_x86_64", "manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"} < {*ours}
    assert "manylinux_2_37_x86_64" not in ours, "Debian bookworm has glibc 2.36"
    assert "cp311-cp311-manylinux_2_36_x86_64" == str(next(cpython_tags((3, 11), platforms=ours)))
