"""What is fuzzed: how inputs are made, and what must hold for each."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner
from hypothesis import strategies as st
from tests.fuzz.cluster import check_objects
from tests.fuzz.mutations import mutated_bytes, mutated_trees
from tests.fuzz.samples import SAMPLES

from maar.cli.main import main
from maar.config.file import ConfigError, default_text, read_config
from maar.controller.settings.brake_file import read_brakes
from maar.controller.settings.config_file import text_of
from maar.history.estimates import Estimates
from maar.history.history import History
from maar.registry import catalog
from maar.web.front.answers import RequestRefused
from maar.web.front.routes import reports_in
from maar.web.measurements import measurements_in
from maar.web.messages import Post

ROOT = Path(__file__).parents[2]
BRAKES = b"paused: false\nperMinute: 20\nqueuesOff: [production]\nresizesPaused: false\nresizesPerMinute: 20\n"
FILES = sorted(ROOT.glob("examples/*.yaml"))
TRACES = sorted(ROOT.glob("examples/traces/*"))


AT_ONCE = 8
"""Broken objects in one cluster."""


@st.composite
def objects(draw: st.DrawFn) -> tuple[int, bytes]:
    """A mutated object: the number of its sample, and its bytes."""
    number = draw(st.integers(0, len(SAMPLES) - 1))
    return number, draw(mutated_trees(SAMPLES[number]))


@st.composite
def wire_bytes(draw: st.DrawFn) -> tuple[int, bytes]:
    """The bytes of an object, cut or changed."""
    number = draw(st.integers(0, len(SAMPLES) - 1))
    return number, draw(mutated_bytes(msgspec.json.encode(SAMPLES[number])))


def _check_config(text: bytes) -> None:
    for lenient in (False, True):
        with contextlib.suppress(ConfigError):
            read_config(text_of(text, "config.yaml"), "config.yaml", catalog(), lenient)
    with contextlib.suppress(ConfigError):
        read_brakes(text, "brakes.yaml")


def _command(example: tuple[list[str], str, bytes]) -> None:
    """A command on a file ends with a result or an error, never with a traceback."""
    arguments, name, data = example
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        result = CliRunner().invoke(main, [*arguments, str(path)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2, 3), result.output


@st.composite
def manifests(draw: st.DrawFn) -> tuple[list[str], str, bytes]:
    if draw(st.booleans()):
        items = draw(st.lists(st.sampled_from(SAMPLES), max_size=3))
        document = {"apiVersion": "v1", "kind": "List", "items": items}
        return ["plan", "--now", "0"], "objects.json", draw(mutated_trees(document))
    file = draw(st.sampled_from(FILES))
    return ["plan", "--now", "0"], "objects.yaml", draw(mutated_bytes(file.read_bytes()))


@st.composite
def traces(draw: st.DrawFn) -> tuple[list[str], str, bytes]:
    file = draw(st.sampled_from(TRACES))
    lines = file.read_bytes().splitlines(keepends=True)[:12]
    return ["trace", "describe"], f"trace{file.suffix}", draw(mutated_bytes(b"".join(lines)))


REPORT = {
    "epoch": 3,
    "seconds": 12.5,
    "workers": 4,
    "total_epochs": 90,
    "local_batch_size": 32,
    "global_batch_size": 128,
    "step_seconds": 0.1,
    "nodes": 1,
    "noise_scale": 512.0,
    "goodput": {"1": 10.0, "4": 30.0},
    "started": 1_700_000_000.0,
    "workers_at_start": 2,
    "resized": False,
    "category": "resnet",
    "accelerator": "a100",
}


@st.composite
def measurements(draw: st.DrawFn) -> bytes:
    many = [{**REPORT, "workers": draw(st.integers(1, 8)), "epoch": i} for i in range(draw(st.integers(1, 4)))]
    body: bytes = draw(mutated_trees(many))
    return body if draw(st.integers(0, 2)) else draw(mutated_bytes(body[:2000]))


def _check_measurements(body: bytes) -> None:
    """A request is refused with a reason, or what it says can be used."""
    try:
        reports = reports_in(body)
    except RequestRefused as refused:
        str(refused).encode()
        return
    history = History()
    for measurement in measurements_in(Post("ns", "job", reports), 1_700_000_100.0):
        history.model.feed(measurement)
    Estimates(history.model).curve(("ns/resnet", "a100")).values(100)
    for point in history.speeds("ns/job", "ns/resnet", "a100").points:
        assert 0 < point[1] < math.inf
    history.remaining("ns/job", "resnet", "a100", 90)


class Target(msgspec.Struct, frozen=True):
    name: str
    inputs: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    share: float
    """Of the time for all targets."""


TARGETS = (
    Target("objects", st.lists(objects(), min_size=1, max_size=AT_ONCE), check_objects, 0.55),
    Target("bytes", st.lists(wire_bytes(), min_size=1, max_size=AT_ONCE), check_objects, 0.15),
    Target("configuration", mutated_bytes(default_text().encode()) | mutated_bytes(BRAKES), _check_config, 0.08),
    Target("manifests", manifests(), _command, 0.1),
    Target("traces", traces(), _command, 0.07),
    Target("measurements", measurements(), _check_measurements, 0.05),
)
