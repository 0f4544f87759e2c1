"""What tests share: waiting for a condition, and the line about data that a clone does not have."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.patience import until, wait_until

ROOT = Path(__file__).parent.parent


def test_waiting_returns_what_the_condition_found() -> None:
    looks = iter([[], [], ["there"]])

    async def found() -> list[str]:
        return next(looks)

    assert ["there"] == asyncio.run(until(found))
    looks = iter([[], ["there"]])
    assert ["there"] == wait_until(lambda: next(looks))
    looks = iter([[], ["there"]])
    assert ["there"] == asyncio.run(until(lambda: next(looks)))


def test_a_timeout_says_what_was_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"^not within 0.01 s: the moon$"):
        wait_until(lambda: False, "the moon", 0.01)
    with pytest.raises(TimeoutError, match=r"^not within 0.01 s: the moon$"):
        asyncio.run(until(lambda: False, "the moon", 0.01))
    with pytest.raises(TimeoutError, match=r"^not within 0.01 s: wait_until\(lambda: 1 > 2, patience=0.01\)$"):
        wait_until(lambda: 1 > 2, patience=0.01)


def test_a_condition_that_hangs_is_given_up() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"^not within 0.01 s: an answer$"):
        asyncio.run(until(hangs, "an answer", 0.01))


def test_a_timeout_of_the_condition_itself_is_its_error() -> None:
    def asks() -> bool:
        raise TimeoutError("the server is slow")

    with pytest.raises(TimeoutError, match=r"^the server is slow$"):
        asyncio.run(until(asks))


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_names_the_tests_whose_data_is_not_there(tmp_path: Path, processes: str) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_terminal_summary\n")
    text = "from tests.support.shared import needs\n@needs('no/such/data')\ndef test_{0}(): pass\n"
    for name in ("first", "second"):
        (tmp_path / f"test_{name}.py").write_text(text.format(name))
    (tmp_path / "test_other.py").write_text(
        "import pytest\ndef test_runs(): pass\ndef test_skips(): pytest.skip('something else')\n"
    )
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(tmp_path), "-n", processes]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    env = {**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""}
    command += ["-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert 0 == run.returncode, run.stdout + run.stderr
    lines = [line for line in run.stdout.splitlines() if "../shared" in line]
    assert ["skipped without ../shared: 2 tests of test_first.py, test_second.py"] == lines
    assert "1 passed, 3 skipped" in run.stdout


@pytest.mark.slow
def test_real_parts_are_made_only_for_tests_that_need_them() -> None:
    def needed(*arguments: str) -> str:
        command = [sys.executable, "-m", "tests.needs", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert "" == needed("tests/session")
    assert "" == needed("-m", "not slow and not real", "tests/real/test_state.py")
    assert "real browser\n" == needed("tests/real/test_state.py")
    assert "real browser\n" == needed()


def test_ci_runs_the_fast_tests_before_image_and_node() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    stages = [line.partition("#")[0].split()[2:] for line in text.splitlines() if line.startswith("make ")]
    assert ["check", "test", "test-image", "test-node", "test"] == [stage[0] for stage in stages]
    assert "not slow and not real" in " ".join(stages[1])
