"""The manifests in `deploy/web` match what `maar web` does, needs and accepts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import click
import yaml

from maar import __version__
from maar.cli.web import web
from maar.controller.process import LEASE_NAMESPACE
from maar.kube.kinds import rights, rights_to_read, rights_to_read_at_home
from maar.web.api.aggregated import ROLE
from maar.web.api.roots import GROUP, VERSION

DEPLOY = Path(__file__).parents[1] / "deploy"


def manifests() -> dict[str, dict[str, Any]]:
    """Every object by kind."""
    found = list(yaml.safe_load_all((DEPLOY / "web" / "web.yaml").read_text()))
    assert {"maar-web"} == {item["metadata"]["name"] for item in found}
    return {item["kind"]: item for item in found}


def container() -> dict[str, Any]:
    (only,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def arguments() -> click.Context:
    command, *options = container()["args"]
    assert "web" == command
    return web.make_context("web", list(options))


def test_rights_are_the_reading_half_and_the_questions_about_users() -> None:
    needed: dict[tuple[str, str], set[str]] = {}
    for right in rights_to_read():
        needed.setdefault((right.group, right.resource), set()).update(right.verbs)
    given: dict[tuple[str, str], set[str]] = {}
    for rule in manifests()["ClusterRole"]["rules"]:
        for place in itertools.product(rule["apiGroups"], rule["resources"]):
            given.setdefault(place, set()).update(rule["verbs"])
    assert needed == given
    written = {place for place, verbs in given.items() if verbs - {"get", "list", "watch"}}
    assert {
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    } == written, "it stores nothing"
    read = {(r.group, r.resource) for r in rights() if set(r.verbs) & {"get", "list", "watch"}}
    assert read | written | {("", "events")} == given.keys()


def test_it_reads_the_state_in_its_namespace() -> None:
    (rule,) = manifests()["Role"]["rules"]
    given = {(name, verb) for name in rule["resourceNames"] for verb in rule["verbs"]}
    assert {(name, verb) for name, right in rights_to_read_at_home() for verb in right.verbs} == given
    assert {LEASE_NAMESPACE} == {manifests()[kind]["metadata"]["namespace"] for kind in ("Role", "RoleBinding")}
    assert LEASE_NAMESPACE == arguments().params["lease_namespace"]


def test_the_bindings_give_the_roles_to_the_account_of_the_deployment() -> None:
    account = manifests()["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert account == manifests()["ServiceAccount"]["metadata"]["name"]
    for kind in ("ClusterRole", "Role"):
        binding = manifests()[f"{kind}Binding"]
        assert (kind, "maar-web") == (binding["roleRef"]["kind"], binding["roleRef"]["name"])
        assert [{"kind": "ServiceAccount", "name": account, "namespace": "maar-system"}] == binding["subjects"]


def test_the_arguments_are_options_of_maar_web_and_tokens_travel_over_tls() -> None:
    given = arguments().params
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in container()["volumeMounts"]}
    assert mounts["tls"] == Path(given["tls_cert"]).parent == Path(given["tls_key"]).parent
    assert mounts["configuration"] == Path(given["config"]).parent == Path(given["brakes"]).parent
    assert ("", False) == (given["address"], given["anonymous"])
    (scheduler,) = yaml.safe_load((DEPLOY / "3-deployment.yaml").read_text())["spec"]["template"]["spec"]["containers"]
    for option in ("--config", "--brakes", "--scheduler-name"):
        (same,) = (argument for argument in scheduler["args"] if argument.startswith(f"{option}="))
        assert same in container()["args"], "the same as for `maar run`"


def test_the_probes_and_the_service_use_the_served_port() -> None:
    (port,) = container()["ports"]
    assert arguments().params["port"] == port["containerPort"]
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        get = container()[probe]["httpGet"]
        assert (path, port["name"], "HTTPS") == (get["path"], get["port"], get["scheme"])
    service = manifests()["Service"]["spec"]
    pods = manifests()["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"] == pods
    assert port["name"] == service["ports"][0]["targetPort"]


def test_the_image_is_that_of_this_version() -> None:
    assert f"maar:{__version__}" == container()["image"]


def test_the_aggregated_api_is_registered_as_it_is_served() -> None:
    found = {item["kind"]: item for item in yaml.safe_load_all((DEPLOY / "web/aggregated/aggregated.yaml").read_text())}
    spec, service = found["APIService"]["spec"], found["Service"]
    assert (GROUP, VERSION, f"{VERSION}.{GROUP}") == (
        *(spec["group"], spec["version"]),
        found["APIService"]["metadata"]["name"],
    )
    where = {"name": service["metadata"]["name"], "namespace": service["metadata"]["namespace"]}
    assert {**where, "port": service["spec"]["ports"][0]["port"]} == spec["service"]
    assert manifests()["Service"]["spec"]["selector"] == service["spec"]["selector"]
    args = ["--tls-cert=x", "--tls-key=y", f"--aggregated-port={service['spec']['ports'][0]['targetPort']}"]
    assert 8444 == web.make_context("web", args).params["aggregated_port"]
    assert "aggregated-port=8444" in (DEPLOY / "web/aggregated/aggregated.yaml").read_text()
    (rule,) = found["ClusterRole"]["rules"]
    assert ([GROUP], ["*"], ["get", "list", "create"]) == (rule["apiGroups"], rule["resources"], rule["verbs"])
    assert (ROLE, "kube-system") == (
        found["RoleBinding"]["roleRef"]["name"],
        found["RoleBinding"]["metadata"]["namespace"],
    )
    assert manifests()["RoleBinding"]["subjects"] == found["RoleBinding"]["subjects"]
