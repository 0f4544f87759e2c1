"""Render the plain manifests in `deploy/` from the chart: `make manifests`.

`deploy/chart` has the only templates. What `kubectl apply -f deploy` sends is the same, rendered with the values below,
so that the two cannot differ. It also copies into the charts what has its home elsewhere: Maar's configurations and
the CRDs. `--check` writes nothing and fails if a file would change. Needs helm: `tools/controlplane/build.py helm`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
CHART, CRDS = DEPLOY / "chart", DEPLOY / "chart-crds"
BUILD = ROOT / "tools" / "controlplane" / "build.py"

NAME, NAMESPACE = "maar", "maar-system"
VALUES = {"namespace.create": "true", "web.tls.source": "secret"}
AGGREGATED = {**VALUES, "web.aggregated.enabled": "true", "web.aggregated.caBundle": "PEM"}
"""The certificate is that of the reader, who fills in its authority too."""

FILES = {
    "1-rights.yaml": ("namespace.yaml", "priorityclass.yaml", "rights.yaml"),
    "2-configuration.yaml": ("configuration.yaml",),
    "3-deployment.yaml": ("deployment.yaml",),
    "4-service.yaml": ("service.yaml",),
    "5-protection.yaml": ("protection.yaml",),
    "web/web.yaml": ("web.yaml",),
}
"""The manifests in `deploy/`, and the templates that each is made of."""

HEAD = "# Rendered from deploy/chart by `make manifests`: change it there.\n"


ABOUT_AGGREGATED = """\
#
# The aggregated API of `maar web`, optional: `maar jobs --server aggregated` and the other questions go through the API
# server, with every kind of credentials that it accepts, client certificates too. Apply it after `deploy/web`, and:
#
#   1. The certificate in the Secret `maar-web` must also be for `maar-web-aggregated.maar-system.svc`.
#   2. Write the authority that signed it into `caBundle` below (base64 of its PEM).
#   3. Add `--aggregated-port=8444` to the arguments of the Deployment `maar-web`.
"""
"""What the chart does by itself, for those who do it by hand."""


def helm() -> Path:
    """Helm, built if it is missing."""
    subprocess.run([sys.executable, BUILD, "helm"], check=True, stdout=subprocess.DEVNULL)
    asked = subprocess.run([sys.executable, BUILD, "--where"], check=True, capture_output=True, text=True)
    return Path(json.loads(asked.stdout)["helm"]["folder"]) / "helm"


def rendered(program: Path, values: dict[str, str]) -> dict[str, str]:
    """The text of every template of the chart, by file name."""
    settings = [f"--set={key}={value}" for key, value in values.items()]
    command = [str(program), "template", NAME, str(CHART), f"--namespace={NAMESPACE}", *settings]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"helm template failed:\n{done.stderr}")
    return by_template(done.stdout)


def by_template(text: str) -> dict[str, str]:
    """What `helm template` printed, by the file name of the template. Comments and the order in a template stay."""
    found: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        if source := re.match(r"# Source: [^/]+/templates/(\S+)\n", document):
            clean = re.sub(r"[ \t]+$", "", document[source.end() :], flags=re.MULTILINE)
            found.setdefault(source[1], []).append(clean.strip("\n") + "\n")
    return {name: "---\n".join(documents) for name, documents in found.items()}


def wanted(program: Path) -> Iterator[tuple[Path, str]]:
    """Every generated file with its text."""
    for name, profile in (("maar", "default"), ("services", "services")):
        yield CHART / "files" / f"{name}.yaml", (ROOT / "src" / "maar" / f"{profile}.yaml").read_text()
    for file in sorted((DEPLOY / "crds").glob("*.yaml")):
        yield CRDS / "definitions" / file.name, file.read_text()
    templates = rendered(program, VALUES)
    for name, parts in FILES.items():
        yield DEPLOY / name, HEAD + "---\n".join(templates[part] for part in parts)
    aggregated = rendered(program, AGGREGATED)["web-aggregated.yaml"].replace('caBundle: "PEM"', 'caBundle: ""')
    yield DEPLOY / "web" / "aggregated" / "aggregated.yaml", HEAD + ABOUT_AGGREGATED + aggregated


def main() -> int:
    is_check = "--check" in sys.argv[1:]
    changed = []
    for file, text in wanted(helm()):
        if not file.is_file() or file.read_text() != text:
            changed.append(str(file.relative_to(ROOT)))
            if not is_check:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
    for name in changed:
        print(f"{'differs from the chart' if is_check else 'written'}: {name}")
    return int(is_check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
