"""Build the documentation site into build/site: `make docs`, or `python -m tools.docsite [SOURCE TARGET]`.

Sphinx reads the pages where they are; conf.py beside this says how. Every warning is an error, such as a link without
a target.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main(source: Path = ROOT, target: Path = ROOT / "build" / "site") -> int:
    """Sphinx's exit code. What it has parsed is kept beside the site, so that the next build is faster."""
    cache = target.with_name(f"{target.name}-parsed")
    strict = ["--fail-on-warning", "--quiet", "--builder", "html"]
    return build_main([*strict, "--conf-dir", str(HERE), "--doctree-dir", str(cache), str(source), str(target)])


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
