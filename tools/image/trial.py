"""Try a built image before anybody else does: it starts in time, decides an example, and fits the bars of check.py."""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass

from tools.image.archive import Archive
from tools.image.check import faults
from tools.image.container import Container, container
from tools.image.targets import ROOT, Target, native

import maar

MOST_SECONDS = 2.0
"""The time that the project allows for a start of the image. A start computes all the time, so its CPU time is
measured: that is the time on an idle machine, whatever else runs."""
NOWHERE = "/etc/maar/no-kubeconfig"
START = ("run", "--history=none", f"--kubeconfig={NOWHERE}")
"""What `maar run` does until it looks for its API server: it imports everything and reads the configuration."""
NO_CLUSTER = 3
"""The exit code if it finds none."""
EXAMPLE = ROOT / "examples/1-gang-that-fits.yaml"


@dataclass(frozen=True, slots=True)
class Trial:
    """What was found out about an image: `faults` is empty for a good one."""

    archive: Archive
    components: int
    seconds: float
    faults: list[str]


def judge(target: Target) -> Trial:
    """Check and run the image of a target; writes its bill of materials beside it."""
    archive = Archive(target.archive)
    found, bill = faults(archive)
    target.sbom.write_text(json.dumps(bill, indent=1) + "\n")
    with container(archive) as running:
        version(running, found)
        seconds = start(running, found, times=3 if target == native() else 1)
        plan(running, found)
    if target == native() and seconds > MOST_SECONDS:
        found.append(f"too slow: a start of `maar run` takes {seconds:.1f} s of CPU, at most {MOST_SECONDS} s")
    return Trial(archive, len(bill.get("components", [])), seconds, found)


def version(running: Container, found: list[str]) -> None:
    done = running.run("--version")
    if (0, f"maar {maar.__version__}\n") != (done.returncode, done.stdout):
        found.append(f"`maar --version` fails: {(done.stderr or done.stdout).strip()}")


def start(running: Container, found: list[str], times: int) -> float:
    """The seconds of CPU of the quickest start."""
    taken = []
    for _ in range(times):
        began = used()
        done = running.run(*START)
        taken.append(used() - began)
        if done.returncode != NO_CLUSTER or NOWHERE not in done.stderr:
            found.append(f"`maar run` does not start: {(done.stderr or done.stdout).strip()}")
            break
    return min(taken)


def used() -> float:
    """The seconds of CPU of all programs that this one has run so far, with those that they ran."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def plan(running: Container, found: list[str]) -> None:
    """A decision imports everything that comes as compiled code for a processor."""
    done = running.run("plan", f"/etc/maar/{EXAMPLE.name}", files={EXAMPLE.name: EXAMPLE.read_bytes()})
    if done.returncode:
        found.append(f"`maar plan` fails: {(done.stderr or done.stdout).strip()}")
