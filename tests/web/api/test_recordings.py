"""Recordings of `maar run`, opened by `maar web`: listed, stepped through, decided again, and never more than a viewer
may see."""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.controller.test_record import changes
from tests.shards.test_step import NODES, OWNERS, QUEUES
from tests.support.patience import PATIENCE
from tests.support.web import ADMIN, MINE, THEIRS, USER, Web, webbing

from maar.config.file import default_config, default_text
from maar.controller.record import MAGIC, Frame, Recorder, RecordingError, read_recording
from maar.decide import decide
from maar.model.outcome import carry_out
from maar.model.plan import Bind, Plan
from maar.model.snapshot import Cluster, Snapshot
from maar.registry import catalog
from maar.shards.public_view import standing_of
from maar.shards.shard import decide_as
from maar.shards.sharing import Sharing
from maar.testing.builders import cluster, gang, node
from maar.web.api import recordings
from maar.web.api.recordings import Recording, Recordings

CONFIG = default_config(catalog())
Story = Callable[[Web], Awaitable[None]]


def recorded(path: Path, cycles: int = 6) -> list[Cluster]:
    """A recording of two nodes: a gang of the viewer gets room from one of another namespace. Returns the clusters."""
    now = cluster(
        [node(f"n{i}", gpu=8) for i in range(2)],
        gang(f"{THEIRS}/aq7low", 2, gpu=8, on=["n0", "n1"], priority=1),
        gang(f"{MINE}/high", 1, gpu=8, priority=9),
    )
    recorder, before, seen = Recorder(path), now, []
    for i in range(cycles):
        plan = decide(Snapshot(now), CONFIG, 100.0 + i)
        around = replace(now, tasks=(), jobs=())
        frame = Frame(100.0 + i, plan, around=around, changed=changes(before, now), config=default_text())
        recorder.write(frame if i else Frame(100.0, plan, cluster=now, config=default_text()))
        seen.append(now)
        before, now = now, carry_out(now, plan, 100.0 + i)
    recorder.close()
    return seen


def told(tmp_path: Path, story: Story, folder: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE), webbing(tmp_path, recordings=folder) as web:
            await story(web)

    asyncio.run(main())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "recordings"
    made.mkdir()
    recorded(made / "week.rec")
    return made


def test_recordings_are_listed_and_stepped_through(tmp_path: Path, folder: Path) -> None:
    plans = [cycle.plan for cycle in read_recording(folder / "week.rec")]
    moving = [i for i, plan in enumerate(plans, 1) if plan.moves or plan.nominate]
    assert 2 <= len(moving) < len(plans)

    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        (listed,) = (await client.get("/recordings"))["items"]
        assert ("week.rec", (folder / "week.rec").stat().st_size, "") == (
            listed["name"],
            listed["bytes"],
            listed["problem"],
        )
        answer = await client.get("/decisions?recording=week.rec")
        about = answer["recording"]
        assert (len(plans), True, "", 0) == (about["cycles"], about["complete"], about["problem"], about["dropped"])
        items = answer["items"]
        assert {(False, "week.rec")} == {(item["shadow"], item["recording"]) for item in items}
        assert set(moving) >= {item["number"] for item in items}
        first = items[-1]
        assert (1, 100.0) == (first["number"], first["at"])
        (evicted,) = first["evict"]
        assert (f"{THEIRS}/aq7low", f"{MINE}/high") == (evicted["job"], evicted["beneficiary"])
        one = await client.get("/decisions?recording=week.rec&limit=1")
        assert (items[:1], items[0]["number"]) == (one["items"], one["next"])
        rest = await client.get(f"/decisions?recording=week.rec&before={one['next']}")
        assert (items[1:], None) == (rest["items"], rest["next"])
        mine = (await client.get(f"/decisions?recording=week.rec&job={MINE}/high"))["items"]
        assert mine
        assert all(f"{MINE}/high" in str(item["bind"] + item["nominate"]) for item in mine)
        assert [] == (await client.get("/decisions"))["items"], "the shadow has its own"

    told(tmp_path, story, folder)


