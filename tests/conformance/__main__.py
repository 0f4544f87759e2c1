"""Runs Kubernetes' tests of scheduling with kube-scheduler and with Maar, and prints where they differ.

`make conformance`, or `python -m tests.conformance`. Each scheduler gets a new control plane and the same simulated
nodes (`nodes`, `stages.yaml`). kube-scheduler is the reference: what fails with it needs real containers, or something
else that simulated nodes lack, and does not count. The exit code is 1 if a spec that passes with kube-scheduler fails
with the profile `services`. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.conformance.nodes import nodes, system_pods
from tests.conformance.outcomes import FAILED, SKIPPED, Outcome, Outcomes, passed, short, told, worse
from tests.conformance.suite import Suite
from tests.support.real.cluster import RealCluster
from tests.support.real.parts import CHECKOUT, available, folders
from tests.support.real.processes import free_port

from maar.config.file import PROFILES, profile_text

REFERENCE = "kube-scheduler"
BAR = "services"
"""The profile that must pass every spec that passes with the reference."""
STAGES = Path(__file__).with_name("stages.yaml")
Start = Callable[[RealCluster], None]


def maar(profile: str) -> Start:
    """Starts Maar as the default scheduler, with a profile."""

    def start(cluster: RealCluster) -> None:
        config = cluster.folder / "maar.yaml"
        config.write_text(profile_text(profile))
        command: list[str | Path] = [sys.executable, "-m", "maar.cli.main", "run", "--kubeconfig", cluster.kubeconfig]
        command += ["--config", config, "--history", "none", "--scheduler-name", "default-scheduler"]
        cluster.processes.start("maar", [*command, "--http-address", "127.0.0.1", "--http-port", str(free_port())])

    return start


def outcomes(start: Start, suite: Suite, folder: Path, specs: list[str]) -> dict[str, Outcome]:
    """The outcomes of the specs with one scheduler, on a cluster of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with RealCluster() as cluster:
        cluster.apply(nodes())
        cluster.start_kwok(STAGES)
        cluster.start_controller_manager()
        for pod, on in system_pods():
            cluster.apply([pod])
            cluster.bind(pod["metadata"]["name"], on, "kube-system")
        start(cluster)
        try:
            return suite.run(cluster.kubeconfig, folder, specs)
        finally:
            for log in cluster.folder.glob("*.log"):
                shutil.copy(log, folder / f"process-{log.name}")


def counts(found: Outcomes) -> str:
    states = [outcome.state for outcome in found.values()]
    return f"{len(passed(found))} passed, {states.count(FAILED)} failed, {states.count(SKIPPED)} skipped"


def run(suite: Suite, folder: Path, match: str, profiles: list[str]) -> dict[str, dict[str, Outcome]]:
    """The outcomes with each scheduler, all at the same time: the tests mostly wait."""
    starts = {REFERENCE: RealCluster.start_scheduler, **{profile: maar(profile) for profile in profiles}}
    specs = [spec for spec in suite.specs(folder) if re.search(match, spec)]

    def timed(name: str) -> dict[str, Outcome]:
        begun = time.monotonic()
        found = outcomes(starts[name], suite, folder / name, specs)
        minutes = (time.monotonic() - begun) / 60
        print(f"{name}: {len(specs)} specs in {minutes:.0f} minutes: {counts(found)}", flush=True)
        return found

    with ThreadPoolExecutor(len(starts)) as pool:
        return dict(zip(starts, pool.map(timed, starts), strict=True))


def show(found: dict[str, dict[str, Outcome]]) -> None:
    """Print what Maar does not pass, and what simulated nodes cannot do."""
    reference = found[REFERENCE]
    for name, its in found.items():
        if name != REFERENCE:
            print(f"\npass with {REFERENCE}, not with Maar `{name}`: {len(worse(reference, its))}")
            for spec in worse(reference, its):
                print(f"  {short(spec)}\n    {told(its.get(spec))}")
    print(f"\ndo not pass with {REFERENCE} on simulated nodes, so they do not count:")
    for spec, outcome in sorted(reference.items()):
        if spec not in passed(reference):
            print(f"  {short(spec)}\n    {told(outcome)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--match", default="", metavar="REGEX", help="only specs with such a name")
    parser.add_argument("--minutes", type=float, default=40.0, help="limit for each process of e2e.test")
    parser.add_argument("--profiles", nargs="+", default=sorted(PROFILES, key=lambda name: name != BAR), metavar="NAME")
    parser.add_argument("--folder", type=Path, default=CHECKOUT / "build" / "conformance", help="for logs and reports")
    given = parser.parse_args()
    if not (found_parts := available("etcd", "kubernetes", "kwok", "node", "e2e")):
        sys.exit(found_parts.why_not)
    given.folder.mkdir(parents=True, exist_ok=True)
    suite = Suite(folders()["e2e"] / "e2e.test", given.minutes)
    found = run(suite, given.folder.absolute(), given.match, given.profiles)
    show(found)
    reference = found.pop(REFERENCE)
    lost = {name: worse(reference, its) for name, its in found.items()}
    told_counts = {
        name: {"passed": len(passed(reference)) - len(lost[name]), "not_passed": lost[name]}
        for name, its in found.items()
    }
    print(json.dumps({REFERENCE: {"specs": len(reference), "passed": len(passed(reference))}, **told_counts}))
    return 1 if lost.get(BAR) else 0


if __name__ == "__main__":
    sys.exit(main())
