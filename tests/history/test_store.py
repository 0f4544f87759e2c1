"""The store, on SQLite and on a real PostgreSQL: each record is returned once, and errors name the problem."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import create_engine, text
from tests.support.postgres import Postgres

from maar.history.address import read_address
from maar.history.errors import HistoryError, NewerSchema, Refused, Unreachable
from maar.history.records import Event, EventKind, Fate, FinishedRun, Measurement, Prediction
from maar.history.store import Store


def epoch(number: int, name: str = "resnet", **more: object) -> Measurement:
    return msgspec.convert(
        {"namespace": "team", "name": name, "epoch": number, "seconds": 10.5, "workers": 2, "arrived": 1e9} | more,
        Measurement,
    )


FULL = Measurement(
    *("team", "resnet", 3, 61.25, 4, 1.7e9 + 0.125),
    uid="u-1",
    category="vision",
    accelerator="a100",
    resized=True,
    local_batch_size=32,
    global_batch_size=2**40,
    total_epochs=90,
    step_seconds=0.0625,
    nodes=2,
    noise_scale=512.5,
    goodput='{"1":2.0}',
    started=1.7e9 - 61,
)
HAPPENED = Event(
    *("team", "resnet", EventKind.RESIZED, 1.7e9 + 0.5),
    uid="u-1",
    category="vision",
    accelerator="a100",
    before=2,
    after=4,
    gpus_per_worker=8,
    attained=123.5,
    how="",
)


def test_what_goes_in_comes_out(store: Store) -> None:
    store.write([FULL, HAPPENED, epoch(4)])
    first, second = store.measurements()
    assert msgspec.structs.replace(FULL, id=first.id) == first
    assert epoch(4) == msgspec.structs.replace(second, id=0)
    (event,) = store.events()
    assert HAPPENED == msgspec.structs.replace(event, id=0)
    assert [second] == store.measurements(first.id)
    assert [second] == store.measurements(newest=1)
    assert [first, second] == store.measurements_of("team", "resnet")
    assert [] == store.measurements_of("team", "other")


def test_told_twice_counts_once(store: Store) -> None:
    store.write([FULL, HAPPENED])
    store.write([FULL, HAPPENED, msgspec.structs.replace(FULL, arrived=FULL.arrived + 5), FULL])
    assert (1, 1) == (len(store.measurements()), len(store.events()))
    again = msgspec.structs.replace(FULL, started=FULL.started + 100)
    other_uid = msgspec.structs.replace(FULL, uid="u-2")
    store.write([again, other_uid])
    assert 3 == len(store.measurements())


def test_only_the_newest_of_a_job_are_kept(store: Store) -> None:
    for number in range(8):
        store.write([epoch(number), epoch(number, "other")] if number < 3 else [epoch(number)])
    assert [3, 4, 5, 6, 7] == [m.epoch for m in store.measurements_of("team", "resnet")]
    assert [6, 7] == [m.epoch for m in store.measurements_of("team", "resnet", newest=2)]
    assert [0, 1, 2] == [m.epoch for m in store.measurements_of("team", "other")]


def test_only_the_newest_of_all_are_kept(store: Store) -> None:
    store.write([epoch(0, f"job-{n}") for n in range(15)])
    store.write([epoch(0, f"job-{n}") for n in range(15, 30)])
    names = [m.name for m in store.measurements()]
    assert [f"job-{n}" for n in range(10, 30)] == names


def test_rows_that_no_database_takes_are_refused_and_nothing_of_them_stays(store: Store) -> None:
    huge = epoch(2**70)
    with pytest.raises(Refused):
        store.write([epoch(1), huge])
    assert [] == store.measurements()


def test_it_opens_again(store: Store, address: str) -> None:
    store.write([FULL])
    store.close()
    with pytest.raises(Unreachable, match="not open"):
        store.measurements()
    again = Store(read_address(address))
    assert again.open()
    assert 1 == len(again.measurements())
    again.close()


def test_two_that_start_at_once_make_the_tables_once(address: str) -> None:
    stores = [Store(read_address(address)) for _ in range(8)]
    start = threading.Barrier(len(stores))
    errors: list[BaseException] = []

    def begin(store: Store) -> None:
        start.wait()
        try:
            store.open()
            store.write([FULL])
        except HistoryError as error:
            errors.append(error)

    threads = [threading.Thread(target=begin, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == errors
    assert [1] * 8 == [len(store.measurements()) for store in stores]
    for store in stores:
        store.close()


def test_tables_of_a_newer_maar_are_refused(store: Store, address: str) -> None:
    engine = create_engine(read_address(address))
    with engine.begin() as connection:
        connection.execute(text("UPDATE maar_history SET version = 7"))
    engine.dispose()
    for write in (True, False):
        with pytest.raises(NewerSchema, match="table version 7, newest known version 4"):
            Store(read_address(address), write=write).open()


RUN = FinishedRun(
    *("team", "bert-1", "u-9", "team", "bert", "red"),
    submitted=900.0,
    started=1000.0,
    ended=1600.5,
    seconds=580.25,
    how="completed",
    gpus=16,
    category="team/nlp",
    accelerator="nvidia.com/gpu",
    declared=3600.0,
    asked='{"pods":[[2,[["cpu",1000]]]]}',
)


def as_version_1(address: str) -> None:
    """The tables as Maar made them before version 2."""
    engine = create_engine(read_address(address))
    with engine.begin() as connection:
        for table in ("maar_runs", "maar_forecasts"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("UPDATE maar_history SET version = 1"))
    engine.dispose()


def test_tables_of_version_1_are_read_as_they_are_and_migrated_by_a_writer(store: Store, address: str) -> None:
    store.write([FULL, HAPPENED])
    store.close()
    as_version_1(address)
    for options in ({"write": False}, {"make": False}):
        old = Store(read_address(address), **options)
        assert old.open()
        assert (1, 1, [], [], []) == (
            old.version,
            len(old.events()),
            old.runs(),
            old.predictions(),
            old.open_predictions(),
        )
        assert None is old.first_start("team", "resnet", "u-1")
        old.close()
    new = Store(read_address(address))
    assert new.open()
    assert (4, 1, 1) == (new.version, len(new.measurements()), len(new.events()))
    new.write([RUN])
    new.write_predictions([predicted()], (), 0.0)
    assert (1, 1) == (len(new.runs()), len(new.predictions()))
    new.close()


def as_version_2(address: str) -> None:
    """The tables as Maar made them before version 3."""
    engine = create_engine(read_address(address))
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE maar_runs DROP COLUMN asked"))
        connection.execute(text("ALTER TABLE maar_forecasts DROP COLUMN arrivals"))
        connection.execute(text("UPDATE maar_history SET version = 2"))
    engine.dispose()


def test_tables_of_version_2_are_used_as_they_are_and_get_columns_from_a_writer(store: Store, address: str) -> None:
    store.write([RUN])
    store.write_predictions([predicted(arrivals=True)], (), 0.0)
    assert [True] == [p.arrivals for p in store.predictions()]
    store.close()
    as_version_2(address)
    web = Store(read_address(address), make=False)
    assert web.open()
    web.write_predictions([predicted("b", arrivals=True)], (), 0.0)
    assert (2, [""], ["a", "b"]) == (
        web.version,
        [r.asked for r in web.runs()],
        [p.name for p in web.open_predictions()],
    )
    assert [False, False] == [p.arrivals for p in web.predictions()]
    web.close()
    new = Store(read_address(address))
    assert new.open()
    assert (4, [""], [False, False]) == (
        new.version,
        [r.asked for r in new.runs()],
        [p.arrivals for p in new.predictions()],
    )
    new.write([msgspec.structs.replace(RUN, uid="u-10")])
    new.write_predictions([predicted("c", arrivals=True)], (), 0.0)
    assert (["", RUN.asked], [False, False, True]) == (
        [r.asked for r in new.runs()],
        [p.arrivals for p in new.predictions()],
    )
    new.close()


def test_tables_of_version_3_are_read_and_get_columns_from_a_writer(store: Store, address: str) -> None:
    store.write([FULL])
    assert [(2, 512.5, '{"1":2.0}')] == [(m.nodes, m.noise_scale, m.goodput) for m in store.measurements()]
    store.close()
    engine = create_engine(read_address(address))
    with engine.begin() as connection:
        for column in ("nodes", "noise_scale", "goodput"):
            connection.execute(text(f"ALTER TABLE maar_measurements DROP COLUMN {column}"))
        connection.execute(text("UPDATE maar_history SET version = 3"))
    engine.dispose()
    for options in ({"write": False}, {}):
        new = Store(read_address(address), **options)
        assert new.open()
        assert [(None, None, "")] == [(m.nodes, m.noise_scale, m.goodput) for m in new.measurements()]
        new.close()
    assert 4 == new.version
    assert new.open()
    new.write([msgspec.structs.replace(FULL, epoch=99)])
    assert [None, 2] == [m.nodes for m in new.measurements()]
    new.close()


def test_two_that_start_at_once_migrate_once(store: Store, address: str) -> None:
    store.close()
    as_version_1(address)
    stores = [Store(read_address(address)) for _ in range(4)]
    threads = [threading.Thread(target=each.open) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [4] * 4 == [each.version for each in stores]
    for each in stores:
        each.close()


def test_one_that_may_not_make_tables_makes_none(address: str, tmp_path: Path) -> None:
    writer = Store(read_address(address), make=False)
    assert not writer.open()
    assert [] == list(tmp_path.iterdir())


def test_runs_come_out_as_they_go_in_and_count_once(store: Store) -> None:
    store.write([RUN])
    store.write([RUN, msgspec.structs.replace(RUN, started=2000.0, declared=None)])
    first, second = store.runs()
    assert RUN == msgspec.structs.replace(first, id=0)
    assert None is second.declared
    assert [second] == store.runs(first.id) == store.runs(newest=1)
    assert 1000.0 == store.first_start("team", "bert-1", "u-9")
    assert None is store.first_start("team", "bert-1", "u-8")


def test_the_first_start_of_a_job_comes_from_its_accounts_too(store: Store) -> None:
    started = msgspec.structs.replace(HAPPENED, kind=EventKind.STARTED, at=70.0)
    store.write([started, msgspec.structs.replace(started, at=50.0, uid="u-2"), HAPPENED])
    assert 70.0 == store.first_start("team", "resnet", "u-1")


def predicted(job: str = "a", at: float = 100.0, **more: object) -> Prediction:
    made = {"namespace": "team", "name": job, "uid": f"u-{job}", "queue": "red", "at": at, "age": 5.0, "first": True}
    return msgspec.convert({**made, "verdict": "expected", "start_p50": at + 60, "rollouts": 32, **more}, Prediction)


def test_forecasts_and_what_became_of_the_jobs(store: Store) -> None:
    full = predicted("a", start_p90=400.0, finish_p50=500.0, finish_p90=900.5)
    store.write_predictions([full, predicted("a", 700.0, first=False), predicted("b"), predicted("c")], (), 0.0)
    assert full == msgspec.structs.replace(store.predictions()[0], id=0)
    assert [("a", 700.0), ("b", 100.0), ("c", 100.0)] == [(p.name, p.at) for p in store.open_predictions()]
    store.write_predictions((), [Fate("team", "a", "u-a", started=800.0), Fate("team", "b", "u-b", gone=150.0)], 0.0)
    store.write_predictions((), [Fate("team", "a", "u-a", gone=900.0), Fate("team", "c", "u-a", gone=1.0)], 0.0)
    assert [("a", 800.0, None), ("b", None, 150.0), ("c", None, None)] == [
        (p.name, p.started, p.gone) for p in store.predictions()
    ]
    assert ["c"] == [p.name for p in store.open_predictions()]
    assert ["c"] == [p.name for p in store.predictions(newest=1)]


def test_old_forecasts_are_deleted(store: Store) -> None:
    store.write_predictions([predicted("a", 100.0), predicted("b", 200.0)], (), 0.0)
    store.write_predictions([predicted("c", 300.0)], (), 150.0)
    assert ["b", "c"] == [p.name for p in store.predictions()]
    store.write_predictions([predicted(f"x{n}", 400.0) for n in range(30)], (), 0.0)
    assert 20 == len(store.predictions())


def test_a_reader_makes_nothing(address: str, tmp_path: Path) -> None:
    reader = Store(read_address(address), write=False)
    assert not reader.open()
    assert [] == list(tmp_path.iterdir())


def test_a_reader_reads_while_another_writes(store: Store, address: str) -> None:
    store.write([FULL])
    reader = Store(read_address(address), write=False)
    assert reader.open()
    assert 1 == len(reader.measurements())
    store.write([epoch(9)])
    assert 2 == len(reader.measurements())
    reader.close()


@pytest.mark.parametrize("name", ["run #3", "50%20", "why?", "jürgen"])
def test_a_reader_finds_a_file_of_any_name(tmp_path: Path, name: str) -> None:
    file = read_address(str(tmp_path / name / "history.db"))
    writer, reader = Store(file), Store(file, write=False)
    assert writer.open()
    assert reader.open()
    reader.close()
    writer.close()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("something else, long enough to be looked at " * 100)
    with pytest.raises(HistoryError, match=r"x\.db: file is not a database"):
        Store(read_address(f"{tmp_path}/x.db")).open()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable, match=r"file/history\.db: (File exists|Not a directory)"):
        Store(read_address(f"{tmp_path}/file/history.db")).open()


def test_a_server_that_is_not_there_hides_the_password() -> None:
    with pytest.raises(Unreachable) as caught:
        Store(read_address("postgresql://me:secret@127.0.0.1:1/maar")).open()
    assert "secret" not in str(caught.value)
    assert str(caught.value).startswith("postgresql://me:***@127.0.0.1:1/maar: ")


@pytest.mark.real
def test_it_goes_on_after_the_server_hung_up(postgres: Postgres) -> None:
    store = Store(read_address(postgres.new_database()))
    store.open()
    store.write([FULL])
    postgres.cut()
    assert 1 == len(store.measurements())
    store.close()