def test_a_viewer_sees_of_a_recording_what_she_may_see_now(tmp_path: Path, folder: Path) -> None:
    async def story(web: Web) -> None:
        user = await web.as_user(USER)
        status, text = await user.ask("/api/v1/decisions?recording=week.rec")
        assert (200, False) == (status, b"aq7" in text)
        first = msgspec.json.decode(text)["items"][-1]
        assert ([], 2) == (first["evict"], first["others"]["evict"])
        status, _ = await user.ask(f"/api/v1/decisions?recording=week.rec&job={THEIRS}/aq7low")
        assert 404 == status
        body = {"recording": "week.rec", "decision": 1, "edits": [{"edit": "end-jobs", "jobs": [f"{THEIRS}/aq7low"]}]}
        status, text = await user.ask("/api/v1/what-if", body)
        assert (422, "edits[0].jobs[0]") == (status, msgspec.json.decode(text)["field"])
        body["edits"] = [{"edit": "add-nodes-like", "like": "n0"}]
        status, text = await user.ask("/api/v1/what-if", body)
        assert (200, False) == (status, b"aq7" in text)
        assert 1 == msgspec.json.decode(text)["whatIf"]["others"]["spared"]

    told(tmp_path, story, folder)


def test_a_recorded_cycle_is_decided_again_under_another_configuration(tmp_path: Path, folder: Path) -> None:
    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)

        async def asked(**body: Any) -> tuple[int, Any]:
            status, text = await client.ask("/api/v1/what-if", body)
            return status, msgspec.json.decode(text)

        edits = [{"edit": "use-config", "text": "actions: allocate\ntiers:\n- plugins: [{name: gang}]\n"}]
        status, answer = await asked(recording="week.rec", decision=1, edits=edits)
        assert 200 == status, answer
        assert [f"{THEIRS}/aq7low"] == [each["job"] for each in answer["whatIf"]["spared"]], "nobody may preempt"
        for body, field in (
            ({"recording": "week.rec"}, "decision"),
            ({"recording": "week.rec", "decision": 10**6}, "decision"),
            ({"recording": "none.rec", "decision": 1}, "recording"),
            ({"recording": "../recordings/week.rec", "decision": 1}, "recording"),
        ):
            status, answer = await asked(edits=edits, **body)
            assert (422, field) == (status, answer["field"]), answer

    told(tmp_path, story, folder)


def test_broken_huge_and_strange_files_give_an_error_and_stop_nothing(tmp_path: Path, folder: Path) -> None:
    good = (folder / "week.rec").read_bytes()
    third = len(MAGIC)
    for _ in range(2):
        third += 4 + int.from_bytes(good[third : third + 4], "big")
    (folder / "damaged.rec").write_bytes(good[: third + 4] + b"junk" + good[third + 8 :])
    (folder / "lying.rec").write_bytes(good[:third] + b"\xff\xff\xff\xff" + good[third + 4 :])
    bomb = zlib.compress(bytes(recordings.FRAME + 10), 1)
    (folder / "bomb.rec").write_bytes(MAGIC + len(bomb).to_bytes(4, "big") + bomb)
    (folder / "notes.txt").write_text("not a recording")
    (folder / "empty.rec").write_bytes(MAGIC)
    (folder / "folder.rec").mkdir()
    os.mkfifo(folder / "pipe.rec")
    (folder / "gone.rec").symlink_to(folder / "nothing")

    async def story(web: Web) -> None:
        client = await web.as_user(ADMIN)
        listed = {item["name"]: item["problem"] for item in (await client.get("/recordings"))["items"]}
        assert {"week.rec", "damaged.rec", "lying.rec", "bomb.rec", "notes.txt", "empty.rec"} == listed.keys()
        assert "not a recording" == listed["notes.txt"]
        damaged = await client.get("/decisions?recording=damaged.rec")
        assert (2, True) == (damaged["recording"]["cycles"], len(damaged["items"]) >= 1)
        assert damaged["recording"]["problem"].startswith("cycle 3 cannot be read, and nothing after it: ")
        assert damaged == {**(again := await client.get("/decisions?recording=damaged.rec")), **_stamp(damaged)}, again
        lying = await client.get("/decisions?recording=lying.rec")
        assert (2, "") == (lying["recording"]["cycles"], lying["recording"]["problem"]), "as one that is being written"
        bomb = await client.get("/decisions?recording=bomb.rec")
        assert f"more than {recordings.FRAME} bytes" in bomb["recording"]["problem"]
        assert [] == (await client.get("/decisions?recording=empty.rec"))["items"]
        status, text = await client.ask("/api/v1/decisions?recording=notes.txt")
        assert (422, "query.recording") == (status, msgspec.json.decode(text)["field"])
        for name in ("pipe.rec", "folder.rec", "gone.rec", "..%2Frecordings%2Fweek.rec", "%2Fetc%2Fpasswd", ".", "x"):
            status, _ = await client.ask(f"/api/v1/decisions?recording={name}")
            assert 404 == status, name
        assert (await client.get("/decisions?recording=week.rec"))["items"], "others can still be opened"

    told(tmp_path, story, folder)


