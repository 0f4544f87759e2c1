"""The history beside a running scheduler: it learns, and it never blocks, whatever the database does."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import create_engine
from tests.support.patience import PATIENCE, until
from tests.support.postgres import Postgres

from maar.history import schema
from maar.history.address import read_address
from maar.history.errors import Unreachable
from maar.history.estimates import Estimates
from maar.history.history import History
from maar.history.records import Event, EventKind, FinishedRun, Measurement
from maar.lengths.runtimes import Traits


def run(address: str, story: Callable[[History], Awaitable[None]], **options: float) -> None:
    async def main() -> None:
        history = History(address, **options)  # type: ignore[arg-type]
        history.start()
        try:
            await story(history)
        finally:
            await history.close()

    asyncio.run(main())


def epoch(workers: int, seconds: float, number: int = 0, **more: object) -> Measurement:
    fields = {"namespace": "team", "name": "resnet-7", "epoch": number, "workers": workers, "seconds": seconds}
    return msgspec.convert(fields | {"arrived": 1000.0 + number} | more, Measurement)


def event(kind: EventKind, at: float, **more: object) -> Event:
    return msgspec.convert({"namespace": "team", "name": "resnet-7", "kind": kind, "at": at} | more, Event)


async def ready(history: History) -> None:
    await until(lambda: not history.problem)


def test_what_is_told_is_learnt_and_stays(address: str) -> None:
    async def tell(history: History) -> None:
        await ready(history)
        history.record(event(EventKind.SUBMITTED, 1.0, uid="u", accelerator="a100"))
        assert "" == history.add([epoch(1, 100, 0, total_epochs=10), epoch(2, 50, 1)])
        await history.settled()
        told(history)
        (first, _) = await history.measurements_of("team", "resnet-7")
        assert ("u", "team/resnet", "a100") == (first.uid, first.category, first.accelerator)

    async def again(history: History) -> None:
        await ready(history)
        told(history)
        history.add([epoch(2, 50, 2)])
        await history.settled()
        assert "a100" == (await history.measurements_of("team", "resnet-7"))[2].accelerator

    def told(history: History) -> None:
        assert {("team/resnet", "a100"): {1: 1.0, 2: 2.0}} == history.model.points()
        assert 800 == history.remaining("team/resnet-7")
        assert [0, 1, 2, 3] == Estimates(history.model).curve(("team/resnet", "a100")).values(3).tolist()
        assert history.restart("team/resnet", "a100") is None

    run(address, tell)
    run(address, again)


def test_run_times_are_learned_from_finished_jobs_and_stay(address: str) -> None:
    def ran(number: int) -> FinishedRun:
        name, uid = f"bert-{number}", f"u-{number}"
        return FinishedRun("team", name, uid, "team", "bert", "red", 0.0, 1.0, 101.0, 100.0, how="completed", gpus=8)

    def estimated(history: History) -> int:
        found = history.run_times.estimate(Traits("team", "bert", 8))
        return 0 if found is None else found.runs

    async def tell(history: History) -> None:
        await ready(history)
        for number in range(12):
            history.finished(ran(number))
        await history.settled()
        assert 12 == estimated(history)

    async def again(history: History) -> None:
        await ready(history)
        assert 12 == estimated(history)

    run(address, tell)
    run(address, again)


def test_what_is_told_twice_is_heard_once(address: str) -> None:
    async def story(history: History) -> None:
        await ready(history)
        for _ in range(3):
            history.add([epoch(1, 100)])
            await history.settled()
        assert 1 == history.model.count(("team/resnet", ""))

    run(address, story, refresh=0.01)


def test_what_others_write_is_heard(address: str) -> None:
    async def story(history: History) -> None:
        other = History(address)
        other.start()
        await ready(other)
        other.add([epoch(1, 100)])
        await until(lambda: bool(history.model.points()))
        await other.close()

    run(address, story, refresh=0.01)


def test_what_only_reads_stores_nothing(address: str) -> None:
    """As a shadow does, also beside a Maar of an older version: it neither makes nor changes tables."""

    async def read(history: History) -> None:
        await until(lambda: "not open" in history.problem)
        other = History(address)
        other.start()
        other.record(event(EventKind.SUBMITTED, 1.0, uid="u"))
        await ready(other)
        await other.close()
        await ready(history)
        assert "this Maar only reads the history" == history.add([epoch(1, 100)])
        assert [] == await history.measurements_of("team", "resnet-7")

    async def main() -> None:
        history = History(address, write=False)
        history.start()
        try:
            await read(history)
        finally:
            await history.close()

    asyncio.run(main())


def test_a_job_says_only_once_who_it_is(tmp_path: Path) -> None:
    async def story(history: History) -> None:
        await ready(history)
        history.record(event(EventKind.SUBMITTED, 1.0, uid="u", category="vision", accelerator="a100"))
        history.record(event(EventKind.STARTED, 2.0, after=2))
        history.add([epoch(2, 50, 0, arrived=100.0)])
        history.record(event(EventKind.ENDED, 200.0))
        assert history.last("team/resnet-7") is None
        history.add([epoch(2, 50, 1, arrived=220.0)])  # it began before the end, and is late
        history.add([epoch(2, 50, 2, arrived=300.0)])
        history.record(event(EventKind.SUBMITTED, 400.0, uid="v"))
        history.add([epoch(2, 50, 3, arrived=500.0)])
        await history.settled()
        known = ("u", "team/vision", "a100")
        assert [known, known, ("", "team/resnet", ""), ("v", "team/resnet", "")] == await stored(history)

    run(str(tmp_path / "h.db"), story)


async def stored(history: History) -> list[tuple[str, str, str]]:
    """What is stored about the job of each measurement."""
    found = await history.measurements_of("team", "resnet-7")
    return [(m.uid, m.category, m.accelerator) for m in found]


def test_a_replica_learns_which_job_it_is_before_it_stores_a_measurement(address: str) -> None:
    """A report may reach a standby just after the leader has seen the job."""

    async def story(standby: History) -> None:
        await ready(standby)
        leader = History(address)
        leader.start()
        await ready(leader)
        leader.record(event(EventKind.SUBMITTED, 1.0, uid="u", category="vision", accelerator="a100"))
        await leader.settled()
        await leader.close()
        assert "" == standby.add([epoch(2, 50, 0)])
        await standby.settled()
        assert [("u", "team/vision", "a100")] == await stored(standby)
        assert [("team/vision", "a100")] == standby.model.measured()

    run(address, story, refresh=3600.0)


def test_none_is_no_history() -> None:
    async def story(history: History) -> None:
        history.record(event(EventKind.SUBMITTED, 1.0))
        assert "no history configured" == history.add([epoch(1, 100)])
        assert {} == history.model.points()
        assert history.remaining("team/resnet-7") is None

    run("none", story)


def test_a_database_that_is_not_there_is_said_once_and_costs_nobody_time(caplog: pytest.LogCaptureFixture) -> None:
    async def story(history: History) -> None:
        await until(lambda: "127.0.0.1" in history.problem)
        start = time.monotonic()
        for n in range(1000):
            history.record(event(EventKind.RESIZED, float(n), before=1, after=2))
        problem = history.add([epoch(1, 100)])
        assert time.monotonic() - start < 10
        assert problem.startswith("postgresql://me:***@127.0.0.1:1/maar: ")
        with pytest.raises(Unreachable):
            await history.measurements_of("team", "resnet-7")

    with caplog.at_level(logging.INFO, "maar.history"):
        run("postgresql://me:secret@127.0.0.1:1/maar", story)
    warnings = [record.getMessage() for record in caplog.records if "continuing without it" in record.getMessage()]
    assert 1 == len(warnings)
    assert "secret" not in caplog.text
    assert "history: stopped with 1000 records not written" in caplog.messages


def test_what_waits_while_the_database_is_gone_is_written_when_it_comes(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_text("in the way")

    async def story(history: History) -> None:
        await until(lambda: "place" in history.problem)
        history.record(event(EventKind.SUBMITTED, 1.0))
        place.unlink()
        await history.settled()
        assert "" == history.problem
        assert "" == history.add([epoch(1, 100)])
        await history.settled()
        assert history.model.points()

    run(str(place / "h.db"), story)


def test_too_much_is_refused_or_lost_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story(history: History) -> None:
        await ready(history)
        assert "queue of measurements is full" == history.add([epoch(1, 100, n) for n in range(4)])
        for n in range(5):
            history.record(event(EventKind.RESIZED, float(n)))
        await history.settled()
        assert "" == history.add([epoch(1, 100, n) for n in range(3)])

    run(str(tmp_path / "h.db"), story, queue=3)
    assert 1 == sum("accounting events are lost" in message for message in caplog.messages)


def test_a_record_that_no_database_takes_does_not_hold_up_the_others(address: str) -> None:
    async def story(history: History) -> None:
        await ready(history)
        history.add([epoch(1, 100, 0), epoch(1, 100, 2**70), epoch(1, 100, 2)])
        await history.settled()
        assert [0, 2] == [m.epoch for m in await history.measurements_of("team", "resnet-7")]

    run(address, story)


@pytest.mark.real
def test_a_database_that_hangs_holds_up_nobody_and_what_was_taken_arrives(postgres: Postgres) -> None:
    async def story(history: History) -> None:
        await ready(history)
        postgres.pause()
        try:
            assert "" == history.add([epoch(1, 100, 0)])
            await until(lambda: "no answer for 0.1 s" in history.problem)
            assert "no answer" in history.add([epoch(1, 100, 1)])
            start = time.monotonic()
            with pytest.raises(Unreachable):
                await history.measurements_of("team", "resnet-7")
            assert time.monotonic() - start < 10
        finally:
            postgres.resume()
        await history.settled()
        await ready(history)
        assert [0] == [m.epoch for m in await history.measurements_of("team", "resnet-7")]

    run(postgres.new_database(), story, slow=0.1)


@pytest.mark.real
def test_a_stop_does_not_wait_for_a_database_that_hangs(postgres: Postgres) -> None:
    took = 0.0

    async def story(history: History) -> None:
        nonlocal took
        await ready(history)
        postgres.pause()
        history.add([epoch(1, 100, 0)])
        start = time.monotonic()
        await history.close()
        took = time.monotonic() - start

    try:
        run(postgres.new_database(), story)
    finally:
        postgres.resume()
    assert 1 < took < 20
    for thread in threading.enumerate():
        if thread.name == "maar-history":
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_tables_that_are_dropped_are_made_again(address: str) -> None:
    async def story(history: History) -> None:
        await ready(history)
        engine = create_engine(read_address(address))
        with engine.begin() as connection:
            schema.metadata.drop_all(connection)
        engine.dispose()
        history.record(event(EventKind.SUBMITTED, 1.0))
        history.add([epoch(1, 100)])
        await history.settled()
        await ready(history)
        assert 1 == len(await history.measurements_of("team", "resnet-7"))

    run(address, story)


def test_a_closed_history_takes_nothing(address: str) -> None:
    async def story(history: History) -> None:
        await ready(history)
        await history.close()
        assert "the history is closed" == history.add([epoch(1, 100)])

    run(address, story)


@pytest.mark.real
def test_it_goes_on_after_the_server_hung_up(postgres: Postgres) -> None:
    async def story(history: History) -> None:
        await ready(history)
        history.add([epoch(1, 100, 0)])
        await history.settled()
        postgres.cut()
        await ready(history)
        assert "" == history.add([epoch(1, 100, 1)])
        await history.settled()
        await ready(history)
        assert 2 == len(await history.measurements_of("team", "resnet-7"))

    run(postgres.new_database(), story)


def test_another_process_reads_the_events_of_a_job_and_creates_no_tables(address: str) -> None:
    async def read(reader: History) -> None:
        await until(lambda: "not answered" not in reader.problem)
        assert reader.problem, "there are no tables yet"
        with pytest.raises(Unreachable):
            await reader.events_of("team", "resnet-7")

        async def write(writer: History) -> None:
            await ready(writer)
            for kind, at in ((EventKind.SUBMITTED, 1.0), (EventKind.STARTED, 2.0)):
                writer.record(event(kind, at, after=4))
            writer.record(msgspec.structs.replace(event(EventKind.STARTED, 3.0), name="other"))
            await writer.settled()
            await ready(reader)
            told = await reader.events_of("team", "resnet-7")
            assert [(EventKind.SUBMITTED, 1.0), (EventKind.STARTED, 2.0)] == [(e.kind, e.at) for e in told]

        writer = History(address)
        writer.start()
        try:
            await write(writer)
        finally:
            await writer.close()

    run(address, read, write=False)
