"""Whether two versions of Maar decide the same, to the byte: for changes that must not change a plan.

    python tools/same_plans.py record BEFORE.gz --src OTHER/src     # with the sources of another checkout
    python tools/same_plans.py record AFTER.gz
    python tools/same_plans.py compare BEFORE.gz AFTER.gz [--but waiting reason]     # but the words

What is compared is `maar plan -o json` on every example and on the manifests given, then the plans of three cycles on
random scenes (`tests/support/rich_scenes.py`), all plans of the simulator on a generated trace, and with `--tests` all
plans of every test that decides, if its name exists in both. `compare` names the cases that differ.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TESTS = (
    "actions",
    "elastic",
    "forecast",
    "model",
    "plugins",
    "properties",
    "session",
    "shards",
    "sim",
    "views",
    "whatif",
)
"""Folders of tests that decide in their own process."""
CYCLES = 3
NOW = "2026-01-01T00:00:00Z"
CONFIG = "deploy/chart/files/maar.yaml"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    record = actions.add_parser("record", help="write the plans of one version to a file")
    record.add_argument("file", type=Path)
    record.add_argument("--src", type=Path, default=ROOT / "src", help="the sources of the version")
    record.add_argument("--scenes", type=int, default=10_000, help="how many random scenes")
    record.add_argument(
        "--manifests", type=Path, nargs="*", default=[], help="more; FILE.conf.yaml configures FILE.yaml"
    )
    record.add_argument("--plain", action="store_true", help="random scenes in which only resources limit what fits")
    record.add_argument("--tests", action="store_true", help="also the plans of the tests of that checkout")
    both = actions.add_parser("compare", help="compare two such files")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    both.add_argument("--but", nargs="*", default=[], help="keys of JSON objects that may differ")
    inside = actions.add_parser("inside")
    inside.add_argument("scenes", type=int)
    inside.add_argument("--plain", action="store_true")
    inside.add_argument("manifests", type=Path, nargs="*")
    given = parser.parse_args()
    if given.action == "compare":
        return compare(given.before, given.after, frozenset(given.but))
    if given.action == "inside":
        for name, plans in cases(given.scenes, given.plain, given.manifests):
            print(json.dumps([name, plans]))
        return 0
    source = given.src.resolve()
    path = os.pathsep.join(map(str, (source, ROOT)))
    asked = [
        sys.executable,
        "-P",
        str(Path(__file__).resolve()),
        "inside",
        *["--plain"] * given.plain,
        str(given.scenes),
        *map(str, given.manifests),
    ]
    with gzip.open(given.file, "wt", compresslevel=3) as out:
        with subprocess.Popen(asked, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True) as made:
            assert made.stdout is not None
            out.writelines(made.stdout)
        if made.returncode:
            return made.returncode
        if given.tests:
            out.writelines(json.dumps(case) + "\n" for case in plans_of_tests(source.parent))
    return 0


def cases(scenes: int, only_plain: bool, manifests: list[Path]) -> Iterator[tuple[str, Any]]:
    """The name of each case and its plans."""
    import maar

    print(f"sources: {Path(maar.__file__).parent}", file=sys.stderr)
    yield from _of_manifests(sorted((ROOT / "examples").glob("*.yaml")) + sorted(manifests))
    yield from _of_traces()
    yield from _of_scenes(scenes, only_plain)


def _of_manifests(files: list[Path]) -> Iterator[tuple[str, Any]]:
    """`maar plan -o json` on manifests; the default configuration, or the one beside them."""
    for file in files:
        if file.name.endswith(".conf.yaml"):
            continue
        beside = file.with_name(f"{file.stem}.conf.yaml")
        options = ["--config", str(beside)] if beside.exists() else []
        yield f"manifests {file.name}", _maar("plan", str(file), "--now", NOW, "-o", "json", *options)


def _of_traces() -> Iterator[tuple[str, Any]]:
    """Every plan of simulations at the depth of a cluster, also with the configuration that the version installs."""
    from click.testing import CliRunner

    from maar import config
    from maar.cli.main import main as maar

    checkout = Path(config.__file__).parents[3]

    text = CliRunner().invoke(maar, ["trace", "generate", "--jobs", "60", "--gpus", "32", "--load", "1.2"]).stdout
    with recorded() as plans:
        for number, more in enumerate(([], ["--fail", "20000"], ["--config", str(checkout / CONFIG)])):
            options = ["--depth", "cluster", "--nodes", "4", "--gpus-per-node", "8", "--processes", "1", "-o", "json"]
            done = CliRunner().invoke(maar, ["simulate", "-", *options, *more], input=text)
            assert plans, done.output
            yield f"trace {number}", [done.stdout.replace(str(checkout), ""), *plans]
            del plans[:]


def _maar(*arguments: str) -> list[Any]:
    """The exit code, the plans and the errors of a command."""
    from click.testing import CliRunner

    from maar.cli.main import main as maar

    done = CliRunner().invoke(maar, arguments)
    return [done.exit_code, json.loads(done.stdout or "null"), done.stderr.replace(str(ROOT), "")]


def _of_scenes(count: int, only_plain: bool) -> Iterator[tuple[str, Any]]:
    from tests.support.rich_scenes import CONFIGS, plain, scene

    from maar.cli.reports.plan_json import plan_data
    from maar.config.file import default_config, read_config
    from maar.decide import decide
    from maar.model.outcome import carry_out
    from maar.model.snapshot import Snapshot
    from maar.registry import catalog

    configs = [read_config(text, "scene", catalog()).config if text else default_config(catalog()) for text in CONFIGS]
    for seed in range(count):
        cluster, config, plans = scene(seed), configs[seed % len(configs)], []
        cluster = plain(cluster) if only_plain else cluster
        for cycle in range(CYCLES):
            now = 100.0 + cycle
            plan = decide(Snapshot(cluster), config, now)
            plans.append(plan_data(plan))
            cluster = carry_out(cluster, plan, now)
        yield f"scene {seed}", plans


class recorded:  # noqa: N801
    """While it is open, all plans that are decided in this process are added to the list, as `-o json` shows them."""

    def __enter__(self) -> list[Any]:
        import maar.decide
        from maar.cli.reports.plan_json import plan_data

        self._decide, plans = maar.decide.decide, list[Any]()

        def decide(*given: Any, **named: Any) -> Any:
            plan = self._decide(*given, **named)
            plans.append(plan_data(plan))
            return plan

        self._put(self._decide, decide)
        self._made = decide
        return plans

    def __exit__(self, *_: object) -> None:
        self._put(self._made, self._decide)

    def _put(self, old: Any, new: Any) -> None:
        """Replace the function wherever a module has imported it."""
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith(("maar", "tests")) and vars(module).get("decide") is old:
                vars(module)["decide"] = new


def plans_of_tests(checkout: Path) -> Iterator[tuple[str, Any]]:
    """The plans of the tests of a checkout, which run with its own tests and sources."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        asked = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not real", "-p", "same_plans"]
        asked += [f"tests/{name}" for name in TESTS if (checkout / "tests" / name).is_dir()]
        path = os.pathsep.join((str(checkout / "src"), str(checkout), str(Path(__file__).resolve().parent)))
        env = {**os.environ, "PYTHONPATH": path, "PLANS_OF_TESTS": folder}
        done = subprocess.run(asked, cwd=checkout, env=env, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout[-600:], file=sys.stderr)
        for file in sorted(Path(folder).iterdir()):
            for line in file.read_text().splitlines():
                name, plans = json.loads(line)
                yield f"test {name}", plans


