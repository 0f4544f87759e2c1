"""What the chart makes of its values: a matrix that renders, refusals with clear messages, and what every pod keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from tests.support.charts import CHART, CRDS_CHART, NAMESPACE, Object, by_name, ran, refusal, rendered

from maar import __version__
from maar.cli.main import main
from maar.cli.run import run
from maar.cli.web import web
from maar.config.file import PROFILES, profile_text
from maar.controller.settings.brakes import BrakeSettings
from maar.history.address import read_address

pytestmark = pytest.mark.real

MONITORED = {"serviceMonitor.enabled": True, "prometheusRule.enabled": True, "dashboard.enabled": True}
VOLCANOS = 'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n'
MATRIX: dict[str, dict[str, Any]] = {
    "default": {},
    "plain": {"namespace.create": True, "web.tls.source": "secret"},
    "shadow": {"shadow": True, "schedulerNames": ["volcano"], **MONITORED},
    "shards": {"shards": 3, "rackLabel": "topology.kubernetes.io/rack"},
    "history by url": {"history.url": "postgresql://maar:secret@db/maar"},
    "history by secret": {"history.existingSecret": "mine", "history.existingSecretKey": "dsn"},
    "brakes": {"brakes": {"paused": True, "perMinute": 5, "queuesOff": ["production"], "resizesPerMinute": 0}},
    "volcano": {"config": VOLCANOS, "lenient": True, "schedulerNames": ["maar", "volcano"]},
    "services": {"profile": "services", "schedulerNames": ["default-scheduler"]},
    "untrusted": {"config": VOLCANOS + "tenants: untrusted\n", "evictions.allowDelete": True},
    "no web": {"web.enabled": False, **MONITORED},
    "aggregated": {"web.aggregated.enabled": True, "web.allowWrites": True, "web.forecastSeconds": 0},
    "cert-manager": {"web.tls.source": "cert-manager", "web.tls.issuer.name": "our-ca", **MONITORED},
    "no protection": {
        "podDisruptionBudget.enabled": False,
        "networkPolicy.enabled": False,
        "priorityClass.create": False,
        "gpuNodes.avoid": "no",
        "tolerations": [],
    },
    "elsewhere": {
        "image.repository": "registry.example/maar",
        "image.digest": "sha256:" + "0" * 64,
        "image.pullSecrets": ["pull"],
        "apiServer": {"host": "10.0.0.1", "port": 7443},
        "gpuNodes.avoid": "required",
        "priorityClass": {"create": False, "name": "system-cluster-critical"},
        "nodes": {"pool": "gpu", "zone": "a"},
        "nodeSelector": {"pool": "system"},
        "logFormat": "json",
        "extraArgs": ["--pod-events"],
        "networkPolicy.from": [{"namespaceSelector": {}}],
        "networkPolicy.extraEgress": [{"ports": [{"port": 9090}]}],
        "evictions.deleteVictims": True,
        "spreadOver": "topology.kubernetes.io/zone",
        "service.port": 80,
        "test.patience": 5,
        "web": {
            "replicas": 2,
            "anonymous": True,
            "extraArgs": ["--recordings=/tmp"],
            "service": {"type": "NodePort", "port": 8443},
        },
    },
}


def pods(objects: list[Object]) -> dict[str, Object]:
    """The spec of every pod that the objects make, by name."""
    found = {}
    for item in objects:
        if item["kind"] == "Deployment":
            found[item["metadata"]["name"]] = item["spec"]["template"]["spec"]
        elif item["kind"] == "Pod":
            found[item["metadata"]["name"]] = item["spec"]
    return found


def parameters(objects: list[Object], name: str) -> dict[str, Any]:
    """The arguments of a Deployment, as the command line reads them."""
    (container,) = pods(objects)[name]["containers"]
    command, *options = container["args"]
    return {"run": run, "web": web}[command].make_context(command, list(options)).params


@pytest.fixture(scope="module", params=MATRIX, ids=str)
def objects(request: pytest.FixtureRequest) -> list[Object]:
    return rendered(MATRIX[request.param])


@pytest.mark.parametrize("chart", [CHART, CRDS_CHART], ids=lambda chart: chart.name)
def test_helm_has_nothing_to_complain(chart: Path) -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in ran("helm", "lint", "--strict", chart)


@pytest.mark.parametrize("chart", [CHART, CRDS_CHART], ids=lambda chart: chart.name)
def test_the_versions_are_that_of_maar(chart: Path) -> None:
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert (__version__, __version__) == (about["version"], about["appVersion"])


def test_every_argument_is_an_option(objects: list[Object]) -> None:
    scheduler = parameters(objects, "maar")
    assert 8080 == scheduler["http_port"]
    if "maar-web" in pods(objects):
        other = parameters(objects, "maar-web")
        for shared in ("names", "config", "brakes", "lenient", "node_selector", "without", "log_format"):
            assert scheduler[shared] == other[shared], "both see the same cluster"


def test_pods_keep_to_the_restricted_standard_and_away_from_maar(objects: list[Object]) -> None:
    """A real API server checks the standard too: tests/chart/test_install.py."""
    for name, spec in pods(objects).items():
        assert "default-scheduler" == spec["schedulerName"], name
        assert (True, "RuntimeDefault") == (
            spec["securityContext"]["runAsNonRoot"],
            spec["securityContext"]["seccompProfile"]["type"],
        )
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            security = container["securityContext"]
            assert (False, True, ["ALL"]) == (
                security["allowPrivilegeEscalation"],
                security["readOnlyRootFilesystem"],
                security["capabilities"]["drop"],
            )


def test_nothing_tolerates_the_taints_of_gpu_nodes(objects: list[Object]) -> None:
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "amd.com/gpu", "effect": "NoSchedule"}]
    for spec in pods(objects).values():
        keys = {toleration.get("key") for toleration in spec.get("tolerations", ())}
        assert keys.isdisjoint({None, *(taint["key"] for taint in taints)}), "a missing key tolerates everything"


def test_the_configuration_and_the_brakes_are_valid(objects: list[Object]) -> None:
    data = by_name(objects)["ConfigMap", "maar"]
    lenient = ["--lenient"] if parameters(objects, "maar")["lenient"] else []
    checked = CliRunner().invoke(main, ["config", "check", "-", *lenient], input=yaml.safe_dump(data))
    assert 0 == checked.exit_code, checked.output
    msgspec.convert(yaml.safe_load(data["data"]["brakes.yaml"]), BrakeSettings)


def test_a_profile_is_the_one_that_maar_prints() -> None:
    for profile in PROFILES:
        data = by_name(rendered({"profile": profile}))["ConfigMap", "maar"]["data"]
        assert profile_text(profile).strip() == data["maar.yaml"].strip()


def test_objects_are_in_the_namespace_of_the_release_or_say_why() -> None:
    for name, values in MATRIX.items():
        for item in rendered(values):
            where = item["metadata"].get("namespace", "")
            roles = item["kind"] in ("Role", "RoleBinding")
            cluster = {"Namespace", "PriorityClass", "ClusterRole", "ClusterRoleBinding", "APIService"}
            assert where == ("kube-system" if roles else "" if item["kind"] in cluster else NAMESPACE), (name, item)


def test_the_longest_name_of_a_release_makes_valid_names() -> None:
    """Helm allows 53 characters, and Kubernetes 63 for Services and in labels."""
    objects = rendered({"web.aggregated.enabled": True, "shards": 64, **MONITORED}, name="m" * 53)
    names = [item["metadata"]["name"] for item in objects if item["kind"] in ("Service", "Pod")]
    labels = [label for item in objects for label in item["metadata"].get("labels", {}).values()]
    assert f"{'m' * 48}-web-aggregated" in names
    assert max(map(len, [*names, *labels])) <= 63


def test_shards_have_one_replica_more_than_shards() -> None:
    objects = rendered(MATRIX["shards"])
    assert 4 == by_name(objects)["Deployment", "maar"]["spec"]["replicas"]
    given = parameters(objects, "maar")
    assert (3, "topology.kubernetes.io/rack") == (given["shards"], given["rack_label"])
    assert 1 == by_name(objects)["PodDisruptionBudget", "maar"]["spec"]["maxUnavailable"]


def selects(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a label selector of Kubernetes selects an object with these labels."""
    expressions = selector.get("matchExpressions", ())
    assert all(one["operator"] == "In" for one in expressions)
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(one["key"]) in one["values"] for one in expressions
    )


