"""Write numbers of the code into the pages that quote them.

    python tools/shown_numbers.py

`QUOTES` says which words of which page have which numbers. `tests/test_docs.py` checks that each quote is found once
and has the number that the code has.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import NamedTuple

from maar import files, report
from maar.controller import main as run
from maar.controller import shadow
from maar.controller.loads import sources
from maar.controller.reporting import job_reports
from maar.controller.shards import membership
from maar.controller.snapshots import cache, isolation
from maar.controller.writing import publishing
from maar.elastic import steps
from maar.history import history, news, store
from maar.history import model as learned
from maar.kube.client import informer, reader
from maar.kube.kinds import elastic, jobset
from maar.kube.kinds import volcano_podgroup as policies
from maar.kube.read import elastic as templates
from maar.kube.read import facts, limits, shards, state, subgroups
from maar.kube.wire import annotations as known
from maar.kube.write import events, executor, patience
from maar.model import loads, text
from maar.shards import map as shard_map
from maar.shards import slots
from maar.web import authentication
from maar.web import limits as http
from maar.web.api import mirror, queries, question, recordings, writing
from maar.web.front import answers, routes
from maar.web.workers import pool

DOCS = Path(__file__).parents[1] / "docs"
NUMBER = r"(\d[\d.,]*\d|\d)"
KIB, MIB = 1024, 1024 * 1024

LEASE = run.LEASE_SECONDS
PATIENCE = patience.Patience()
PACE = informer.InformerPace()
HTTP = http.HttpLimits()
EVENTS = inspect.signature(events.EventWriter).parameters
SLOTS = inspect.signature(executor.Executor).parameters["in_flight"].default


class Quote(NamedTuple):
    """Words of a page with `{}` for each number, and the numbers."""

    page: str
    words: str
    numbers: tuple[float, ...]

    def pattern(self) -> re.Pattern[str]:
        parts = (r"\s+".join(map(re.escape, part.split(" "))) for part in self.words.split("{}"))
        return re.compile(NUMBER.join(parts))


def quote(page: str, words: str, *numbers: float) -> Quote:
    assert words.count("{}") == len(numbers), words
    return Quote(page, words, numbers)


def both(rate: http.Rate) -> tuple[float, float]:
    """Per second, and at once."""
    return rate.per_second, rate.burst


QUOTES = (
    # the lease, and the configuration
    quote("running.md", "Default {}. It renews after", LEASE),
    quote("running.md", "and gives up after {}/10", run.RENEWED * 10),
    quote("running.md", "If it cannot renew for {} s, it stops", LEASE * run.RENEWED),
    quote("running.md", "take over after {} s without a renewal", LEASE),
    quote("running.md", "regular files of at most {} MiB", files.LARGEST / MIB),
    quote("running.md", "Every {} s, and when it stops, it says how the two differ", shadow.SAY_EVERY),
    quote("from-volcano.md", "Every {} s it compares its decisions", shadow.SAY_EVERY),
    quote("operations.md", "it stops by itself after {} s without a renewal", LEASE * run.RENEWED),
    quote("shards.md", "has taken for {}/15 of the lease time", membership.PATIENCE * 15),
    # reading and writing
    quote("kubernetes-access.md", "is silent for {} s", PACE.stall),
    quote("kubernetes-access.md", "lists again, in pages of {}", reader.PAGE),
    quote("kubernetes-access.md", "is not found for {} s", PACE.gone),
    quote("kubernetes-access.md", "retries after {} s, then doubles the delay up to {} s", PACE.first, PACE.most),
    quote("kubernetes-access.md", "retries for {} s, then gives up", PATIENCE.disruption),
    quote("kubernetes-access.md", "no other write succeeds for {} s", PATIENCE.unanswered),
    quote("fences.md", "ends it after {} s, and not before {} s", PATIENCE.disruption, PATIENCE.unanswered),
    quote("writes.md", "One object has {} writes of events at once", events.PER_OBJECT),
    quote("writes.md", "all together {}, then {} a second", events.AT_ONCE, events.PER_SECOND),
    quote("writes.md", "If more than {} events wait", EVENTS["most_waiting"].default),
    quote("writes.md", "written at most every {} minutes", EVENTS["window"].default / 60),
    quote("writes.md", "`maar-state` have {} slots", SLOTS),
    quote("writes.md", "up to {} changes at once", job_reports.AT_ONCE),
    quote("writes.md", "One fact may have {} kB", facts.MOST_OF_ONE / 1000),
    quote("writes.md", "all facts of one queue or node {} kB", facts.MOST_ON_AN_OBJECT / 1000),
    quote("writes.md", "writes at most {} kB into the ConfigMap", state.MOST_BYTES / 1000),
    quote("writes.md", "again within {} minutes if it is deleted", publishing.AGAIN / 60),
    quote("load.md", "request may take {} s", sources.SECONDS),
    quote("load.md", "a response may have {} MB", sources.LARGEST / MIB),
    quote("load.md", "until they are {} minutes old", loads.MAX_AGE / 60),
    # objects
    quote("invalid-objects.md", "pod with more than {} host ports", limits.MOST),
    quote("invalid-objects.md", "selector has more than {} labels and values", limits.MOST),
    quote("invalid-objects.md", "JobSet with more than {} replicated jobs", jobset.MOST_PARTS),
    quote("invalid-objects.md", "elastic job with more than {} different templates", templates.MOST_SHAPES),
    quote("invalid-objects.md", "If more than {} are the cause", isolation.MOST),
    quote("invalid-objects.md", "`left out for {} minutes: ...`", cache.SET_ASIDE / 60),
    quote("security-inputs.md", "at most {} workers", elastic.MOST),
    quote("security-inputs.md", "Maar parses has at most {} characters", known.LONGEST_VALUE),
    quote(
        "security-inputs.md", "at most {} policies and {} subgroups", policies.MOST_POLICIES, subgroups.MOST_SUBGROUPS
    ),
    quote(
        "security.md",
        "at most about {} characters, and the name of a queue {}",
        text.LONGEST_MESSAGE,
        text.LONGEST_NAME,
    ),
    quote("shards.md", "{} to {}, numbered from 0", 1, slots.MOST_SHARDS),
    quote("shards.md", "each of {} slots", slots.SLOTS),
    quote("shards.md", "at most {} together, and {} MB", shard_map.MOST_ENTRIES, shards.MOST_BYTES / 1e6),
    # history
    quote("history.md", "the newest {} rows of each table", store.ROWS),
    quote("history.md", "the newest {} measurements of a job", store.PER_JOB),
    quote("history.md", "reads the newest {} rows of each", news.FIRST),
    quote("history.md", "retries every {} to {} s", *history.RETRY),
    quote("history.md", "The queue holds {} records", history.QUEUE),
    quote("history.md", "A stop waits {} s for the queue", history.LAST),
    quote(
        "history.md", "newest {} epochs on that number of workers, at most {} of them", learned.RECENT, learned.OF_ONE
    ),
    quote("history.md", "A fit with an error above {} %", steps.USABLE * 100),
    quote("reports.md", "with timeouts of {} s", report.TIMEOUT),
    quote("reports.md", "sends the newest {} reports again", report.WAITING),
    quote("reports.md", "for up to {} sizes", report.SIZES),
    quote("reports.md", "A list of up to {} such objects", routes.MANY),
    quote("reports.md", "all together {} and {}.", HTTP.measurements.per_second, HTTP.reads.per_second),
    quote("reports.md", "it has more than {} MiB", HTTP.body / MIB),
    quote("reports.md", "may send {} unknown tokens", HTTP.bad_tokens_each.burst),
    quote("reports.md", "returns the newest {} measurements", history.SHOWN),
    # HTTP of the scheduler
    quote("metrics.md", "connections to one address of Maar | {} |", HTTP.connections),
    quote("metrics.md", "connections of one client | {} |", HTTP.connections_each),
    quote("metrics.md", "requests a second of one client | {}, {} at once |", *both(HTTP.requests_each)),
    quote("metrics.md", "requests a second of all clients | {} |", HTTP.requests.per_second),
    quote("metrics.md", "| {} KiB, {} KiB, {} MiB |", HTTP.head / KIB, answers.LONGEST_TARGET / KIB, HTTP.body / MIB),
    quote("metrics.md", "requests that are arriving | {} MiB |", HTTP.bodies / MIB),
    quote("metrics.md", "an unused connection | {} s |", HTTP.idle_seconds),
    quote("metrics.md", "has not answered for {} s", HTTP.hung_seconds),
    quote("reports.md", "may send {} measurements a second ({} at once)", *both(HTTP.measurements_each)),
    quote("reports.md", "believes the answer for {} s", authentication.SECONDS),
    # HTTP of `maar web`
    quote("web.md", "| connections | {} |", HTTP.connections),
    quote("web.md", "connections of one address | {} |", HTTP.connections_each),
    quote("web.md", "requests a second of one address | {}, {} at once |", *both(HTTP.requests_each)),
    quote("web.md", "requests a second of one user | {}, {} at once |", *both(HTTP.user_requests)),
    quote("web.md", "body of a request | {} MiB, {} s |", HTTP.body / MIB, HTTP.body_seconds),
    quote("web.md", "being answered | {} MiB, {} MiB of one user |", HTTP.bodies / MIB, HTTP.bodies_each / MIB),
    quote("web.md", "questions at once | {}, of different users |", HTTP.computing_at_once),
    quote("web.md", "questions that wait | {}, {} of one user |", HTTP.computing_waiting, HTTP.computing_waiting_each),
    quote("web.md", "| {} s at once, {} s more each second |", HTTP.computing.burst, HTTP.computing.per_second),
    quote("web.md", "memory of a question | {} MiB of address space |", pool.MEMORY / MIB),
    quote("web.md", "time for a question | {} s |", pool.SECONDS),
    quote("web.md", "edits of a question | {} |", question.MOST_EDITS),
    quote("web.md", "controllers would create | {} |", question.MOST_PODS),
    quote("web.md", "namespaces of manifests that are asked for | {} |", question.MOST_NAMESPACES),
    quote("web.md", "manifests of one submission | {} |", writing.MOST),
    quote("web.md", "writes at once | {}, {} of one user |", HTTP.writes, HTTP.writes_each),
    quote("web.md", "| streams | {}, {} of one user |", HTTP.streams, HTTP.streams_each),
    quote("web.md", "items of one answer | {} |", queries.MOST),
    quote("api.md", "A question may have {} edits, {} pods", question.MOST_EDITS, question.MOST_PODS),
    quote("api.md", "each user has {} seconds at once", HTTP.computing.burst),
    quote("api.md", "The newest {} cycles are kept", recordings.CYCLES),
    quote("api.md", "A cycle with more than {} MiB", recordings.FRAME / MIB),
    quote("api.md", "The last {} that would move something are kept", mirror.KEPT),
)


def shown(number: float) -> str:
    """A number as pages have it: `20,000`, `13.5`."""
    return f"{round(number, 6):,.6f}".rstrip("0").rstrip(".")


def refreshed(text: str, quoted: Quote) -> str:
    """The page with the numbers of the code; `ValueError` unless the words are there once."""
    found = list(quoted.pattern().finditer(text))
    if len(found) != 1:
        raise ValueError(f"{quoted.page}: expected once, found {len(found)} times: `{quoted.words}`")
    (match,) = found
    for group in range(len(quoted.numbers), 0, -1):
        begin, end = match.span(group)
        text = text[:begin] + shown(quoted.numbers[group - 1]) + text[end:]
    return text


def main() -> None:
    """Refresh every page, and print the words whose numbers changed."""
    for quoted in QUOTES:
        page = DOCS / quoted.page
        before = page.read_text(encoding="utf-8")
        after = refreshed(before, quoted)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"changed: {quoted.page}: {quoted.words}")


if __name__ == "__main__":
    main()
