"""The section `metrics` of a configuration file: where the real load of nodes comes from.

The keys are those of Volcano, nested (`tls: {insecureSkipVerify: true}`) or with dots, and its values are texts.
"""

from __future__ import annotations

import re

from maar.config.config import LoadOrigin, Metrics
from maar.config.flags import as_bool
from maar.config.problems import Findings, shown
from maar.model.durations import parse_duration
from maar.model.loads import MAX_AGE

PATH = "metrics"
USERS = ("usage", "rescheduling")
"""Plugins that use the figures."""
TLS, ELASTIC = "tls", "elasticsearch"
INSECURE = "insecureSkipVerify"
KEYS = ("type", "address", "interval", f"{TLS}.{INSECURE}")
SHORTEST = 1.0
"""Seconds between two readings at least."""
URL = re.compile(
    r"https?://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?(?:/[!-~]*)?", re.ASCII | re.IGNORECASE
)
"""A host by name or address, with an optional port and path."""
NOT_GATHERED = "the real load of nodes is not gathered"


def read_metrics(raw: dict[str, object], findings: Findings) -> Metrics:
    """How the load of nodes is gathered; problems are reported."""
    given = _flat(raw, findings)
    source = _source(given.pop("type", None), findings) if given else None
    made = Metrics(
        source,
        _address(given.pop("address", None), source, findings),
        _interval(given.pop("interval", None), findings),
        _insecure(given.pop(f"{TLS}.{INSECURE}", None), findings),
    )
    for key in given:
        if not key.startswith(f"{ELASTIC}."):
            findings.unknown(PATH, "key", key, KEYS, lost="the load of nodes is gathered without it")
    return made


def _flat(raw: dict[str, object], findings: Findings) -> dict[str, object]:
    """All values by their names with dots."""
    found: dict[str, object] = {}
    for key, value in raw.items():
        if key not in (TLS, ELASTIC):
            found[key] = value
        elif isinstance(value, dict):
            found.update({f"{key}.{inner}": content for inner, content in value.items()})
        elif value is not None:
            findings.problem(f"{PATH}.{key}", f"expected a mapping, got {shown(value)}")
    return {key: value for key, value in found.items() if value is not None}


def _source(said: object, findings: Findings) -> LoadOrigin | None:
    known = [source.value for source in LoadOrigin]
    if said in known:
        return LoadOrigin(said)
    if said is None:
        findings.warn(PATH, f"no `type` ({', '.join(f'`{name}`' for name in known)}): {NOT_GATHERED}")
    elif said == ELASTIC:
        others = ", ".join(f"`{name}`" for name in known)
        findings.warn(f"{PATH}.type", f"`{ELASTIC}` is not supported: {NOT_GATHERED}; supported: {others}")
    else:
        findings.unknown(f"{PATH}.type", "source", str(said), known, lost=NOT_GATHERED)
    return None


def _address(said: object, source: LoadOrigin | None, findings: Findings) -> str:
    if source is not LoadOrigin.PROMETHEUS:
        return ""
    if said is None:
        findings.problem(
            PATH, "`prometheus` needs the `address` of Prometheus, like `http://prometheus.monitoring:9090`"
        )
        return ""
    text = str(said).strip()
    url = URL.fullmatch(text)
    if url is None or int(url["port"] or 1) not in range(1, 65536):
        findings.problem(f"{PATH}.address", f"expected a URL like `http://prometheus:9090`, got {shown(said)}")
    return text


def _interval(said: object, findings: Findings) -> float:
    """Seconds between two readings; as in Volcano, 0 means the default."""
    default = Metrics().interval
    if said is None:
        return default
    try:
        seconds = parse_duration(said if isinstance(said, str | int | float) else str(said))
    except ValueError as error:
        findings.problem(f"{PATH}.interval", str(error))
        return default
    if seconds > MAX_AGE:
        age = f"{MAX_AGE / 60:g} minutes"
        findings.warn(
            f"{PATH}.interval", f"`{said}`: figures older than {age} count as absent, so most of the time they do"
        )
    return max(seconds, SHORTEST) if seconds > 0 else default


def _insecure(said: object, findings: Findings) -> bool:
    if said is None:
        return False
    value = as_bool(said)
    if value is None:
        findings.problem(f"{PATH}.{TLS}.{INSECURE}", f"expected `true` or `false`, got {shown(said)}")
    elif value:
        findings.warn(
            f"{PATH}.{TLS}.{INSECURE}", "anyone on the way can forge the figures: the certificate is not checked"
        )
    return bool(value)
