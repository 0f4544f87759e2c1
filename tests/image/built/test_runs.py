"""The image runs as the chart runs it: any user, nothing writable but /tmp, no rights, no network but loopback."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.image.archive import Archive
from tools.image.check import LABELS, faults
from tools.image.container import Container
from tools.image.targets import NAME, native
from tools.image.trial import MOST_SECONDS, start

import maar

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.yaml"))
PYTHON = ["python3", "-c"]


def answer(running: Container, program: str) -> Any:
    """What a program in the image prints, as JSON."""
    done = running.run(f"import json, os, sys\n{program}", entry=PYTHON)
    assert (0, "") == (done.returncode, done.stderr)
    return json.loads(done.stdout)


def test_it_has_its_name_and_its_labels(archive: Archive) -> None:
    assert NAME == archive.name
    assert f"localhost/maar:{maar.__version__}" == NAME
    labels = archive.settings["Labels"]
    assert {f"org.opencontainers.image.{name}" for name in LABELS} <= labels.keys()
    assert "Apache-2.0" == labels["org.opencontainers.image.licenses"]


def test_it_has_no_faults(archive: Archive) -> None:
    assert [] == faults(archive)[0]


def test_an_upgrade_downloads_little(archive: Archive) -> None:
    """The base and the dependencies are layers of their own, which nodes have already."""
    sizes = archive.layers
    assert 3 == len(sizes)
    assert sizes[-1] < 10_000_000 < sizes[1]


def test_it_decides_as_the_checkout_does(running: Container) -> None:
    arguments = ["plan", "--cycles", "2", "--now", "2026-11-01T10:00:00Z"]
    for example in EXAMPLES[:3]:
        inside = running.run(*arguments, f"/etc/maar/{example.name}", files={example.name: example.read_bytes()})
        outside = subprocess.run(
            [Path(sys.executable).with_name("maar"), *arguments, example], capture_output=True, text=True, check=True
        )
        assert (0, "", outside.stdout) == (inside.returncode, inside.stderr, inside.stdout)


def test_a_start_takes_some_time_and_not_too_much(running: Container) -> None:
    found: list[str] = []
    seconds = start(running, found, times=3)
    assert [] == found
    assert 0.3 < seconds <= MOST_SECONDS, "Python alone, with numpy, takes 0.3 s"


def test_the_demo_runs_without_a_network(running: Container) -> None:
    done = running.run("demo", "--for", "20s", "--no-page")
    assert 0 == done.returncode, done.stderr
    assert "Maar" in done.stdout


def test_its_user_has_no_rights(running: Container) -> None:
    program = "print(json.dumps([os.getuid(), os.getgid(), open('/proc/self/status').read()]))"
    user, group, status = answer(running, program)
    assert (65532, 65532) == (user, group)
    assert "CapEff:\t0000000000000000\n" in status


def test_nothing_is_writable_but_tmp(running: Container) -> None:
    program = """
def writable(folder):
    try:
        open(f"{folder}/new", "w").close()
    except OSError:
        return False
    return True
print(json.dumps([folder for folder, _, _ in os.walk("/") if not folder.startswith("/proc") and writable(folder)]))
"""
    assert ["/tmp"] == answer(running, program)


@pytest.mark.parametrize("module", ["pip", "ensurepip", "setuptools", "wheel"])
def test_nothing_can_be_installed(module: str, running: Container) -> None:
    done = running.run("-m", module, entry=["python3"])
    assert (1, True) == (done.returncode, f"No module named {module}" in done.stderr)


def test_history_and_tls_have_what_they_need(running: Container) -> None:
    program = """
import psycopg, sqlite3, ssl
print(json.dumps([psycopg.pq.__impl__, len(ssl.create_default_context().get_ca_certs()) > 100]))
"""
    assert ["binary", True] == answer(running, program)


def test_modules_are_compiled(running: Container) -> None:
    """On a read-only file system, a module without bytecode is compiled at each start."""
    program = """
import maar.cli.main, maar.decide, maar.controller.main, scipy.optimize
found = [m.__spec__ for m in sys.modules.values() if getattr(m, "__spec__", None)]
files = [s for s in found if s.cached and (s.origin or "").endswith(".py")]
assert len(files) > 500, len(files)
print(json.dumps([s.name for s in files if not os.path.exists(s.cached)]))
"""
    assert [] == answer(running, program)


def test_the_bill_lists_what_is_installed(archive: Archive, running: Container) -> None:
    bill = json.loads(native().sbom.read_text())
    assert faults(archive)[1] == bill
    program = """
import importlib.metadata, re
names = [d.metadata["Name"] for d in importlib.metadata.distributions()]
print(json.dumps(sorted(re.sub("[-_.]+", "-", name).lower() for name in names)))
"""
    listed = [each["name"] for each in bill["components"] if each["purl"].startswith("pkg:pypi/")]
    assert answer(running, program) == sorted(listed)
    assert {"maar", "numpy", "psycopg-binary"} < set(listed)
    assert {"libc6", "python3.11-minimal"} < {each["name"] for each in bill["components"]}