if "PLANS_OF_TESTS" in os.environ:  # as a plugin of pytest
    import pytest

    @pytest.hookimpl(wrapper=True)  # type: ignore[untyped-decorator, unused-ignore]
    def pytest_runtest_call(item: Any) -> Iterator[None]:
        """Write a digest of each plan that the test decided."""
        opened = recorded()
        plans = opened.__enter__()
        try:
            return (yield)
        finally:
            opened.__exit__()
            if plans:
                file = Path(os.environ["PLANS_OF_TESTS"]) / str(os.getpid())
                with file.open("a") as out:
                    out.write(json.dumps([item.nodeid, plans]) + "\n")


def compare(before: Path, after: Path, but: frozenset[str]) -> int:
    """Print which cases differ; the exit code is 1 if any does."""
    had, has = dict(_read(before, but)), dict(_read(after, but))
    both = [name for name in had if name in has]
    differ = [name for name in both if had[name] != has[name]]
    for name in differ:
        print(name)
    gone, new = len(had) - len(both), len(has) - len(both)
    print(f"{len(both) - len(differ)} cases are the same, {len(differ)} differ; {gone} only before, {new} only after")
    return 1 if differ else 0


def _read(file: Path, but: frozenset[str]) -> Iterator[tuple[str, str]]:
    with gzip.open(file, "rt") as lines:
        for line in lines:
            name, plans = json.loads(line)
            yield name, hashlib.sha256(json.dumps(_without(plans, but)).encode()).hexdigest()


def _without(value: Any, keys: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(of, keys) for key, of in value.items() if key not in keys}
    return [_without(of, keys) for of in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
