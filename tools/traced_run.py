"""How far one decision travels through the sources: the files that it passes, and the switches between files.

    python tools/traced_run.py                     # of this checkout
    python tools/traced_run.py --src OTHER/src     # of another one

It traces one `decide(Snapshot(cluster), default configuration, now)` for each of three small scenes: a gang that fits,
a gang that preempts another one, and an elastic job that grows. Each scene was decided once before, so that what is
made once in a process does not count. It prints JSON, for each scene:

- `files`: files of `src/maar` in which a function was called. A file that is only imported does not count.
- `switches`: calls of a function of `src/maar` from another file of `src/maar`. A call through code of a library (a
  sort with a key, a cached property) counts as one by the file of Maar that called the library. Returns do not count.
- `calls`: all calls of functions of `src/maar`. A generator counts each time it goes on, a comprehension each time it
  runs (in Python 3.12 and later: not at all).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
NODES = 4


@dataclass
class Trace:
    """What one run passed; while it is open, it counts."""

    folder: str
    """Only code below this folder counts."""
    without: tuple[str, ...] = ()
    """Folders inside it that do not count: they are as a library."""
    files: set[str] = field(default_factory=set)
    switches: int = 0
    calls: int = 0
    hops: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of files with a call from the first to the second."""
    passed: list[tuple[str, str]] = field(default_factory=list)
    """File and function of each call, in order."""

    def __enter__(self) -> Trace:
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not self._counts(file):
            return
        self.calls += 1
        self.files.add(file)
        self.passed.append((file, frame.f_code.co_qualname))
        caller = self._caller(frame)
        if caller is not None and caller != file:
            self.switches += 1
            self.hops.add((caller, file))

    def _counts(self, file: str) -> bool:
        return file.startswith(self.folder) and not file.startswith(self.without)

    def _caller(self, frame: FrameType) -> str | None:
        """The file of the nearest caller inside the folder."""
        at = frame.f_back
        while at is not None and not self._counts(at.f_code.co_filename):
            at = at.f_back
        return None if at is None else at.f_code.co_filename


@dataclass(frozen=True)
class Scene:
    """A cluster, and what its plan must do for the scene to be the one that its name says."""

    cluster: Any
    shows: Callable[[Any], bool]


def scenes() -> dict[str, Scene]:
    """The three runs that are traced."""
    from maar.testing.builders import cluster, elastic, gang, node

    nodes = [node(f"n{i}", gpu=8) for i in range(NODES)]
    names = [of.name for of in nodes]
    low, high = gang("low", NODES, gpu=8, on=names, priority=1), gang("high", NODES, gpu=8, priority=10)
    return {
        "fits": Scene(cluster(nodes, gang("gang", NODES, gpu=8)), lambda plan: len(plan.bind) == NODES),
        "preempts": Scene(cluster(nodes, low, high), lambda plan: len(plan.evict) == NODES),
        "grows": Scene(cluster(nodes, elastic("job", 1, 8, on=names[:1])), lambda plan: len(plan.resize) == 1),
    }


def traced() -> dict[str, dict[str, int]]:
    """The numbers of each scene, with the `maar` that this process imports."""
    import maar
    from maar.config.file import default_config
    from maar.decide import decide
    from maar.model.snapshot import Snapshot
    from maar.registry import catalog

    config, folder, found = default_config(catalog()), f"{Path(maar.__file__).parent}{os.sep}", {}
    for name, scene in scenes().items():
        decide(Snapshot(scene.cluster), config, 0.0)
        with Trace(folder) as trace:
            plan = decide(Snapshot(scene.cluster), config, 0.0)
        assert scene.shows(plan), f"{name}: not what it should show: {plan}"
        found[name] = {"files": len(trace.files), "switches": trace.switches, "calls": trace.calls}
    return found


def environment(src: Path) -> dict[str, str]:
    """The environment of a process that imports the Maar in `src`, and this checkout's tools."""
    return {**os.environ, "PYTHONPATH": f"{src.resolve()}{os.pathsep}{ROOT}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the sources of the version")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(traced(), indent=2))
        return 0
    asked = [sys.executable, "-P", "-m", "tools.traced_run", "--inside"]
    return subprocess.run(asked, env=environment(given.src), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
