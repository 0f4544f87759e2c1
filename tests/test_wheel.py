"""The wheel contains the command, what plugin authors need, and the CRDs, but nothing that only our tests use."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from maar import __version__

ROOT = Path(__file__).parents[1]
FOR_USERS = {"maar.report", "maar.testing.builders", "maar.testing.scenario"}
"""Modules for users, which no module of Maar imports."""
NOT_CONNECTED = {
    "maar.kube.read.claims.claims",
    "maar.kube.read.claims.selecting",
    "maar.model.devices.allocator",
    "maar.model.devices.table",
}
"""Devices for claims: tested alone, and not asked by any decision yet. `maar.model.devices` says what is missing."""

IMPORTS = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ImportError(f"not a runtime dependency: {name}")

sys.meta_path.insert(0, Refuse())
import maar.testing.builders, maar.testing.scenario
print(maar.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    (file,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with ZipFile(file) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def modules(wheel: Path) -> dict[str, ast.Module]:
    """All modules of the wheel by name."""
    found = {}
    for file in wheel.rglob("*.py"):
        name = ".".join(file.relative_to(wheel).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(file.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module) -> set[str]:
    """The modules that a module imports, and the names that it imports from them."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def pinned(file: str) -> set[str]:
    """The distributions that a requirements file pins."""
    return {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", (ROOT / file).read_text(), re.MULTILINE)}


def development_only() -> set[str]:
    """Top-level modules of distributions that only developers install, not users with Maar or one of its extras."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    optional = {canonicalize_name(Requirement(each).name) for extra in extras.values() for each in extra}
    theirs = pinned("requirements-dev.txt") - pinned("requirements.txt") - optional
    return {
        module
        for module, distributions in packages_distributions().items()
        if theirs.issuperset(map(canonicalize_name, distributions))
    }


def test_it_contains_maar_and_nothing_else(wheel: Path) -> None:
    assert {"maar", f"maar-{__version__}.dist-info"} == {path.name for path in wheel.iterdir()}
    assert {"__init__", "builders", "scenario"} == {path.stem for path in wheel.glob("maar/testing/*")}


def test_every_module_is_used_by_another_or_is_for_users(wheel: Path) -> None:
    found = modules(wheel)
    used = set().union(*(imported(tree) - {name} for name, tree in found.items()))
    packages = {".".join(file.relative_to(wheel).parts[:-1]) for file in wheel.rglob("__init__.py")}
    commands = {name for name in found if name.startswith("maar.cli.")}  # imported by name on use
    assert "maar.decide" in found
    commands |= {name for name in found if name.endswith(".__main__")}  # `python -m` runs them
    assert FOR_USERS | NOT_CONNECTED == found.keys() - used - packages - commands


def test_no_module_imports_a_development_dependency(wheel: Path) -> None:
    tools = development_only()
    assert {"pytest", "hypothesis", "trustme", "mypy"} <= tools
    named = {name: {each.partition(".")[0] for each in imported(tree)} for name, tree in modules(wheel).items()}
    assert {} == {name: found for name, tops in named.items() if (found := tops & tools)}


def test_plugin_tests_need_runtime_dependencies_only(wheel: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, ",".join(development_only())],
        env=os.environ | {"PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert wheel / "maar/__init__.py" == Path(done.stdout.strip())


def test_the_wheel_has_the_custom_resource_definitions(wheel: Path) -> None:
    ours = {path.name: path.read_bytes() for path in (ROOT / "deploy/crds").glob("*.yaml")}
    assert ours
    assert ours == {path.name: path.read_bytes() for path in (wheel / "maar/embedded/crds").iterdir()}
    assert (wheel / "maar/default.yaml").is_file()


def test_the_wheel_has_the_page(wheel: Path) -> None:
    def files(folder: Path) -> dict[str, bytes]:
        kept = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in kept}

    ours = files(ROOT / "src/maar/web/page")
    assert {"index.html", "style.css", "js/main.js", "js/pages/cluster.js"} <= ours.keys()
    assert ours == files(wheel / "maar/web/page")
