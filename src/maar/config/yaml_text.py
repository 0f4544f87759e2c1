"""The text of a configuration, as plain data: YAML in, mappings and lists out.

Users keep the file by itself or inside the ConfigMap that they apply to their cluster; both are read. What the keys
mean is for `config_file`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import yaml

from maar.config.problems import Findings, shown

CONFIG_MAP_KEYS = ("maar.yaml", "volcano-scheduler.conf")
"""What our ConfigMap calls the file, and Volcano's; under another name it is found if it is the only one."""


def read_yaml(text: str, findings: Findings) -> object:
    """The one document of a file; nothing if there is none, or if it cannot be read (then it is reported)."""
    documents = [document for document in _documents(text, findings) if document is not None]
    objects = [d for d in documents if isinstance(d, dict) and "kind" in d]
    if not objects:
        if len(documents) > 1:
            findings.problem("", f"expected one configuration, got {len(documents)} documents")
        return documents[0] if len(documents) == 1 else None
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
    loader = _Loader(text, findings.warn)
    documents = []
    try:
        while loader.check_data():  # type: ignore[no-untyped-call]
            documents.append(loader.get_data())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        findings.problem(_place(mark), f"not valid YAML: {error.problem or error.context}")
        return []
    except (yaml.YAMLError, ValueError) as error:
        # No mark: a character that YAML forbids, or a date that does not exist.
        findings.problem("", f"not valid YAML: {str(error).splitlines()[0]}")
        return []
    finally:
        loader.dispose()
    return documents


def _place(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}"


class _Loader(yaml.CSafeLoader):
    """Plain data only; a key given twice is allowed, as in Volcano, but not silently."""

    def __init__(self, text: str, warn: Callable[[str, str], None]) -> None:
        super().__init__(text)
        self._warn = warn

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                self._warn(_place(key.start_mark), f"`{key.value}` is given twice: the last one counts")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)