@pytest.mark.parametrize("values", [name for name in MATRIX if name != "no protection"])
def test_services_budgets_spread_and_policy_are_about_the_pods(values: str) -> None:
    """A selector that selects nothing is an error that no API server reports."""
    objects = by_name(rendered(MATRIX[values]))
    policy = objects["NetworkPolicy", "maar"]["spec"]
    (ingress,) = policy["ingress"]
    for name in ("maar", "maar-web"):
        if ("Deployment", name) not in objects:
            continue
        deployment = objects["Deployment", name]["spec"]
        labels, spec = deployment["template"]["metadata"]["labels"], deployment["template"]["spec"]
        (container,) = spec["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        (spread,) = spec["topologySpreadConstraints"]
        assert selects(spread["labelSelector"], labels)
        assert ("ScheduleAnyway", 1) == (spread["whenUnsatisfiable"], spread["maxSkew"]), "one node is enough"
        (port,) = objects["Service", name]["spec"]["ports"]
        assert objects["Service", name]["spec"]["selector"].items() <= labels.items()
        assert port["targetPort"] in ports
        assert selects(policy["podSelector"], labels)
        assert set(ports.values()) <= {port["port"] for port in ingress["ports"]}
        budget = objects.get(("PodDisruptionBudget", name))
        assert (deployment["replicas"] > 1) == (budget is not None), "a budget for one pod would block every drain"
        if budget is not None:
            other = {"maar": "maar-web", "maar-web": "maar"}[name]
            assert selects(budget["spec"]["selector"], labels)
            assert not selects(budget["spec"]["selector"], {**labels, "app.kubernetes.io/name": other})
            assert 1 == budget["spec"]["maxUnavailable"]
    asks = objects["Pod", "maar-test"]["metadata"]["labels"]
    assert not selects(policy["podSelector"], asks), "the pod of `helm test` asks Services"
    if "from" in ingress:
        assert any(selects(one["podSelector"], asks) for one in ingress["from"] if "podSelector" in one)


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("postgresql://maar:secret@db/maar", 5432),
        ("postgresql://maar:6000@db/maar?sslmode=require", 5432),
        ("postgresql://maar:6000@db.example:6543/maar", 6543),
        ("postgresql://db:6543", 6543),
        ("postgresql://maar@[fd00::1]/maar", 5432),
        ("postgresql://maar@[fd00::1]:6543/maar?connect_timeout=5", 6543),
    ],
)
def test_the_policy_allows_the_port_of_the_database(url: str, port: int) -> None:
    policy = by_name(rendered({"history.url": url}))["NetworkPolicy", "maar"]["spec"]
    assert [{"port": port}] == policy["egress"][-1]["ports"]
    named = {"history.existingSecret": "mine", "history.port": 6000}
    policy = by_name(rendered(named))["NetworkPolicy", "maar"]["spec"]
    assert [{"port": 6000}] == policy["egress"][-1]["ports"]


