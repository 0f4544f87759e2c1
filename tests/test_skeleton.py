"""Rules of the project itself: dependencies are pinned, and every layer is under an import contract."""

import importlib
import re
import subprocess
import tomllib
from importlib.metadata import entry_points
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import maar

ROOT = Path(__file__).parent.parent
REQUIREMENT_FILES = ("requirements.txt", "requirements-dev.txt")
# Matches also in comments: a URL scheme, an option that names an index, and anything like an absolute path.
ADDRESS = re.compile(r"\w+://|--(?:extra-)?index|--find-links|--trusted-host|@ ?file|(?:^|\s)/\w", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def logical_lines(text: str) -> list[str]:
    """The lines of a requirements file as pip reads them: without comments, with continuations joined."""
    without_comments = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    return [line for line in without_comments.replace("\\\n", " ").splitlines() if line.strip()]


def pins(file: str) -> dict[str, Requirement]:
    """The requirements of a file by canonical name, without hashes."""
    lines = logical_lines((ROOT / file).read_text())
    requirements = [Requirement(line.partition(" --hash")[0].strip()) for line in lines]
    return {canonicalize_name(r.name): r for r in requirements}


def pinned_version(requirement: Requirement) -> str:
    (specifier,) = requirement.specifier
    assert "==" == specifier.operator, f"not pinned: {requirement}"
    return specifier.version


def unsatisfied(wanted: list[str], pinned: dict[str, Requirement]) -> list[str]:
    """The requirements of pyproject.toml that have no pin, or a pin to a version that is not allowed."""
    missing = []
    for requirement in map(Requirement, wanted):
        pin = pinned.get(canonicalize_name(requirement.name))
        if pin is None or pinned_version(pin) not in requirement.specifier:
            missing.append(str(requirement))
    return missing


def test_the_map_of_what_tests_share_names_every_module() -> None:
    folder = ROOT / "tests" / "support"
    there = {file.stem for file in folder.glob("*.py")} - {"__init__"}
    there |= {f"{file.parent.name}/" for file in folder.glob("*/__init__.py")}
    named = re.findall(r"^- `(.+?)`: ", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(there) == sorted(named)


@pytest.mark.parametrize("file", REQUIREMENT_FILES)
def test_requirements_name_no_address(file: str) -> None:
    assert [] == ADDRESS.findall((ROOT / file).read_text())


@pytest.mark.parametrize(
    "line",
    [
        "--index-url x",
        "# at https://example.org",
        "a @ file:x",
        "#   compile /home/me/in.txt",
        "--find-links x",
    ],
)
def test_an_address_is_found(line: str) -> None:
    assert ADDRESS.search(line)


@pytest.mark.parametrize("file", REQUIREMENT_FILES)
def test_every_requirement_is_pinned_with_a_hash(file: str) -> None:
    lines = logical_lines((ROOT / file).read_text())
    assert lines
    assert [] == [line for line in lines if not HASH.search(line)]
    assert all(pinned_version(pin) for pin in pins(file).values())


def test_runtime_dependencies_are_pinned() -> None:
    assert [] == unsatisfied(pyproject()["project"]["dependencies"], pins("requirements.txt"))


def test_tools_and_build_backend_are_pinned() -> None:
    project = pyproject()
    wanted = project["dependency-groups"]["dev"] + project["build-system"]["requires"]
    assert [] == unsatisfied(wanted, pins("requirements-dev.txt"))


def test_developers_use_the_same_versions_as_users() -> None:
    developers, users = pins("requirements-dev.txt"), pins("requirements.txt")
    assert {n: str(pin.specifier) for n, pin in users.items()} == {n: str(developers[n].specifier) for n in users}


def test_the_version_is_in_one_place() -> None:
    project = pyproject()
    assert ["version"] == project["project"]["dynamic"]
    assert "version" not in project["project"]
    text = (ROOT / project["tool"]["hatch"]["version"]["path"]).read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found is not None
    assert maar.__version__ == found[1] == installed_version("maar")


MENTION = re.compile(r"(?:maar[:-]|maar-image-|version )(\d+\.\d+\.\d+)\b")


def test_every_mention_of_the_version_is_of_this_one() -> None:
    """A release changes src/maar/__init__.py; this names the files that a person must change too."""
    files = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(p for p in (ROOT / "deploy").rglob("*") if p.is_file()),
    ]
    found = {str(file.relative_to(ROOT)): set(MENTION.findall(file.read_text())) for file in files}
    assert {"README.md", "docs/image.md", "deploy/3-deployment.yaml"} <= {file for file in found if found[file]}
    assert {} == {file: versions for file, versions in found.items() if versions - {maar.__version__}}


def test_the_changelog_has_this_version() -> None:
    sections = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    (first, undated), (version, date), *_ = sections
    assert ("Unreleased", "", maar.__version__) == (first, undated, version)
    assert date


@pytest.mark.parametrize("layer", ["model", "session", "plugins", "actions", "kube", "cli", "testing"])
def test_every_layer_has_a_docstring(layer: str) -> None:
    assert importlib.import_module(f"maar.{layer}").__doc__


def test_every_layer_on_disk_is_under_contract() -> None:
    contracts = {c["id"]: c for c in pyproject()["tool"]["importlinter"]["contracts"]}
    packages = {path.parent.name for path in (ROOT / "src/maar").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "src/maar").glob("[a-z]*.py")}
    on_disk = {f"maar.{name}" for name in packages | modules}
    assert set() == on_disk - set(contracts["layers"]["layers"])


def test_the_command_is_installed() -> None:
    (script,) = entry_points(group="console_scripts", name="maar")
    assert "maar.cli.main:main" == script.value


@pytest.mark.parametrize(
    ("target", "given"),
    [("soak", "MINUTES=45"), ("soak-shards", "MINUTES=3"), ("bench-writes", "MINUTES=3"), ("bench-live", "MINUTES=3")],
)
def test_the_length_of_long_runs_is_their_own(target: str, given: str) -> None:
    """Without MINUTES each has its own default: a default in the Makefile would be that of all targets."""

    def command(*variables: str) -> str:
        asked = ["make", "--dry-run", "--no-print-directory", target, *variables]
        return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[-1]

    assert "--minutes" not in command()
    assert f"--minutes {given.partition('=')[2]}" in command(given)
