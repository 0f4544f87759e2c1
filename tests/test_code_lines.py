"""The tool that counts lines of code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools.code_lines import code_lines, counted

TOOL = Path(__file__).parents[1] / "tools" / "code_lines.py"
MODULE = '''"""A module.

Its docstring has several lines.
"""

import os  # counts, in spite of the comment

# a comment
LIMIT = 3
"""What follows an attribute is a docstring too."""


class Thing:
    """A class."""

    def method(self):
        """A method."""
        text = """
        one

        # two
        """
        return (
            os,
            text,
        )
'''


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("\n\n# only a comment\n", 0),
        ('"""Only a docstring."""\n', 0),
        ("x = 1; y = 2\n", 1),
        ('f("""\none\n\ntwo\n""")\n', 4),
        ("x = (\n    1,\n    # a comment\n    2,\n)\n", 4),
        (MODULE, 12),
    ],
)
def test_only_code_counts(text: str, lines: int) -> None:
    assert lines == code_lines(text)


def test_lines_are_summed_by_folder(tmp_path: Path) -> None:
    for name in ("maar/top.py", "maar/kube/a.py", "maar/kube/write/b.py", "maar/model/c.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('"""Doc."""\n\nx = 1\n')
    assert {"total": 4, "files": 4, "folders": {".": 1, "kube": 2, "model": 1}} == counted(tmp_path)


def test_the_command_counts_these_sources() -> None:
    found = json.loads(subprocess.run([sys.executable, TOOL], stdout=subprocess.PIPE, check=True).stdout)
    assert found["total"] == sum(found["folders"].values())
    assert found["folders"]["session"] > 0
