"""A plugin from files outside `src` refuses with its own codes and words: docs/your-own.md, command by command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from maar.config.config import Catalog, Config, Registration
from maar.config.file import read_config
from maar.controller.reporting.job_reports import PlannedJob, Record, Waiting, report
from maar.decide import decide
from maar.model.codes import NODES, Code
from maar.model.jobs import Job, Phase
from maar.model.plan import Plan
from maar.model.reasons import Reason, Refusal
from maar.model.snapshot import Cluster, Snapshot
from maar.model.verdicts import verdict
from maar.registry import by_name, catalog, check_codes, codes_of
from maar.session.register import Register
from maar.session.session import Session
from maar.testing.builders import cluster, gang, node
from maar.views.jobs import job_views
from maar.views.sight import ALL
from maar.views.tally import Tally
from maar.whatif.place import place_of

PAGE = (Path(__file__).parents[1] / "docs" / "your-own.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
FILES = {found[1]: text for _, text in BLOCKS if (found := re.match(r"# ([\w.]+)\n", text))}
NOON, NIGHT = 12 * 3600.0, 23 * 3600.0


def commands() -> list[tuple[str, str]]:
    """The commands of the page, each with the output that it shows."""
    (console,) = (text for language, text in BLOCKS if language == "console")
    parts = re.split(r"^\$ (.*)\n", console, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_the_page_by_copy_and_paste_from_an_empty_folder(tmp_path: Path) -> None:
    """Packages go to a folder of the test, and the build backend is the installed one; all else is as on the page."""
    assert {"driver.py", "pyproject.toml", "maar.yaml", "cluster.yaml"} == FILES.keys()
    folder, site = tmp_path / "own", tmp_path / "site"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    pip = {"PIP_TARGET": str(site), "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    env = {**os.environ, **pip, "PATH": path, "PYTHONPATH": str(site)}
    assert ["pip", "maar", "maar"] == [command.split()[0] for command, _ in commands()]
    for command, shown in commands():
        done = subprocess.run(command.split(), cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert (0, shown.rstrip()) == (done.returncode, done.stdout.rstrip()), f"{command}: {done.stderr}"


@pytest.fixture
def driver() -> Registration:
    made: dict[str, Any] = {}
    exec(FILES["driver.py"], made)
    assert isinstance(made["driver"], Registration)
    return made["driver"]


def configured(*own: Registration) -> Config:
    known = catalog()
    more: Catalog = replace(known, plugins={**known.plugins, **by_name(own)})
    names = ", ".join(f"{{name: {one.name}}}" for one in own)
    text = f"actions: allocate\ntiers:\n- plugins: [{{name: gang}}, {{name: predicates}}, {names}]\n"
    return read_config(text, "test", more).config


def reason(plan: Plan, job: str) -> Reason:
    (found,) = next(wait.reasons for wait in plan.waiting if wait.job == job)
    return found


def condition_of_pod(plan: Plan, job: str) -> str:
    """What is written on a pod of the job, once the verdict has held."""
    (wait,) = (wait for wait in plan.waiting if wait.job == job)
    seen = PlannedJob(Job(job, phase=Phase.INQUEUE), Phase.INQUEUE, wait=wait, waiting=(Waiting(f"{job}-0", "u"),))
    _, record = report(seen, Record(), 0.0)
    writes, _ = report(seen, record, 10.0)
    body: Any = writes.patches[0].body
    return str(body["status"]["conditions"][0]["reason"])


OLD_NODES = [node("n1", labels={"example.com/driver": "550"}), node("n2")]


def test_new_nodes_help_and_no_node_of_today_ever_fits(driver: Registration) -> None:
    scene = cluster(OLD_NODES, gang("research/train"))
    config = configured(driver)
    plan = decide(Snapshot(replace(scene, nodes=scene.nodes[1:])), config, NOON)
    found = reason(plan, "research/train")
    assert ("driver", "DriverTooOld", "0/1 nodes fit: 1 have a driver below 550") == (
        found.plugin,
        found.code,
        found.message,
    )
    assert {"DriverTooOld": 1} == found.nodes
    assert found.never is not None
    assert found.never.message.startswith("never on today's nodes: they have a driver below 550")
    assert "Unschedulable" == verdict((found,)).condition == condition_of_pod(plan, "research/train")
    assert ["n1"] == [bind.node for bind in decide(Snapshot(scene), config, NOON).bind], "a node with a new driver"


def test_a_condition_of_its_own_keeps_autoscalers_away(driver: Registration) -> None:
    scene, config = cluster(OLD_NODES, gang("nightly/report", created=7.0)), configured(driver)
    plan = decide(Snapshot(scene), config, NOON)
    found = reason(plan, "nightly/report")
    assert ("driver", "ClosedByDay", 7.0) == (found.plugin, found.code, found.since)
    assert "ClosedByDay" == verdict((found,)).condition == condition_of_pod(plan, "nightly/report")
    (view,) = job_views(Tally(Snapshot(scene), plan, NOON), ALL)
    assert ("ClosedByDay", "jobs of `nightly` start after 22:00 UTC") == (view.condition, view.why)
    assert decide(Snapshot(scene), config, NIGHT).bind


def plugin(code: Code, **hooks: Any) -> Registration:
    class Own:
        def __init__(self, arguments: object) -> None: ...

        def open(self, session: Session, on: Register) -> None:
            for hook, of in hooks.items():
                getattr(on, hook)(*of(session))

    return Registration("own", Own, codes=(code,))


def closed_to_all(code: Code) -> Registration:
    """Refuses every node to every job, for any shape."""
    return plugin(
        code,
        job_nodes=lambda session: [
            lambda job: Refusal("own", code, "rented", session.snapshot.nodes.unschedulable >= 0)
        ],
    )


@pytest.mark.parametrize("lasting", [False, True])
def test_nodes_that_are_closed_to_a_job_are_never_open_only_if_that_lasts(lasting: bool) -> None:
    scene: Cluster = cluster(node("n1"), gang("research/train"))
    code = Code("Rented", NODES, lasting=lasting)
    found = reason(decide(Snapshot(scene), configured(closed_to_all(code)), NOON), "research/train")
    assert ("own", "Rented", lasting) == (found.plugin, found.code, found.never is not None)


def test_an_order_of_its_own_says_why() -> None:
    own = plugin(Code("Unused", NODES), job_order=lambda session: (lambda job: job.key != "ns/b", "starts with b"))
    scene = cluster(node("n1"), gang("ns/a", cpu=99), gang("ns/b", cpu=99))
    found = place_of(Snapshot(scene), configured(own), NOON, "ns/a")
    assert found is not None
    assert [("ns/b", "own", "starts with b")] == [(one.name, one.by, one.words) for one in found.ahead]


def test_a_code_means_one_thing() -> None:
    with pytest.raises(ValueError, match="the code `Locked` is already declared, and means something else"):
        check_codes(codes_of(catalog()), (Code("Locked", NODES),))
    check_codes(codes_of(catalog()), (Code("Rented", NODES),))
