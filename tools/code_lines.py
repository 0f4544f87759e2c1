"""How many lines of code the Python sources have: no blank lines, no comments, no docstrings.

    python tools/code_lines.py                     # of this checkout
    python tools/code_lines.py --src OTHER/src     # of another one

It prints JSON: the total, the number of files, and the lines of each folder of the package. A string that stands alone
as a statement is a docstring, also below an attribute. A line that has code and a comment is a line of code.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """The lines of code of one module."""
    written = text.splitlines()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(bool(written[line - 1].strip()) for line in lines)


def counted(source: Path) -> dict[str, object]:
    """The numbers of all modules below a folder of sources."""
    files = sorted(source.rglob("*.py"))
    folders: Counter[str] = Counter()
    for file in files:
        inside = file.relative_to(source).parts[1:-1]
        folders[inside[0] if inside else "."] += code_lines(file.read_text(encoding="utf-8"))
    return {"total": folders.total(), "files": len(files), "folders": dict(sorted(folders.items()))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=ROOT / "src", help="the sources of the version")
    print(json.dumps(counted(parser.parse_args().src), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