@pytest.mark.parametrize(
    ("values", "secret", "key"),
    [(MATRIX["history by url"], "maar-history", "url"), (MATRIX["history by secret"], "mine", "dsn")],
)
def test_the_history_is_the_same_secret_for_both(values: dict[str, Any], secret: str, key: str) -> None:
    objects = rendered(values)
    reference = {"secretKeyRef": {"name": secret, "key": key}}
    for name in ("maar", "maar-web"):
        (container,) = pods(objects)[name]["containers"]
        assert [{"name": "MAAR_HISTORY", "valueFrom": reference}] == container["env"]
        assert "--history=none" not in container["args"]
    made = by_name(objects).get(("Secret", secret))
    assert (made is not None) == ("history.url" in values)
    assert made is None or read_address(made["stringData"]["url"]).drivername.startswith("postgresql")
    allowed = [
        port["port"] for rule in by_name(objects)["NetworkPolicy", "maar"]["spec"]["egress"] for port in rule["ports"]
    ]
    assert 5432 in allowed


def test_without_a_history_nothing_may_reach_a_database() -> None:
    policy = by_name(rendered())["NetworkPolicy", "maar"]["spec"]
    assert {443, 6443, 8443, 16443, 53} == {port["port"] for rule in policy["egress"] for port in rule["ports"]}


