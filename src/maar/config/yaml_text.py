"""Finds the configuration among the documents of a file.

Users keep the configuration in a file of its own or inside the ConfigMap that they apply; both are read. `config.file`
interprets the keys; `model.documents` parses the YAML.
"""

from __future__ import annotations

from typing import Any

from maar.config.problems import Findings, shown
from maar.model.documents import DocumentError, TextPosition, documents

CONFIG_MAP_KEYS = ("maar.yaml", "volcano-scheduler.conf")
"""The file's key in Maar's and in Volcano's ConfigMap. With another key, it is found if it is the only one."""


def read_yaml(text: str, findings: Findings) -> object:
    """The one document of a file; `None` if the file is empty or cannot be read (which is reported)."""
    found = [document for document in _documents(text, findings) if document is not None]
    objects = [d for d in found if isinstance(d, dict) and "kind" in d]
    if not objects:
        if len(found) > 1:
            findings.problem("", f"expected one configuration, got {len(found)} documents")
        return found[0] if len(found) == 1 else None
    maps = [o for o in objects if o["kind"] == "ConfigMap"]
    if len(maps) != 1:
        kinds = ", ".join(sorted(str(o["kind"]) for o in objects))
        findings.problem("", f"expected a configuration, or one ConfigMap that holds it, got: {kinds}")
        return None
    return _in_config_map(maps[0], findings)


def _in_config_map(manifest: dict[Any, Any], findings: Findings) -> object:
    data = manifest.get("data")
    expected = "expected a file named " + " or ".join(f"`{key}`" for key in CONFIG_MAP_KEYS)
    if not isinstance(data, dict) or not data:
        findings.problem("data", f"{expected}, got {shown(data or None)}")
        return None
    key = next(iter(data)) if len(data) == 1 else next((key for key in CONFIG_MAP_KEYS if key in data), "")
    if not isinstance(data.get(key), str):
        findings.problem("data", f"{expected}, got: {', '.join(map(str, data))}")
        return None
    findings.source = f"{findings.source}: data.{key}"
    return read_yaml(data[key], findings)


def _documents(text: str, findings: Findings) -> list[Any]:
    """All documents; a repeated key is allowed, as in Volcano, but gives a warning."""

    def warn(place: TextPosition, key: str) -> None:
        findings.warn(str(place), f"`{key}` is given twice: the last one counts")

    try:
        return list(documents(text, warn))
    except DocumentError as error:
        findings.problem(str(error.place or ""), f"not valid YAML: {error.problem}")
        return []
