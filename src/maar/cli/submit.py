"""`maar submit`: check manifests of jobs, complete them, and create them with the rights of the kubeconfig."""

from __future__ import annotations

import json
from typing import Any

import click

from maar.cli.asking.options import CLUSTER_OPTIONS, connected, guarded
from maar.cli.support.exits import BadInput, CannotRun
from maar.cli.support.inputs import OUTPUT
from maar.cli.support.output import say, say_json, tell
from maar.cli.support.printing import printed
from maar.controller.process import NAME
from maar.kube.client.access import load_access, load_namespace
from maar.kube.client.api import Api
from maar.kube.picture.manifests import ManifestPlace, documents_in
from maar.kube.submit.errors import SubmitError
from maar.kube.submit.manifests import Manifest, prepared
from maar.kube.submit.names import check_names, cluster_names
from maar.kube.submit.service import PartlyCreated, Submitted, create


def submit(
    kubeconfig: str | None,
    context: str | None,
    namespaces: tuple[str, ...],
    paths: tuple[str, ...],
    names: tuple[str, ...],
    dry_run: bool,
    no_suspend: bool,
    output: str,
) -> None:
    """Check, complete and create jobs: of every kind that `docs/kinds.md` lists, with PodGroups and pods.

    All pods get the scheduler's name. Gangs and elastic jobs are created suspended where their kind has that: Maar
    resumes them when there is room for all of their pods. What the manifest says itself stays. Jobs are created with
    your own rights; nothing is created if one of the manifests is not valid, or names a queue or a priority class that
    it cannot use.
    """
    if len(namespaces) > 1:
        raise click.UsageError("-n: expected one namespace")
    found = _prepared(paths, namespaces[0] if namespaces else "", names, not no_suspend, kubeconfig, context)
    manifests = [manifest for _, manifest in found]
    for manifest in manifests:
        for warning in manifest.warnings:
            tell(f"warning: {manifest.document['kind']} {manifest.namespace}/{manifest.name}: {warning}")

    async def main() -> None:
        async with connected(load_access(kubeconfig, context)) as api:
            await _check_names(api, found)
            try:
                made = await create(api, manifests, dry_run=dry_run)
            except PartlyCreated as error:
                raise CannotRun(str(error)) from None
        _show(made, manifests, dry_run, output)

    guarded(main)


def _prepared(
    paths: tuple[str, ...],
    namespace: str,
    names: tuple[str, ...],
    suspend: bool,
    kubeconfig: str | None,
    context: str | None,
) -> list[tuple[ManifestPlace, Manifest]]:
    found: list[tuple[ManifestPlace, Manifest]] = []
    default = namespace or load_namespace(kubeconfig, context)
    for place, document in documents_in(paths):
        stated = isinstance(document, dict) and (document.get("metadata") or {}).get("namespace")
        where = namespace if namespace or stated else default
        try:
            found.append((place, prepared(document, namespace=where, names=names, suspend=suspend)))
        except SubmitError as error:
            raise BadInput(f"{place}: {error}") from None
    if not found:
        raise BadInput(f"{', '.join(paths)}: no job was found")
    return found


async def _check_names(api: Api, found: list[tuple[ManifestPlace, Manifest]]) -> None:
    """Refuse queues and priority classes that the jobs cannot use, before anything is created."""
    names = await cluster_names(api)
    for place, manifest in found:
        try:
            notes = check_names(manifest, names)
        except SubmitError as error:
            raise BadInput(f"{place}: {error}") from None
        for note in notes:
            tell(f"warning: {manifest.document['kind']} {manifest.namespace}/{manifest.name}: {note}")


def _show(made: list[Submitted], manifests: list[Manifest], dry_run: bool, output: str) -> None:
    if output == "json":
        items = [
            {
                "apiVersion": s.resource.api_version,
                "kind": s.resource.kind,
                "namespace": s.item.namespace,
                "name": s.item.name,
                "completed": list(m.completed),
            }
            for s, m in zip(made, manifests, strict=True)
        ]
        body: dict[str, Any] = {"dryRun": dry_run, "created": items}
        say_json(json.dumps(body, indent=2))
        return
    lines: list[str] = []
    for submitted, manifest in zip(made, manifests, strict=True):
        lines.append(f"{submitted} {'would be created' if dry_run else 'created'}")
        lines += [f"  {line}" for line in manifest.completed]
    say(printed(lines))


for option in (
    OUTPUT,
    click.option("--no-suspend", is_flag=True, help="Do not suspend jobs that the manifest does not suspend."),
    click.option("--dry-run", is_flag=True, help="Let the API server check everything, and create nothing."),
    click.option(
        "--scheduler-name", "names", multiple=True, default=(NAME,), show_default=True, metavar="NAME",
        help="Name of the scheduler; pods that name none get the first. May be repeated.",
    ),
    *reversed(CLUSTER_OPTIONS),
    click.option(
        "-f", "--file", "paths", multiple=True, required=True, metavar="PATH",
        help="Manifests: a file, a folder, or - for standard input. May be repeated.",
    ),
):  # fmt: skip
    submit = option(submit)
submit = click.command()(submit)