def test_the_address_of_the_api_server_reaches_the_pods_and_the_policy() -> None:
    objects = rendered(MATRIX["elsewhere"])
    for name in ("maar", "maar-web"):
        (container,) = pods(objects)[name]["containers"]
        found = {variable["name"]: variable["value"] for variable in container["env"]}
        assert ("10.0.0.1", "7443") == (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT"])
    egress = by_name(objects)["NetworkPolicy", "maar"]["spec"]["egress"]
    assert {7443, 9090} <= {port["port"] for rule in egress for port in rule["ports"]}


def test_the_priority_class_works_in_every_namespace_by_default() -> None:
    """Clouds restrict Kubernetes' own classes outside `kube-system`; a class of the chart is not one of them."""
    objects = rendered()
    (made,) = (item for item in objects if item["kind"] == "PriorityClass")
    assert made["metadata"]["name"] == pods(objects)["maar"]["priorityClassName"]
    assert made["value"] <= 1_000_000_000, "the highest that is not Kubernetes' own"
    other = rendered(MATRIX["elsewhere"])
    assert "system-cluster-critical" == pods(other)["maar"]["priorityClassName"]
    assert not [item for item in other if item["kind"] == "PriorityClass"]
    assert "priorityClassName" not in pods(rendered(MATRIX["no protection"]))["maar"]


def test_gpu_nodes_are_avoided() -> None:
    affinity = pods(rendered())["maar"]["affinity"]["nodeAffinity"]
    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    keys = {term["key"] for term in preferred["preference"]["matchExpressions"]}
    assert "nvidia.com/gpu.present" in keys
    required = pods(rendered(MATRIX["elsewhere"]))["maar"]["affinity"]["nodeAffinity"]
    (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert keys == {one["key"] for one in term["matchExpressions"]}


def test_a_generated_certificate_is_for_the_services(tmp_path: Path) -> None:
    objects = by_name(rendered({"web.aggregated.enabled": True, "web.tls.hosts": ["maar.example"]}))
    data = objects["Secret", "maar-web"]["data"]
    assert data["ca.crt"] == objects["APIService", "v1.web.maar.dev"]["spec"]["caBundle"]
    names = certificate_names(data["tls.crt"], tmp_path)
    assert {"maar-web.maar-system.svc", "maar-web-aggregated.maar-system.svc", "localhost", "maar.example"} <= names


def certificate_names(encoded: str, folder: Path) -> set[str]:
    import base64
    import ssl

    file = folder / "tls.crt"
    file.write_bytes(base64.b64decode(encoded))
    decoded: Any = ssl._ssl._test_decode_cert(str(file))  # type: ignore[attr-defined]
    return {value for kind, value in decoded["subjectAltName"] if kind == "DNS"}


def test_a_shadow_alerts_only_about_what_happens() -> None:
    """It never leads, and counts evictions that it would make."""
    alerts = {
        shadow: {
            rule["alert"]
            for group in by_name(rendered({"shadow": shadow, **MONITORED}))["PrometheusRule", "maar"]["spec"]["groups"]
            for rule in group["rules"]
        }
        for shadow in (True, False)
    }
    assert {"MaarNotDeciding", "MaarManyEvictions"} == alerts[False] - alerts[True]


def test_a_maar_that_decides_does_not_hide_one_in_another_namespace_that_does_not() -> None:
    rule = by_name(rendered(MONITORED))["PrometheusRule", "maar"]["spec"]["groups"]
    (expr,) = [r["expr"] for group in rule for r in group["rules"] if r["alert"] == "MaarNotDeciding"]
    own = 'maar_leader{namespace="maar-system"}'
    assert f"absent({own}) == 1 or sum({own}) == 0" == expr


def test_prometheus_has_a_token_without_rights_for_maar_web() -> None:
    objects = by_name(rendered(MONITORED))
    (endpoint,) = objects["ServiceMonitor", "maar-web"]["spec"]["endpoints"]
    name = endpoint["authorization"]["credentials"]["name"]
    assert "kubernetes.io/service-account-token" == objects["Secret", name]["type"]
    subjects = [s["name"] for item in objects.values() for s in item.get("subjects", ()) if "name" in s]
    assert name not in subjects


def test_prometheus_scrapes_each_pod_once() -> None:
    for monitored in (False, True):
        template = by_name(rendered(MONITORED if monitored else {}))["Deployment", "maar"]["spec"]["template"]
        assert monitored != ("prometheus.io/scrape" in template["metadata"].get("annotations", {}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shard": 3}, "additional properties 'shard' not allowed"),
        ({"shards": 65}, "at '/shards': maximum: got 65, want 64"),
        ({"brakes.perMinute": -1}, "at '/brakes/perMinute': minimum: got -1, want 0"),
        ({"brakes.paused": "maybe"}, "at '/brakes/paused': got string, want boolean"),
        ({"brakes.perminute": 1}, "at '/brakes': additional properties 'perminute' not allowed"),
        ({"kinds.rays": False}, "at '/kinds': additional properties 'rays' not allowed"),
        ({"profile": "service"}, "at '/profile': value must be one of 'default', 'services'"),
        ({"logFormat": "xml"}, "at '/logFormat': value must be one of 'text', 'json'"),
        (
            {"web.tls.source": "acme"},
            "at '/web/tls/source': value must be one of 'generated', 'secret', 'cert-manager'",
        ),
        ({"priorityClass.value": 1000000001}, "at '/priorityClass/value': maximum"),
        ({"history.url": "mysql://db"}, "at '/history/url': 'mysql://db' does not match pattern"),
        ({"schedulerNames": []}, "at '/schedulerNames': minItems: got 0, want 1"),
        ({"image.digest": "latest"}, "at '/image/digest'"),
        ({"extraArgs": ["pod-events"]}, "at '/extraArgs/0'"),
        ({"shards": 3, "replicas": 2}, "replicas: 2 replicas cannot hold 3 shards; leave it out for 4"),
        ({"shards": 3, "shadow": True}, "shards: a shadow install decides as one Maar"),
        ({"shards": 3, "kinds.shards": False}, "shards: needs `kinds.shards: true`"),
        ({"history.url": "postgresql://a", "history.existingSecret": "b"}, "set either `url` or `existingSecret`"),
        ({"config": "actions: [allocate"}, "config: not a YAML mapping: "),
        ({"config": "- allocate"}, "config: not a YAML mapping: "),
        ({"config": "tenants: untrusted\n"}, "evictions.allowDelete: needed with `tenants: untrusted` in `config`"),
        ({"web.tls.source": "cert-manager"}, "web.tls.issuer.name: needed with `source: cert-manager`"),
        ({"web.tls.source": "secret", "web.aggregated.enabled": True}, "web.aggregated.caBundle: needed"),
        ({"web.enabled": False, "web.aggregated.enabled": True}, "web.aggregated: needs `web.enabled: true`"),
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(values: dict[str, Any], message: str) -> None:
    assert message in refusal(values)


def test_the_schema_knows_every_value_and_every_brake() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    compare({**values, "global": {}}, schema, "")
    brakes = {field.encode_name for field in msgspec.structs.fields(BrakeSettings)}
    assert brakes == schema["properties"]["brakes"]["properties"].keys()


def compare(values: dict[str, Any], schema: dict[str, Any], path: str) -> None:
    """The schema has exactly these names, each with a type, unless the names are the user's, as those of labels."""
    if "properties" not in schema:
        return
    known = schema["properties"]
    assert schema["additionalProperties"] is False, path
    assert values.keys() == known.keys(), path
    for name, value in values.items():
        assert {"type", "enum"} & known[name].keys(), f"{path}/{name}"
        if isinstance(value, dict):
            compare(value, known[name], f"{path}/{name}")
