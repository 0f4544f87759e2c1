"""Runs e2e.test against one cluster: the specs of scheduling alone, those of controllers several at a time."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.outcomes import Outcome, exactly, read

SEED = 1
"""Ginkgo shuffles the specs; all runs have the same order."""
NOT_HERE = r"\[Disruptive\]|\[Slow\]|\[Flaky\]|\[Feature:"
"""Specs of controllers that are left out: restarts of daemons, and alpha features."""
NEED_CONTAINERS = (
    r"Job .*([Ff]ail|successPolicy)"  # exit codes
    r"|StatefulSet .*(identity|orphans|deadlock|updates|replacement|PVC|evicted)"  # probes, commands, storage
    r"|Deployment .*proportional scaling|Daemon set .*rollback"  # an image that does not exist
    r"|UnhealthyPodEvictionPolicy"  # pods that are not ready
)
"""Specs that wait for minutes for what containers do, or pass only now and then on simulated nodes, with any scheduler.
Others that need containers fail at once."""
SERIAL = r"\[Serial\]"
LEFT_OUT = f"{NOT_HERE}|{NEED_CONTAINERS}"
NOT_TOGETHER = f"{LEFT_OUT}|{SERIAL}"


@dataclass(frozen=True, slots=True)
class Group:
    """Specs that one process runs one after another."""

    name: str
    focus: str
    skip: str = "^$"

    def has(self, spec: str) -> bool:
        return bool(re.search(self.focus, spec)) and not re.search(self.skip, spec)


GROUPS: tuple[tuple[Group, ...], ...] = (
    (Group("scheduling", r"\[sig-scheduling\]"),),
    (Group("serial", rf"\[sig-apps\].*{SERIAL}", LEFT_OUT),),
    (
        Group("deployments", r"\[sig-apps\] (Deployment|ReplicaSet|ReplicationController)", NOT_TOGETHER),
        Group("jobs", r"\[sig-apps\] Job", NOT_TOGETHER),
        Group("statefulsets", r"\[sig-apps\] StatefulSet", NOT_TOGETHER),
        Group("budgets", r"\[sig-apps\] DisruptionController", NOT_TOGETHER),
    ),
)
"""The groups of one line run at the same time. Those of scheduling, and other serial ones, have the cluster alone."""


class NoReport(Exception):
    """e2e.test ended without a report."""


@dataclass(frozen=True, slots=True)
class Suite:
    """e2e.test, and how many minutes each of its processes may take."""

    binary: Path
    minutes: float

    def specs(self, folder: Path) -> list[str]:
        """The names of all specs of the groups."""
        with self._started(folder, "specs", "--ginkgo.dry-run", r"--ginkgo.focus=\[sig-") as outcomes:
            return sorted(spec for spec in outcomes() if any(group.has(spec) for line in GROUPS for group in line))

    def run(self, kubeconfig: Path, folder: Path, specs: Sequence[str]) -> dict[str, Outcome]:
        """The outcomes of these specs. Logs and reports stay in the folder."""
        found: dict[str, Outcome] = {}
        for line in GROUPS:
            with ExitStack() as running:
                ends: list[Callable[[], dict[str, Outcome]]] = []
                for group in line:
                    if chosen := [spec for spec in specs if group.has(spec)]:
                        options = f"--kubeconfig={kubeconfig}", f"--ginkgo.focus={exactly(chosen)}"
                        ends.append(running.enter_context(self._started(folder, group.name, *options)))
                for end in ends:
                    found |= end()
        return {spec: outcome for spec, outcome in found.items() if spec in specs}

    @contextmanager
    def _started(self, folder: Path, name: str, *options: str) -> Iterator[Callable[[], dict[str, Outcome]]]:
        """A process of e2e.test. What it yields waits for its end, and reads its report."""
        report, log = folder / f"{name}.json", folder / f"{name}.log"
        command: list[str | Path] = [self.binary, "--provider=skeleton", "--dump-logs-on-failure=false"]
        command += [f"--ginkgo.seed={SEED}", f"--ginkgo.timeout={self.minutes:g}m", "--ginkgo.no-color"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, f"--ginkgo.json-report={report}", *options],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

        def outcomes() -> dict[str, Outcome]:
            process.wait()  # its exit code says only whether a spec failed
            if not report.is_file():
                last = log.read_text(errors="replace").splitlines()[-20:]
                raise NoReport("\n".join([f"no report of `{name}`:", *last]))
            return read(report)

        try:
            yield outcomes
        finally:
            process.kill()
            process.wait()
