"""What tenants write in annotations reaches no object, event, terminal or log with a control character in it."""

from __future__ import annotations

import asyncio
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.live import NAMESPACE, Live, scheduling, tell

from maar.cli.support.logs import JsonLines, TextLines
from maar.controller.settings.settings import Settings
from maar.kube.wire.api_resources import EVENTS, PODS
from maar.model.reasons import Never, Reason
from maar.model.text import LONGEST_MESSAGE, quoted

EVIL = "a\x1b[2Jb\r\nc\u202ed\u2066e\u200bf\x9bg\x7fh\u2028i\x00"
SHOWN = r"a\x1b[2Jb\r\nc\u202ed\u2066e\u200bf\u009bg\x7fh\u2028i\x00"
SENT = EVIL.replace("\x00", "")
"""What the API server stores of it."""
KEYS = (
    *("volcano.sh/queue-name", "scheduling.k8s.io/group-name", "pod_group", "pod_group_size", "volcano.sh/task-spec"),
    *("maar.dev/max-runtime", "maar.dev/topology-key", "maar.dev/last-checkpoint-time", "maar.dev/hold"),
    *("volcano.sh/sla-waiting-time", "volcano.sh/cooldown-time", "maar.dev/pool", "maar.dev/category"),
)


def test_every_control_character_becomes_visible() -> None:
    assert SHOWN == quoted(EVIL)
    assert ["ab c"] == [quoted("ab c")]
    assert r"\U000e0041" == quoted("\U000e0041")
    assert ("x" * 2001, "x" * 1997 + "...") == ("x" * 2001, quoted("x" * 2001))


def test_reasons_quote_what_tenants_write() -> None:
    """Every condition, event, page and command shows reasons."""
    reason = Reason("p", "Code", f"queue `{EVIL}`", lasting=EVIL, never=Never("Code", EVIL + "x" * 100_000))
    assert (f"queue `{SHOWN}`", SHOWN) == (reason.message, reason.lasting)
    assert reason.words == reason.on_objects
    assert reason.words.startswith(SHOWN)
    assert len(reason.words) <= LONGEST_MESSAGE + len(SHOWN)


def test_a_log_line_cannot_be_forged() -> None:
    record = logging.LogRecord("maar", logging.WARNING, "", 0, "pod `%s`: held", (EVIL,), None)
    text = TextLines("%(levelname)s %(message)s").format(record)
    assert f"WARNING pod `{SHOWN}`: held" == text
    assert JsonLines().format(record).isprintable()


def _texts(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in _texts(one, f"{path}.{key}")]
    if isinstance(value, list):
        return [found for one in value for found in _texts(one, f"{path}[]")]
    return [(path, value)] if isinstance(value, str) else []


def _in_a_terminal(*command: str) -> str:
    """What a command writes to a terminal."""
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "maar.cli.main", *command], stdout=other, stderr=other, stdin=other
    )
    os.close(other)
    shown = b""
    while True:
        try:
            more = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    process.wait()
    os.close(main)
    return shown.decode()


def test_nothing_of_it_reaches_objects_events_logs_or_terminals(
    kubeconfig: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(cluster: Live) -> None:
        async with scheduling(cluster, Settings(pod_events=True)):
            for i, key in enumerate(KEYS):
                await cluster.pod(f"evil-{i}", gpu=100, metadata={"annotations": {key: SENT}})
            template = {
                "metadata": {"annotations": {"volcano.sh/queue-name": SENT}},
                "spec": {
                    "schedulerName": "maar",
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i"}],
                },
            }
            bounds = {"maar.dev/min-workers": SENT, "maar.dev/max-workers": "4"}
            job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": True, "template": template}}
            metadata = {"name": "evil", "namespace": NAMESPACE, "annotations": bounds}
            await cluster.create(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", {**job, "metadata": metadata})
            await cluster.group("evil", 1, queue=SENT)
            await cluster.pod("evil-group", metadata={"annotations": {"scheduling.k8s.io/group-name": "evil"}})
            await cluster.until(lambda pods: all(p.message for p in pods), "each pod says why it waits")

            async def said() -> bool:
                events = (await cluster.get(EVENTS.path(NAMESPACE)))["items"]
                return len({event["regarding"]["name"] for event in events}) > len(KEYS)

            await cluster.eventually(said, "each job has an event")
            for name in ("jobs", "why"):
                more = (f"{NAMESPACE}/evil-0",) if name == "why" else ()
                shown = await asyncio.to_thread(_in_a_terminal, name, *more, "--kubeconfig", str(kubeconfig))
                assert "evil" in shown, shown
                for mark in ("\x1b[2J", "\u202e", "\u2066", "\u200b", "\x9b", "\x7f", "\u2028"):
                    assert mark not in shown, (name, mark)
            wrong = []
            for path in (PODS.path(NAMESPACE), EVENTS.path(NAMESPACE), f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"):
                for item in (await cluster.get(path))["items"]:
                    item.get("metadata", {}).pop("managedFields", None)
                    wrong += [found for found in _texts(item) if found[1] != SENT and not found[1].isprintable()]
            assert [] == wrong
            quotes = [p for p in await cluster.pods() if r"\x1b[2J" in p.message]
            assert len(quotes) > 4, "messages quote what she wrote"

    tell(kubeconfig, story)
    lines = [TextLines("%(message)s").format(record) for record in caplog.records]
    assert [] == [line for line in lines if not line.replace("\n    ", "").isprintable()]
