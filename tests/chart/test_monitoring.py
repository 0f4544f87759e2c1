"""Alerts and the dashboard: checked and run by promtool, against the metrics of a Maar that runs."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.support.charts import CHART, by_name, program, ran, rendered
from tests.support.elastic_story import CONFIG, playing
from tests.support.live import OUR_CRDS, connected
from tests.support.real.parts import CHECKOUT

from maar.controller.main import Options, share
from maar.controller.scheduler import Scheduler
from maar.controller.settings.config_file import ConfigFile
from maar.embedded.parts.kubelets import Kubelets
from maar.embedded.parts.operators import TrainingOperator
from maar.embedded.server import EmbeddedServer
from maar.forecast.calibrate import Age, Quality
from maar.forecast.forecast import Forecast
from maar.history.history import History
from maar.kube.write.intents import Intents
from maar.web.actor_metrics import metrics_of
from maar.web.api.mirror import Mirror
from maar.web.forecasting import metrics as web_metrics
from maar.web.forecasting.judging import Judged, Verdicts
from maar.web.forecasting.keeper import Keeper, Latest

pytestmark = pytest.mark.real

RULES, TESTS = CHART / "files" / "rules.yaml", Path(__file__).with_name("rules-test.yaml")
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())
OPERATIONS = CHECKOUT / "docs" / "operations.md"
TARGET = {"job": "maar", "instance": "10.0.0.7:8080", "namespace": "maar-system", "service": "maar"}
"""The labels that Prometheus adds."""
RARE = ("maar_evictions_total", "maar_lost_gpu_seconds_total", "maar_invalid_objects", "maar_resizes_total")
"""Series that exist once something has happened."""


def queries() -> dict[str, str]:
    """Every query of the dashboard, by panel, with its variables filled in as Grafana does."""
    found = {}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$queue", ".*").replace("$job", "maar").replace("$resource", "nvidia.com/gpu")
            assert "$" not in text
            found[f"{panel['title']} {target['refId']}"] = text
    return found


def test_the_rules_are_valid_and_do_what_they_say(tmp_path: Path) -> None:
    for file in (RULES, TESTS):
        shutil.copy(file, tmp_path)
    ran("promtool", "check", "rules", "--lint=all", "--lint-fatal", tmp_path / "rules.yaml")
    assert "SUCCESS" in ran("promtool", "test", "rules", tmp_path / "rules-test.yaml")


def alerts() -> set[str]:
    return {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


def test_every_alert_is_tested_and_explained() -> None:
    fires = {
        test["alertname"]
        for story in yaml.safe_load(TESTS.read_text())["tests"]
        for test in story["alert_rule_test"]
        if test["exp_alerts"]
    }
    assert alerts() == fires
    explained = set(re.findall(r"^\| `(Maar\w+)` ", OPERATIONS.read_text(), re.MULTILINE))
    assert alerts() == explained, "docs/operations.md says what to do for each"


def test_the_chart_has_these_rules_and_this_dashboard() -> None:
    objects = by_name(rendered({"prometheusRule.enabled": True, "dashboard.enabled": True}))
    rules = RULES.read_text().replace("(maar_leader)", '(maar_leader{namespace="maar-system"})', 2)
    assert yaml.safe_load(rules) == objects["PrometheusRule", "maar"]["spec"]
    assert DASHBOARD == json.loads(objects["ConfigMap", "maar-dashboard"]["data"]["maar.json"])


def test_panels_have_different_ids_and_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    assert len(panels) == len({panel["id"] for panel in panels})
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Every series of the scheduler and of `maar web`, from a story with all that the dashboard shows."""
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "config.yaml").write_text(CONFIG)
    server = EmbeddedServer(parts=[Kubelets(start=0.01, stop=0.01), TrainingOperator()])
    server.start()
    try:
        text = asyncio.run(_story(server.kubeconfig(folder / "kubeconfig"), folder / "config.yaml"))
    finally:
        server.stop()
    return {
        _series(sample.name, {**sample.labels, **TARGET}): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _series(name: str, labels: dict[str, str]) -> str:
    return f"{name}{{{','.join(f'{key}={json.dumps(value)}' for key, value in sorted(labels.items()))}}}"


async def _story(kubeconfig: Path, config: Path) -> str:
    """One shard: an elastic job shrinks, a gang preempts another, and one waits."""
    async with connected(kubeconfig) as cluster:
        await cluster.crds(OUR_CRDS)
        await cluster.priority("high", 1000)
        intents, options = Intents(64, 128, True), Options(shards=1, lease_seconds=3)
        scheduler = Scheduler(cluster.api, options.settings, ConfigFile(config), intents=intents)
        async with playing(cluster) as play:
            await play.add_nodes(2)
            await scheduler.sync()
            metrics = metrics_of(scheduler, scheduler)
            work = asyncio.create_task(share(cluster.api, scheduler, intents, options))
            try:
                await play.pytorch("grows", 2, 8)
                await play.settles("an elastic job starts")
                await cluster.gang("low", 1, gpu=8)
                await cluster.until(lambda ps: any(p.node for p in ps if p.name == "low-0"), "a gang starts")
                await cluster.gang("urgent", 1, gpu=8, priorityClassName="high")
                await cluster.until(lambda ps: any(p.node for p in ps if p.name == "urgent-0"), "a gang preempts it")
                await cluster.gang("huge", 9, gpu=8)
                await cluster.pod("odd", cpu="9" * 5000)

                async def complete() -> bool:
                    text = metrics.text().decode()
                    return all(f"\n{name}{{" in text for name in (*RARE, "maar_queue_waiting_jobs"))

                await cluster.eventually(complete, "everything is reported")
                return metrics.text().decode() + _web().decode()
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                await scheduler.close()


def _web() -> bytes:
    """The metrics of `maar web`, which made one forecast and has judged others."""
    keeper = Keeper(cast(Mirror, None), History("none"))
    quality = Quality(judged=80, censored=2, coverage_p90=0.9, median_error=60.0)
    keeper.verdicts = Verdicts(judged=(Judged("default", Age.SUBMITTED, quality, quality, 1.0),))
    keeper.latest = Latest(Forecast(at=1.0, rollouts=1, wanted=1), {}, {}, 1.0, 6)
    return web_metrics.text(1.0, keeper)


def test_every_query_of_the_dashboard_finds_something(scraped: dict[str, float], tmp_path: Path) -> None:
    """Prometheus' own engine runs each query on the series that were scraped."""
    series = [{"series": name, "values": f"{value}+1x120"} for name, value in scraped.items() if value == value]
    failed = _series("maar_writes_total", {"resource": "pods", "verb": "PATCH", "result": "failed", **TARGET})
    series.append({"series": failed, "values": "0+1x120"})  # in the story, every write may succeed
    assert {"resource", "verb", "result"} <= _labels(scraped, "maar_writes_total"), "it has the labels of real ones"
    checks = [
        {"expr": f"count({query}) > bool 0", "eval_time": "2h", "exp_samples": [{"labels": "{}", "value": 1}]}
        for query in queries().values()
    ]
    file = tmp_path / "dashboard.yaml"
    stories = [{"interval": "1m", "input_series": series, "promql_expr_test": checks}]
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": stories}))
    assert "SUCCESS" in ran("promtool", "test", "rules", file)


def test_every_metric_of_the_alerts_exists_with_these_labels(scraped: dict[str, float]) -> None:
    """The tests of alerts use series by hand: they must look like the real ones."""
    for story in yaml.safe_load(TESTS.read_text())["tests"]:
        for one in story["input_series"]:
            name, _, labels = one["series"].partition("{")
            used = set(re.findall(r"(\w+)=", labels)) - TARGET.keys()
            assert _labels(scraped, name) >= used, one["series"]


def _labels(scraped: dict[str, float], name: str) -> set[str]:
    found = [series for series in scraped if series.startswith(name + "{")]
    assert found, f"`{name}` is not a metric of Maar"
    return set(re.findall(r"(\w+)=", found[0]))


def test_the_variables_of_the_dashboard_are_labels(scraped: dict[str, float]) -> None:
    program("promtool")
    asked: list[Any] = [v["query"]["query"] for v in DASHBOARD["templating"]["list"] if v["type"] == "query"]
    for query in asked:
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
        assert found is not None
        assert found[2] in _labels(scraped, found[1])
