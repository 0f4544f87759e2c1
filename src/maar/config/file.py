"""Configuration files: from text to a `Config`, with every problem and every ignored setting reported.

Scheduler configurations of Volcano are read unchanged: the `actions` string, `tiers`, flags in both spellings,
`arguments`, `configurations`, and Volcano's names for plugins and actions. What Volcano has and Maar does not have yet
is left out with a warning, unless pods could land where they must not: that is a problem. So is any other unknown
content, with its path and a suggestion. A lenient reader leaves out all of these, each with a warning.

This runs once per file, before any session. The registry's catalog says which plugins exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources import files

import msgspec
from msgspec.structs import replace

from maar.config import gangs
from maar.config.arguments import build, clean, read_arguments, takes
from maar.config.config import (
    ActionOption,
    Autoscaling,
    Catalog,
    Config,
    Ignored,
    Metrics,
    Missing,
    PluginOption,
    Registration,
    Tenants,
)
from maar.config.flags import ARGUMENT_BESIDE_NAME, FLAG_UNDER_ARGUMENTS, HIERARCHY, as_bool, read_flags, spellings
from maar.config.metrics import NOT_GATHERED, USERS, read_metrics
from maar.config.pools import read_pools
from maar.config.problems import ConfigError, Findings, shown
from maar.config.yaml_text import read_yaml
from maar.model.words import unknown

KEYS = ("actions", "tiers", "configurations", "pools", "autoscaling", "tenants", "metrics", "pod-events")

PROVISIONING_GROUP = "autoscaling.x-k8s.io"
PROVISIONING_CLASSES = ("best-effort-atomic-scale-up", "check-capacity")
"""The classes of ProvisioningRequests that Cluster Autoscaler has; those of clouds are written in full."""

WITHOUT_SHARES = "no plugin defines what a queue deserves (`proportion`, `capacity`, or `drf` with `enableHierarchy`)"

MISPLACED_PODS = "pods could land where they must not"
UNKNOWN_LOSES = {
    "plugin": f"Maar decides without its rules, and {MISPLACED_PODS}",
    "action": "this step of the cycle does not run",
}
"""What is lost if a plugin or an action is skipped of which nothing is known."""

__all__ = ["PROFILES", "ConfigError", "Loaded", "default_config", "default_text", "profile_text", "read_config"]


class Loaded(msgspec.Struct, frozen=True):
    """A valid configuration."""

    config: Config
    warnings: list[str]
    """The settings that have no effect, and why."""


def read_config(text: str, source: str, catalog: Catalog, lenient: bool = False) -> Loaded:
    """The configuration in the text of a file; messages use `source` as its name.

    `lenient` skips what Maar does not know or does not have, each with a warning.
    """
    findings = Findings(source, lenient)
    document = read_yaml(text, findings)
    if document is None and not findings.problems:
        findings.warn("", "empty: Maar's default configuration is used (`maar config show` prints it)")
        return Loaded(default_config(catalog), [*catalog.broken.values(), *findings.warnings])
    config = _Reader(catalog, findings).read(document) if not findings.problems else None
    if config is None or findings.problems:
        raise ConfigError(findings.problems)
    return Loaded(config, findings.warnings)


def default_config(catalog: Catalog) -> Config:
    return read_config(default_text(), "maar/default.yaml", catalog).config


PROFILES = ("default", "services")
"""The configurations that come with Maar."""


def default_text() -> str:
    return profile_text("default")


def profile_text(name: str) -> str:
    """The text of one of the `PROFILES`."""
    return files("maar").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


EVICTED_BY = {"tdm": ("shuffle", "preempt")}
"""Plugins that name pods to evict, and the actions that evict them."""


@dataclass(slots=True)
class _Entry:
    """One plugin or action of the file while it is read."""

    registration: Registration
    path: str
    arguments_path: str
    arguments: dict[str, object] = field(default_factory=dict)
    flags: dict[str, bool] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.registration.name

    def build(self, findings: Findings) -> msgspec.Struct | None:
        return build(self.name, self.registration.arguments, self.arguments, self.arguments_path, findings)


class _Reader:
    """Reads one file."""

    def __init__(self, catalog: Catalog, findings: Findings) -> None:
        self._catalog = catalog
        self._findings = findings
        self._problem, self._warn = findings.problem, findings.warn

    def read(self, document: object) -> Config | None:
        """The configuration; it has gaps where a problem was reported."""
        if not isinstance(document, dict):
            self._problem("", f"expected a mapping with `actions` and `tiers`, got {shown(document)}")
            return None
        top = self._mapping(document, "")
        self._check_keys(top, KEYS, "")
        # The arguments of Volcano's gang actions end in the gang plugin, so actions come before tiers.
        names = self._action_names(top)
        actions = self._actions(names)
        whole = self._configurations(top, actions, names)
        tiers = self._tiers(top)
        plugins = [entry for tier in tiers for entry in tier]
        for entry in (plugin for plugin in plugins if plugin.name == gangs.GANG):
            gangs.permit_whole(whole, {e.name for e in actions}, entry.arguments, entry.flags)
        pools = read_pools(self._list(top.get("pools"), "pools"), dict(self._catalog.algorithms), self._findings)
        autoscaling = self._autoscaling(top)
        metrics = self._metrics(top, plugins)
        self._findings.warnings.extend(self._catalog.broken.values())
        self._check_reclaim(actions, plugins)
        self._check_rounds(actions, plugins)
        tenants = self._tenants(top, plugins)
        acting = [(e.registration, e.build(self._findings)) for e in actions]
        asked = [[(e, e.build(self._findings)) for e in tier] for tier in tiers]
        return Config(
            tuple(ActionOption(registration, made) for registration, made in acting if made is not None),
            tuple(
                tuple(PluginOption(e.registration, made, e.flags) for e, made in tier if made is not None)
                for tier in asked
            ),
            pools,
            tenants,
            autoscaling,
            metrics,
            self._pod_events(top),
        )

    # -- actions

    def _actions(self, names: list[str]) -> list[_Entry]:
        """The actions in their order. An action that is listed by two names runs once."""
        entries: list[_Entry] = []
        first: dict[str, str] = {}
        before = len(self._findings.problems)
        for written in names:
            registration = self._find("action", written, "actions")
            if registration is None:
                continue
            other = first.setdefault(registration.name, written)
            if other != written:
                self._warn(
                    "actions", f"`{other}` and `{written}` are the same action, `{registration.name}`: it runs once"
                )
                continue
            entries.append(_Entry(registration, "actions", "actions"))
        if names and not entries and len(self._findings.problems) == before:
            self._problem("actions", "no usable action is left")
        return entries

    def _action_names(self, top: dict[str, object]) -> list[str]:
        value = top.get("actions")
        if value is None:
            self._problem("actions", 'missing; write for example `actions: "enqueue, allocate, backfill"`')
            return []
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            self._problem("actions", f"expected names separated by commas, got {shown(value)}")
            return []
        names = [part.strip() for part in parts if part.strip()]
        if not names:
            self._problem("actions", 'empty; write for example `actions: "enqueue, allocate, backfill"`')
        return names

    def _configurations(self, top: dict[str, object], actions: list[_Entry], names: list[str]) -> dict[str, bool]:
        """Set the arguments of actions; return Volcano's gang actions, each with whether it may evict whole gangs."""
        whole = {name: True for name in gangs.VERBS if name in names}
        places: dict[str, str] = {}
        for i, item in enumerate(self._list(top.get("configurations"), "configurations")):
            path = f"configurations[{i}]"
            options = self._named(item, path)
            written = self._name(options)
            if written is None:
                self._check_keys(options, ("name", "arguments"), path)
                continue
            if written in places:
                self._problem(path, f"`{written}` is configured twice: at `{places[written]}` and here")
                continue
            places[written] = path
            registration = self._find("action", written, path, lost="its arguments have no effect")
            self._check_keys(options, ("name", "arguments"), path, registration)
            if registration is None:
                continue
            raw = self._mapping(options.get("arguments"), f"{path}.arguments")
            if registration.name in {verb for verb, _ in gangs.VERBS.values()}:
                if gangs.WHOLE_BUNDLE in raw and written not in whole:
                    self._findings.warn(f"{path}.arguments.{gangs.WHOLE_BUNDLE}", gangs.NO_BUNDLE)
                allowed = gangs.take_whole_bundle(raw, f"{path}.arguments", self._findings)
                whole.update({written: allowed} if written in whole else {})
            self._give(registration, raw, path, actions)
        return whole

    def _give(self, registration: Registration, raw: dict[str, object], path: str, actions: list[_Entry]) -> None:
        arguments = self._clean(registration, raw, f"{path}.arguments")
        takers = [entry for entry in actions if entry.registration is registration]
        if not takers:
            self._warn(path, f"`{registration.name}` is not among the `actions`: its arguments have no effect")
        for entry in takers:
            for name, value in arguments.items():
                if entry.arguments.setdefault(name, value) != value:
                    self._problem(f"{path}.arguments.{name}", f"contradicts `{entry.arguments_path}.{name}`")
            entry.arguments_path = f"{path}.arguments"

    # -- plugins

    def _tiers(self, top: dict[str, object]) -> list[list[_Entry]]:
        if top.get("tiers") is None:
            self._problem("tiers", "missing; write for example `tiers: [{plugins: [{name: priority}, {name: gang}]}]`")
            return []
        before = len(self._findings.problems)
        places: dict[str, str] = {}
        tiers = []
        for i, item in enumerate(self._list(top["tiers"], "tiers")):
            path = f"tiers[{i}]"
            tier = self._mapping(item, path)
            self._check_keys(tier, ("plugins",), path)
            plugins = self._list(tier.get("plugins"), f"{path}.plugins")
            found = [self._plugin(plugin, f"{path}.plugins[{j}]", places) for j, plugin in enumerate(plugins)]
            tiers.append([entry for entry in found if entry is not None])
            self._check_hierarchy(tiers[-1])
        if not any(tiers) and len(self._findings.problems) == before:
            self._problem("tiers", "no usable plugin is left; configure at least `priority` and `gang`")
        return tiers

    def _plugin(self, item: object, path: str, places: dict[str, str]) -> _Entry | None:
        plugin = self._named(item, path)
        written = self._name(plugin)
        if written is None:
            return None
        registration = self._find("plugin", written, path)
        if registration is None:
            return None
        if registration.name in places:
            self._problem(path, f"`{registration.name}` is listed twice: at `{places[registration.name]}` and here")
            return None
        places[registration.name] = path
        entry = _Entry(registration, path, f"{path}.arguments")
        ignored = self._ignored(registration)
        entry.flags = read_flags(plugin, path, self._findings, lambda key: takes(registration.arguments, key, ignored))
        raw = self._mapping(plugin.get("arguments"), entry.arguments_path)
        advice = dict.fromkeys(spellings(), FLAG_UNDER_ARGUMENTS)
        entry.arguments = self._clean(registration, raw, entry.arguments_path, advice)
        return entry

    def _check_hierarchy(self, tier: list[_Entry]) -> None:
        """Refuse two plugins that would order the queues by different shares, as Volcano does."""
        drf = next((e for e in tier if e.name == "drf" and e.flags.get(HIERARCHY)), None)
        proportion = next((e for e in tier if e.name == "proportion"), None)
        if drf is not None and proportion is not None:
            what = f"`drf` with `enableHierarchy` and `proportion` (`{proportion.path}`) cannot be in one tier"
            self._problem(drf.path, f"{what}: both share the cluster between queues")

    def _check_reclaim(self, actions: list[_Entry], plugins: list[_Entry]) -> None:
        """Warn if no plugin defines what a queue deserves: then no queue can keep anything."""
        if all(action.name != "reclaim" for action in actions):
            return
        if any(gangs.names_victims(plugin.name, plugin.flags) for plugin in plugins):
            return
        self._warn("actions", f"`reclaim` lets any queue take from any other: {WITHOUT_SHARES}")

    def _check_rounds(self, actions: list[_Entry], plugins: list[_Entry]) -> None:
        """Warn if no action evicts the pods that a plugin names."""
        for plugin in plugins:
            wanted = EVICTED_BY.get(plugin.name, ())
            if wanted and not any(action.name in wanted for action in actions):
                names = " or ".join(f"`{name}`" for name in wanted)
                self._warn("actions", f"`{plugin.name}` evicts nothing: no action does it: add {names}")

    def _tenants(self, top: dict[str, object], plugins: list[_Entry]) -> Tenants:
        said = top.get("tenants", Tenants.TRUSTED.value)
        known = [tenants.value for tenants in Tenants]
        if said not in known:
            self._problem("tenants", f"expected {' or '.join(f'`{name}`' for name in known)}, got {shown(said)}")
            return Tenants.TRUSTED
        if said == Tenants.UNTRUSTED.value and not any(plugin.name in gangs.SHARING for plugin in plugins):
            shares = " or ".join(f"`{name}`" for name in gangs.SHARING)
            self._warn("tenants", f"`{said}` limits no protection: no plugin defines what a queue deserves ({shares})")
        return Tenants(said)

    # -- the end

    def _pod_events(self, top: dict[str, object]) -> bool:
        said = top.get("pod-events")
        if said is not None and as_bool(said) is None:
            self._problem("pod-events", f"expected `true` or `false`, got {shown(said)}")
        return as_bool(said) is True

    def _autoscaling(self, top: dict[str, object]) -> Autoscaling:
        """What autoscalers are asked for; the short name of a class of Cluster Autoscaler is completed."""
        raw = self._mapping(top.get("autoscaling"), "autoscaling")
        read = read_arguments("autoscaling", Autoscaling, raw, "autoscaling", self._findings)
        if not isinstance(read, Autoscaling):
            return Autoscaling()
        name = read.provisioning_class
        if name and "." not in name:
            if name not in PROVISIONING_CLASSES:
                self._problem("autoscaling.provisioning-class", unknown("class", name, PROVISIONING_CLASSES))
            return replace(read, provisioning_class=f"{name}.{PROVISIONING_GROUP}")
        return read

    def _metrics(self, top: dict[str, object], plugins: list[_Entry]) -> Metrics:
        """The source of the real load of nodes; a warning if a plugin needs it and the file does not say."""
        raw = self._mapping(top.get("metrics"), "metrics")
        user = next((plugin for plugin in plugins if plugin.name in USERS), None)
        if not raw and user is not None:
            self._warn(user.path, f"`{user.name}` needs the section `metrics`: without it {NOT_GATHERED}")
        return read_metrics(raw, self._findings)

    # -- names, mappings and lists

    def _find(self, what: str, written: str, path: str, lost: str = "") -> Registration | None:
        """The plugin or action of that name; any other name is reported."""
        catalog = self._catalog
        these, others = catalog.plugins, catalog.actions
        if what == "action":
            these, others = others, these
        name = written if written in these else catalog.aliases.get(written, written)
        if name in these:
            return these[name]
        missing = self._missing(written)
        if missing is not None:
            self._leave_out(written, missing, path)
        elif written in catalog.broken:
            self._problem(path, catalog.broken[written])
        elif name in others:
            self._problem(path, _misplaced(what, written))
        else:
            also = [*catalog.aliases, *(name for name in catalog.missing if "*" not in name)]
            self._findings.unknown(path, what, written, these, also=also, lost=lost or UNKNOWN_LOSES[what])
        return None

    def _missing(self, written: str) -> Missing | None:
        return next((m for name, m in self._catalog.missing.items() if fnmatchcase(written, name)), None)

    def _leave_out(self, written: str, missing: Missing, path: str) -> None:
        lost = f"Maar does not have it yet: {missing.lost}"
        if not missing.misplaces:
            self._warn(path, f"`{written}` is skipped, {lost}")
        elif self._findings.lenient:
            self._warn(path, f"`{written}` is skipped, {lost}; {MISPLACED_PODS}")
        else:
            self._problem(path, f"`{written}` is refused, {lost}; {MISPLACED_PODS}; `--lenient` skips it")

    def _named(self, item: object, path: str) -> dict[str, object]:
        if isinstance(item, str):
            self._problem(path, f"expected a mapping, got `{item}`; write `- name: {item}`")
            return {}
        options = self._mapping(item, path)
        if self._name(options) is None and (item is None or isinstance(item, dict)):
            self._problem(f"{path}.name", f"expected a name, got {shown(options.get('name'))}")
        return options

    @staticmethod
    def _name(options: dict[str, object]) -> str | None:
        name = options.get("name")
        return name.strip() or None if isinstance(name, str) else None

    def _ignored(self, registration: Registration) -> Mapping[str, Ignored]:
        return self._catalog.ignored.get(registration.name, {})

    def _clean(
        self, registration: Registration, raw: dict[str, object], path: str, advice: Mapping[str, str] = {}
    ) -> dict[str, object]:
        ignored = self._ignored(registration)
        return clean(registration.name, registration.arguments, raw, path, self._findings, ignored, advice)

    def _mapping(self, value: object, path: str) -> dict[str, object]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._problem(path, f"expected a mapping, got {shown(value)}")
            return {}
        odd = [key for key in value if not isinstance(key, str)]
        for key in odd:
            self._problem(path, f"expected a name before the colon, got {shown(key)}")
        return {key: content for key, content in value.items() if isinstance(key, str)}

    def _list(self, value: object, path: str) -> list[object]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._problem(path, f"expected a list, got {shown(value)}")
            return []
        return value

    def _check_keys(
        self, mapping: dict[str, object], known: tuple[str, ...], path: str, taker: Registration | None = None
    ) -> None:
        """Report unknown keys. `taker` is the action whose arguments may be among them by mistake."""
        for key in mapping:
            if key not in known:
                misplaced = taker is not None and takes(taker.arguments, key, self._ignored(taker))
                advice = ARGUMENT_BESIDE_NAME if misplaced else ""
                self._findings.unknown(path, "key", key, known, lost="Maar decides without it", advice=advice)


def _misplaced(what: str, written: str) -> str:
    if what == "plugin":
        return f"`{written}` is an action, not a plugin: write it in `actions`"
    return f"`{written}` is a plugin, not an action: write it in `tiers`"
