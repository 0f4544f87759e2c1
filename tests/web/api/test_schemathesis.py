"""Schemathesis makes requests from the OpenAPI document, valid ones and invalid ones, and checks each answer by it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.patience import PATIENCE
from tests.support.web import MINE, THEIRS, USER, Web, webbing
from tests.web.api.test_api import scene
from tests.web.api.test_openapi import FREE
from tests.web.api.test_recordings import recorded

pytestmark = pytest.mark.slow

EXAMPLES = 8
"""Random requests for each operation, besides those at the edges of each value: about 20 s in all."""
CONFIG = """
# A question about a cluster may have the right form and still name what does not exist.
[[operations]]
include-path = "/api/v1/what-if"
checks.positive_data_acceptance.expected-statuses = [200, 403, 422]
"""


def test_it_finds_nothing(tmp_path: Path) -> None:
    folder, report = tmp_path / "recordings", tmp_path / "report.har"
    folder.mkdir()
    recorded(folder / "week.rec")
    (tmp_path / "schemathesis.toml").write_text(CONFIG)

    async def story(web: Web) -> None:
        before = await web.cluster.versions()
        user = await web.as_user(USER)
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "schemathesis.toml")]
        command += [
            "run",
            f"{web.base}/api/v1/openapi.json",
            "--header",
            f"Authorization: {user.headers['Authorization']}",
        ]
        # The stream does not end; its events are compared with the document elsewhere.
        command += ["--exclude-path", "/api/v1/stream", "--max-examples", str(EXAMPLES), "--generation-deterministic"]
        command += ["--phases", "examples,coverage,fuzzing"]
        command += ["--report", "har", "--report-har-path", str(report), "--no-color"]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert 0 == process.returncode, out.decode()
        assert before == await web.cluster.versions(), "something was written"
        assert ["runs", "waits"] == [job["name"] for job in (await user.get("/jobs"))["items"]], "it still serves"

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, limits=FREE, recordings=folder) as web:
            await scene(web)
            await story(web)

    asyncio.run(main())
    entries: list[Any] = json.loads(report.read_text())["log"]["entries"]
    statuses = {entry["response"]["status"] for entry in entries}
    assert {200, 400, 401, 404, 405, 415, 422} <= statuses
    assert statuses <= {200, 400, 401, 403, 404, 405, 413, 415, 422}
    bodies = [entry["response"]["content"].get("text", "") for entry in entries]
    assert any(MINE in body for body in bodies)
    assert not any(THEIRS in body for body in bodies), "a name from a namespace that the user may not see"
