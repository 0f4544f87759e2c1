"""The wheel and the sdist install into an empty environment on every Python that Maar supports, and work from there."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from tests.test_skeleton import pyproject

from maar import __version__

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/1-gang-that-fits.yaml"
PLAN = ("plan", "--cycles", "2", "--now", "2026-11-01T10:00:00Z", str(EXAMPLE))
PYTHONS = re.findall(r"Python :: (3\.\d+)$", "\n".join(pyproject()["project"]["classifiers"]), re.MULTILINE)
BACKEND = ("hatchling", "packaging", "pathspec", "pluggy", "trove-classifiers")
"""The build backend and what it needs; requirements-dev.txt has their hashes."""


def run(*command: str | Path, folder: Path) -> str:
    """Run a command with nothing of this environment: no variables of Python and pip, none of ours."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MAAR", "VIRTUAL"))}
    done = subprocess.run(list(map(str, command)), cwd=folder, env=ours, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def interpreter(version: str) -> Path:
    """A Python of this version, on the path or of pyenv."""
    named = [Path(found) for found in [shutil.which(f"python{version}")] if found]
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for candidate in [*named, *sorted(root.glob(f"versions/{version}.*/bin/python3"))]:
        done = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        if done.stdout.startswith(f"Python {version}."):
            return candidate
    why = f"no Python {version}: install `python{version}`, or with pyenv"
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)


def pinned(names: tuple[str, ...]) -> str:
    """The lines of requirements-dev.txt for these distributions, with their hashes."""
    text = (ROOT / "requirements-dev.txt").read_text()
    return "".join("\n".join(re.findall(rf"^{name}==.*\n(?:    --hash.*\n)+", text, re.MULTILINE)) for name in names)


def environment(python: Path, folder: Path) -> Path:
    """The Python of a new and empty environment: it has no pip."""
    run(python, "-m", "venv", "--without-pip", folder, folder=folder.parent)
    return folder / "bin/python"


def pip(python: Path, command: str, *options: str | Path) -> None:
    """Run the pip of this environment on another one."""
    ours: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    run(*ours, command, "--quiet", "--no-deps", *options, folder=python.parent)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (made,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("sdist")), versions=["standard"])
    return Path(made)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (made,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"])
    return Path(made)


def test_the_sdist_has_what_a_developer_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(f"maar-{__version__}/") for name in archive.getnames()}
    wanted = {"Makefile", "LICENSE", "pyproject.toml", "requirements-dev.txt", "deploy/Dockerfile", "docs/README.md"}
    assert set() == {*wanted, "src/maar/decide.py", "tests/test_install.py", "tools/image/__main__.py"} - names
    made = {name for name in names if name.startswith(("build", "dist", ".venv", ".git/")) or "__pycache__" in name}
    assert set() == made


def test_every_supported_python_is_tried() -> None:
    assert ["3.11", "3.12", "3.13"] == PYTHONS
    assert ">=3.11" == pyproject()["project"]["requires-python"]


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_it_installs_and_works(version: str, sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """The wheel that this Python builds from the sdist is ours, byte for byte; so installing either is the same."""
    python = interpreter(version)
    builder, empty = environment(python, tmp_path / "builder"), environment(python, tmp_path / "empty")
    (tmp_path / "backend.txt").write_text(pinned(BACKEND))
    pip(builder, "install", "--no-compile", "--require-hashes", "--requirement", tmp_path / "backend.txt")
    pip(builder, "wheel", "--no-build-isolation", "--no-index", "--wheel-dir", tmp_path / "made", sdist)
    (made,) = (tmp_path / "made").iterdir()
    assert (wheel.name, wheel.read_bytes()) == (made.name, made.read_bytes())

    pip(empty, "install", "--no-compile", "--require-hashes", "--requirement", ROOT / "requirements.txt")
    pip(empty, "install", "--no-compile", "--no-index", made)
    run(sys.executable, "-m", "pip", "--python", empty, "check", folder=tmp_path)  # nothing that Maar needs is missing
    maar = empty.with_name("maar")
    assert f"maar {__version__}\n" == run(maar, "--version", folder=tmp_path)
    with ThreadPoolExecutor() as threads:
        demo = threads.submit(run, maar, "demo", "--for", "20s", folder=tmp_path)
        ours = run(Path(sys.executable).with_name("maar"), *PLAN, folder=tmp_path)
        assert ours == run(maar, *PLAN, folder=tmp_path)
    assert "Score, from every write that the API server made" in demo.result()
