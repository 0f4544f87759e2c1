"""The manifests in `deploy/`: they say what the code does, needs and accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml

from maar import __version__
from maar.cli.run import run
from maar.controller.brakes import Settings
from maar.controller.watching import home_of
from maar.kube.resources import RESOURCES
from maar.registry import catalog
from maar.session.config_file import default_config, read_config

DEPLOY = Path(__file__).parents[1] / "deploy"
WATCHED = [resource for resource in RESOURCES if home_of(resource) is not None]


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """Every object in the order in which `kubectl apply -f deploy` sends it, by kind and name."""
    objects = [item for file in sorted(DEPLOY.glob("*.yaml")) for item in yaml.safe_load_all(file.read_text())]
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def rules(kind: str = "ClusterRole") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manifests()[kind, "maar"]["rules"]
    return found


def granted(group: str, resource: str, kind: str = "ClusterRole") -> set[str]:
    """The verbs that a role gives on a resource."""
    fit = [r["verbs"] for r in rules(kind) if group in r["apiGroups"] and resource in r["resources"]]
    return {verb for verbs in fit for verb in verbs}


def container() -> dict[str, Any]:
    (only,) = manifests()["Deployment", "maar"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def arguments() -> click.Context:
    """The Deployment's arguments as the command line reads them; unknown ones raise."""
    command, *options = container()["args"]
    assert "run" == command
    return run.make_context("run", list(options))


def test_the_namespace_comes_first_and_holds_the_rest() -> None:
    first, *rest = manifests().values()
    assert ("Namespace", "maar-system") == (first["kind"], first["metadata"]["name"])
    cluster_wide = {"ClusterRole", "ClusterRoleBinding"}
    assert {"maar-system"} == {m["metadata"].get("namespace") for m in rest if m["kind"] not in cluster_wide}


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_the_bindings_give_the_roles_to_the_account_of_the_deployment(kind: str) -> None:
    binding = manifests()[f"{kind}Binding", "maar"]
    assert {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "maar"} == binding["roleRef"]
    account = manifests()["Deployment", "maar"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert [{"kind": "ServiceAccount", "name": account, "namespace": "maar-system"}] == binding["subjects"]
    assert ("ServiceAccount", account) in manifests()


@pytest.mark.parametrize("resource", WATCHED, ids=lambda r: f"{r}-{r.version}")
def test_everything_that_is_watched_may_be_read(resource: Any) -> None:
    assert {"get", "list", "watch"} <= granted(resource.group, resource.plural)


def test_nothing_may_be_read_that_is_not_watched() -> None:
    read = {(g, p) for rule in rules() for g in rule["apiGroups"] for p in rule["resources"] if "list" in rule["verbs"]}
    assert {(resource.group, resource.plural) for resource in WATCHED} == read


@pytest.mark.parametrize(
    ("group", "resource", "verbs"),
    [
        ("", "pods/binding", {"create"}),
        ("", "pods/eviction", {"create"}),
        ("", "pods/status", {"patch"}),
        ("", "events", {"create", "patch"}),
        ("", "pods", {"get", "list", "watch", "patch"}),
        ("", "nodes", {"get", "list", "watch", "patch"}),
        ("scheduling.volcano.sh", "podgroups", {"get", "list", "watch", "patch"}),
        ("scheduling.volcano.sh", "queues", {"get", "list", "watch", "create"}),
        ("scheduling.k8s.io", "podgroups", {"get", "list", "watch", "patch"}),
        ("scheduling.k8s.io", "podgroups/status", {"patch"}),
        ("scheduling.x-k8s.io", "podgroups", {"get", "list", "watch", "patch"}),
        ("scheduling.x-k8s.io", "podgroups/status", {"patch"}),
    ],
)
def test_what_is_written_may_be_written_and_nothing_more(group: str, resource: str, verbs: set[str]) -> None:
    assert verbs == granted(group, resource)


def test_the_lease_may_be_written_where_it_lives() -> None:
    assert {"get", "create", "update"} == granted("coordination.k8s.io", "leases", "Role")
    assert manifests()["Role", "maar"]["metadata"]["namespace"] == arguments().params["lease_namespace"]


def test_the_arguments_are_options_of_maar_run() -> None:
    given = arguments().params
    assert given["leader_elect"]
    assert not given["dry_run"]
    assert not given["delete_victims"], "the role does not let it delete pods"
    assert ("maar",) == given["names"]


def test_the_files_that_are_named_are_in_the_configmap() -> None:
    (mount,) = (m for m in container()["volumeMounts"] if m["name"] == "configuration")
    assert "subPath" not in mount, "a single file that is mounted never changes"
    given = arguments().params
    files = {Path(given["config_file"]), Path(given["brake_file"])}
    assert {Path(mount["mountPath"]) / key for key in manifests()["ConfigMap", "maar"]["data"]} == files


def test_the_probes_ask_the_port_that_is_served() -> None:
    (port,) = container()["ports"]
    assert arguments().params["http_port"] == port["containerPort"]
    probes = {probe: container()[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe")}
    assert {"/healthz", "/readyz"} == {get["path"] for get in probes.values()}
    assert {port["name"]} == {get["port"] for get in probes.values()}


def test_the_configuration_is_maars_own() -> None:
    loaded = read_config(manifests()["ConfigMap", "maar"]["data"]["maar.yaml"], "maar.yaml", catalog())
    assert [] == loaded.warnings
    assert default_config(catalog()) == loaded.config


def test_the_brakes_are_off() -> None:
    document = yaml.safe_load(manifests()["ConfigMap", "maar"]["data"]["brakes.yaml"])
    assert Settings() == msgspec.convert(document, Settings)
    fields = {field.encode_name for field in msgspec.structs.fields(Settings)}
    assert fields == document.keys(), "every brake is there to be set"


def test_the_image_is_that_of_this_version() -> None:
    assert f"maar:{__version__}" == container()["image"]
    assert f"-t maar:{__version__} " in (DEPLOY / "Dockerfile").read_text()
