"""`maar demo`: the real scheduler on an embedded API server, with a story of about a minute. Needs no cluster."""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import signal
import sys
import time
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from maar.cli.support.exits import Exit
from maar.cli.support.output import escaped
from maar.cli.support.printing import SafeConsole
from maar.cli.support.trace_options import Finite, duration
from maar.demo.score import scoreboard

if TYPE_CHECKING:
    from maar.demo.box import Box

STYLES = (
    (r"^──.*$", "bold cyan"),
    (r"» .*$", "yellow"),
    (r"^ {12}\(.*\)$", "dim"),
    (r"^ +\d+\.\d s ", "dim"),
    (r"^ {10}[ A-Zx.]+$", "green"),
)
"""Colours for a terminal; the text alone has the full meaning."""

GUTTER = re.compile(r" *\d+\.\d s  | {12}» | {10}[a-z]+(?:[ -][a-z]+)*  +| *")
"""The start of a line, before its text: a time, a mark, the name of a number, or nothing."""


@click.command()
@click.option(
    "--keep/--no-keep", default=None,
    help="Keep the cluster and its page after the story, until Ctrl-C. Default: on a terminal, unless --for is given.",
)  # fmt: skip
@click.option("--page/--no-page", default=True, help="Serve the page of `maar web` on this host. Default: yes.")
@click.option(
    "--for", "seconds", callback=duration, metavar="DURATION",
    help="Stop after this time, such as 20s or 2m; a plain number is in seconds. Default: no limit.",
)  # fmt: skip
@click.option(
    "--speed", type=Finite(0.1), default=1.0, show_default=True, metavar="X",
    help="Speed of the story: 2 halves the pauses for reading.",
)  # fmt: skip
def demo(keep: bool | None, page: bool, seconds: float | None, speed: float) -> None:
    """Show Maar on an embedded cluster: 16 nodes with 8 GPUs each, two queues, and one minute of events."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # for terminals without box-drawing characters
    if keep is None:
        keep = seconds is None and sys.stdin.isatty() and sys.stdout.isatty()
    raise click.exceptions.Exit(asyncio.run(_demo(keep, page, seconds, speed)))


async def _demo(keep: bool, page: bool, seconds: float | None, speed: float) -> Exit:
    console = SafeConsole(soft_wrap=True)
    say = Sayer(console)
    say(f"Maar on a cluster in a box (ends {'by itself after the story' if not keep else 'on Ctrl-C'})")
    # Imported late, so that the first line appears at once.
    from maar.demo.box import NODE_COUNT, NODE_GPUS, QUEUES, Box, Broken
    from maar.demo.picture import picture
    from maar.demo.story import Story

    ends = None if seconds is None else time.monotonic() + seconds
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    box = Box()
    story: asyncio.Task[None] | None = None
    try:
        await box.open(page=page)
        if page:
            await _tell_page(say, box, stopped, ends)
        say(f"an API server in this process: {box.server.url}; its nodes are pretended, the scheduler is not")
        say(f"{NODE_COUNT} nodes of {NODE_GPUS} GPUs (one column each below), queues {' and '.join(QUEUES)}")
        say("")
        for line in picture(box.columns()):
            say(f"{'':10}{line}")
        story = asyncio.create_task(Story(box, say, speed).play())
        whole = await _ended(story, stopped, ends)
        if not whole:
            say("")
            say("interrupted" if stopped.is_set() else f"time is up: {seconds:g} s")
        problems = box.ledger.problems() if whole else [f"over-committed: {moment}" for moment in box.ledger.over]
        _score(say, box, problems)
        if box.page.ended and not stopped.is_set():
            say(f"the page is gone: {box.page.ended}")
        if keep and whole and not stopped.is_set():
            say("")
            say("still running; look around:")
            if box.page.address and not box.page.ended:
                say(f"  {box.page.address}")
            say(f"  kubectl --kubeconfig {box.kubeconfig} get pods -o wide")
            say(
                "Ctrl-C ends it"
                if ends is None
                else f"it ends in {max(ends - time.monotonic(), 0):.0f} s, or on Ctrl-C"
            )
            await _ended(asyncio.create_task(asyncio.Event().wait()), stopped, ends)
            return Exit.PROBLEM if problems else Exit.OK
        return Exit.PROBLEM if problems else Exit.INTERRUPTED if stopped.is_set() else Exit.OK
    except Broken as broken:
        say("")
        say(f"BROKEN: {broken}")
        return Exit.PROBLEM
    finally:
        if story is not None:
            story.cancel()
            await asyncio.gather(story, return_exceptions=True)
        await box.close()


async def _tell_page(say: Sayer, box: Box, stopped: asyncio.Event, ends: float | None) -> None:
    """Print the address of the page. A page that does not start is no reason to stop."""
    if await _ended(asyncio.create_task(box.page.serving()), stopped, ends):
        address, problem = box.page.address, box.page.ended or "it has not started in time"
        say(f"the page: {address} (every GPU, each queue, why each job waits)" if address else f"no page: {problem}")


async def _ended(work: asyncio.Task[object], stopped: asyncio.Event, ends: float | None) -> bool:
    """Wait for the work, a signal or the time limit. Returns whether the work is done."""
    stopping = asyncio.create_task(stopped.wait())
    timeout = None if ends is None else max(ends - time.monotonic(), 0.0)
    await asyncio.wait({work, stopping}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if work.done():
        work.result()
        return True
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    return False


def _score(say: Sayer, box: Box, problems: list[str]) -> None:
    say("")
    say(f"── Score, from every write that the API server made {'─' * 24}")
    box.ledger.let_time_pass(time.monotonic())
    for name, value in scoreboard(box.ledger):
        say(f"{'':10}{name:<15}{value}")
    for problem in problems:
        say(f"BROKEN: {problem}")


class Sayer:
    """Prints lines: with colours and wrapped on a terminal, else unchanged."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, line: str) -> None:
        text = Text(escaped(line))
        for pattern, style in STYLES:
            text.highlight_regex(pattern, style)
        for part in self._within_width(text):
            self._console.print(part)
        self._console.file.flush()

    def _within_width(self, text: Text) -> list[Text]:
        """Wrap a long line, with an indent to its first word."""
        width = self._console.width
        found = GUTTER.match(text.plain)
        gutter = found.end() if found else 0
        if not self._console.is_terminal or text.cell_len <= width or gutter > width // 2:
            return [text]
        head, words = text.divide([gutter]) if gutter else (Text(), text)
        first, *rest = words.wrap(self._console, width - gutter)
        return [head + first, *(Text(" " * gutter) + line for line in rest)]
