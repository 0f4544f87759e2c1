"""Control characters in files and objects never reach a terminal or a log as they are."""

import json
import logging
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from rich.table import Table

from maar.cli.main import main
from maar.cli.support.logs import JsonLines, TextLines, tame_stray_records
from maar.cli.support.output import escaped, escaped_json
from maar.cli.support.printing import printed

EVIL = "a\x1b[31m\r\nb\x9b2J\u202ec\x7f\t\x00d"
SHOWN = r"a\x1b[31m\r\nb\u009b2J\u202ec\x7f\t\x00d"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def test_escaped_text_has_no_control_characters_and_keeps_the_rest() -> None:
    assert SHOWN == escaped(EVIL)
    assert "é 漢 ─ `x` \\n" == escaped("é 漢 ─ `x` \\n")
    assert "\\udcff" == escaped("\udcff")


def test_escaped_json_means_the_same() -> None:
    data = {"name": EVIL, "more": ["x"]}
    text = escaped_json(json.dumps(data, ensure_ascii=False, indent=2))
    assert data == json.loads(text)
    assert not RAW.search(text)


def test_cells_titles_and_parts_are_escaped() -> None:
    table = Table(EVIL, title=EVIL)
    table.add_row(EVIL)
    text = printed([EVIL, table])
    assert 4 == text.count(SHOWN)
    assert not RAW.search(text)


def manifest(name: str) -> str:
    """A gang that waits, in a namespace, with a queue and a message of that name."""
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": name, f"x{name}": 1},
        "spec": {"minMember": 1, "queue": name},
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    other = {"apiVersion": "x/v1", "kind": name}
    return yaml.safe_dump_all([group, node, other])


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, tuple[str, ...]]:
    """A command for each kind of text from a file."""
    (tmp_path / "objects.yaml").write_text(manifest(EVIL))
    (tmp_path / "bad.yaml").write_text(
        yaml.safe_dump({"apiVersion": "v1", "kind": "Node", "metadata": {"name": [EVIL]}})
    )
    (tmp_path / "jobs.json").write_text(json.dumps([{"name": EVIL, "min": 9}]))
    (tmp_path / "wrong.json").write_text(json.dumps([{"name": "a", EVIL: 9}]))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"actions": f"allocate, {EVIL}"}))
    (tmp_path / "trace.jsonl").write_text(
        json.dumps({"name": EVIL, "submit": 0, "duration": 9, "workers": 1, "queue": EVIL}) + "\n"
    )
    (tmp_path / "trace.csv").write_text("name,submit,duration,workers\n" + f'"{EVIL}",0,{EVIL},1\n')
    at = {name: str(tmp_path / name) for name in os.listdir(tmp_path)}
    return {
        "plan": ("plan", at["objects.yaml"]),
        "plan json": ("plan", "-o", "json", at["objects.yaml"]),
        "plan bad": ("plan", at["bad.yaml"]),
        "plan missing": ("plan", f"/no/{EVIL.replace(chr(0), '')}"),
        "plan option": ("plan", f"--{EVIL}"),
        "allocate": ("allocate", at["jobs.json"], "--algorithm", "fifo", "--gpus", "1"),
        "allocate json": ("allocate", at["jobs.json"], "--algorithm", "fifo", "--gpus", "1", "-o", "json"),
        "allocate wrong": ("allocate", at["wrong.json"], "--algorithm", "fifo", "--gpus", "1"),
        "config": ("config", "check", at["config.yaml"]),
        "describe": ("trace", "describe", at["trace.jsonl"]),
        "describe json": ("trace", "describe", at["trace.jsonl"], "-o", "json"),
        "describe wrong": ("trace", "describe", at["trace.csv"]),
        "simulate": ("simulate", at["trace.jsonl"], "--nodes", "1", "--policy", "fifo", "--processes", "1"),
        "history": ("history", "--history", f"mysql://{EVIL}"),
        "unknown": (EVIL,),
    }


def test_no_command_prints_control_characters(hostile: dict[str, tuple[str, ...]]) -> None:
    quoted = set()
    for name, command in hostile.items():
        done = CliRunner().invoke(main, list(command))
        assert done.exit_code in (0, 1, 2), (name, done.output)
        assert not RAW.search(done.stdout + done.stderr), name
        if "x1b[31m" in done.output or "u001b[31m" in done.output:
            quoted.add(name)
    assert quoted >= {"plan", "plan json", "plan missing", "allocate", "allocate json", "config"}


def test_data_on_a_terminal_is_escaped_and_in_a_file_unchanged(hostile: dict[str, tuple[str, ...]]) -> None:
    command = [sys.executable, "-m", "maar.cli.main", "trace", "convert", hostile["describe"][2]]
    ours, theirs = pty.openpty()
    try:
        subprocess.run(command, stdout=theirs, check=True)
        os.close(theirs)
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
    assert SHOWN.replace("\\r\\n", "").replace("\\t", "")[:8] in shown
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    plain = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    assert b"\x1b" in plain.stdout


def record(message: str, error: Exception | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("maar.x", logging.WARNING, "", 1, "job `%s`", (message,), info)


def test_a_log_record_is_one_line_and_tracebacks_are_indented() -> None:
    lines = TextLines("%(levelname)s %(message)s")
    forged = "x\n2030-01-01 00:00:00 INFO maar bound everything"
    assert rf"WARNING job `{escaped(forged)}`" == lines.format(record(forged))
    first, *rest = lines.format(record(EVIL, ValueError(forged))).split("\n")
    assert f"WARNING job `{SHOWN}`" == first
    assert rest
    assert all(line.startswith("    ") for line in rest)
    for formatter in (lines, JsonLines()):
        assert not RAW.search(formatter.format(record(EVIL, ValueError(EVIL))))
    assert f"job `{EVIL}`" == json.loads(JsonLines().format(record(EVIL)))["message"]
    assert "\n" not in JsonLines().format(record(EVIL, ValueError(forged)))


def test_warnings_without_a_handler_are_escaped_too(capsys: pytest.CaptureFixture[str]) -> None:
    tame_stray_records()
    assert logging.lastResort is not None
    logging.lastResort.handle(record(EVIL))
    assert f"WARNING: job `{SHOWN}`\n" == capsys.readouterr().err