def _stamp(answer: Any) -> Any:
    return {key: answer[key] for key in ("asOf", "age", "decidedAt")}


def test_without_a_folder_there_are_no_recordings(tmp_path: Path) -> None:
    assert [] == Recordings().listed()
    with pytest.raises(KeyError):
        Recordings().read("week.rec", 1.0)
    assert [] == Recordings(tmp_path / "missing").listed()


def test_every_cycle_is_put_together_as_it_was(tmp_path: Path) -> None:
    seen = recorded(tmp_path / "week.rec")
    recording = Recording(tmp_path / "week.rec")
    recording.advance(lambda: True)
    for number, expected in enumerate(seen, 1):
        found, now = recording.whole(number, lambda: True)
        assert 100.0 + number - 1 == now
        assert found.standing is None
        assert decide(Snapshot(expected), CONFIG, now) == decide(Snapshot(found.cluster), found.config, now)
    with pytest.raises(RecordingError, match="not enough time"):
        recording.whole(6, lambda: False)


def test_it_is_read_on_where_it_was_left_and_again_if_it_is_new(tmp_path: Path) -> None:
    path = tmp_path / "week.rec"
    recorded(path)
    recording, turns = Recording(path), iter([True, True, False])
    recording.advance(lambda: next(turns))
    assert (2, False) == (recording.count, recording.complete)
    recording.advance(lambda: True)
    assert (6, True) == (recording.count, recording.complete)
    recorder = Recorder(path)  # a new start writes the file from the beginning
    scene = cluster(node("n0", gpu=8), gang(f"{MINE}/other", 1, gpu=1))
    recorder.write(Frame(500.0, decide(Snapshot(scene), CONFIG, 500.0), cluster=scene))
    recorder.close()
    recording.advance(lambda: True)
    assert (1, [500.0]) == (recording.count, [cycle.at for cycle in recording.cycles])


def test_only_the_newest_cycles_are_kept(tmp_path: Path) -> None:
    path, scene = tmp_path / "long.rec", cluster(node("n0"))
    recorder = Recorder(path)
    for i in range(recordings.CYCLES + 5):
        recorder.write(Frame(float(i), Plan(bind=(Bind(f"{MINE}/p{i}", "n0"),)), cluster=scene))
    recorder.close()
    recording = Recording(path)
    recording.advance(lambda: True)
    assert (recordings.CYCLES, 5, 6) == (len(recording.cycles), recording.dropped, recording.cycles[0].number)


def test_a_recorded_cycle_of_a_shard_is_decided_again_as_that_shard(tmp_path: Path, folder: Path) -> None:
    """One Maar would start the gang at once; its shard has two of the three nodes that it needs."""
    scene = cluster(*NODES, *QUEUES, gang(f"{MINE}/g", 3, gpu=4, queue="red"))
    standing = standing_of(Sharing(OWNERS), 0, Snapshot(scene))
    plan = decide_as(standing, Snapshot(scene), CONFIG, 100.0).plan
    assert () == plan.bind
    recorder = Recorder(folder / "shard.rec")
    recorder.write(Frame(100.0, plan, cluster=scene, config=default_text(), standing=standing))
    recorder.close()
    like = next(n.name for n in NODES if OWNERS.owner_of(f"{n.name}-copy-1") == 0)

    async def story(web: Web) -> None:
        user = await web.as_user(ADMIN)

        async def starts(edit: dict[str, Any]) -> list[str]:
            body = {"recording": "shard.rec", "decision": 1, "edits": [edit]}
            status, text = await user.ask("/api/v1/what-if", body)
            assert 200 == status, text
            found: list[str] = msgspec.json.decode(text)["whatIf"]["starts"]
            return found

        assert [] == await starts({"edit": "set-priority", "job": f"{MINE}/g", "priority": 5})
        assert [f"{MINE}/g"] == await starts({"edit": "set-minimum", "job": f"{MINE}/g", "minimum": 2})
        assert [f"{MINE}/g"] == await starts({"edit": "add-nodes-like", "like": like}), "the map gives it to the shard"

    told(tmp_path, story, folder)
