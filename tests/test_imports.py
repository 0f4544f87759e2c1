"""No import of a module of Maar changes anything outside of Maar: all are imported by a fresh interpreter."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import locale
import logging
import os
import pkgutil
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import warnings
from types import ModuleType
from typing import Any

import pytest

import maar

STARTS = "__main__"
"""The last part of a module's name that starts a program when it is imported."""
THEIRS = {
    ("concurrent.futures", "ProcessPoolExecutor"): "imported when it is first used",
    ("sqlalchemy.util.langhelpers", "_creation_order"): "counts the columns that exist",
}
"""What libraries change by themselves when their parts are used."""
CACHES = (list, dict, set)
"""Variables that libraries fill as they are used."""


def ours() -> list[str]:
    """All modules of Maar."""
    found = (module.name for module in pkgutil.walk_packages(maar.__path__, "maar."))
    return ["maar", *(name for name in found if not name.endswith(STARTS))]


def others() -> list[str]:
    """The loaded modules of Python and of libraries."""
    return [name for name in sys.modules if name.partition(".")[0] not in ("maar", "tests", "__main__", "__mp_main__")]


def variables(names: list[str]) -> dict[tuple[str, ...], Any]:
    """The variables of modules, and of the classes that they define."""
    found: dict[tuple[str, ...], Any] = {}
    for name in names:
        for key, value in list(vars(sys.modules[name]).items()):
            if isinstance(value, (ModuleType, *CACHES)) or (name, key) in THEIRS:
                continue
            found[name, key] = id(value)
            if isinstance(value, type) and value.__module__ == name:
                found |= {(name, key, inner): id(each) for inner, each in list(vars(value).items())}
    return found


def process() -> dict[tuple[str, ...], Any]:
    """What belongs to the whole process."""
    loggers = {name: logging.getLogger(name) for name in logging.root.manager.loggerDict}
    hooks = sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook, sys.gettrace()
    found = {
        "signal handlers": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "log": (logging.root.level, logging.root.handlers[:], logging.root.disabled),
        "loggers": {name: (it.level, it.handlers[:]) for name, it in loggers.items() if it.level or it.handlers},
        "warnings": warnings.filters[:],
        "locale": locale.setlocale(locale.LC_ALL),
        "switch interval": sys.getswitchinterval(),
        "event loop policy": asyncio.get_event_loop_policy(),
        "environment": dict(os.environ),
        "numbers": (sys.getrecursionlimit(), sys.get_int_max_str_digits(), random.getstate()),
        "hooks": hooks,
        "paths": (sys.path[:], os.getcwd()),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "collector": (gc.get_threshold(), gc.isenabled(), gc.callbacks[:]),
        "socket timeout": socket.getdefaulttimeout(),
        "limits": [resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "threads": threading.enumerate(),
    }
    return {(name,): value for name, value in found.items()}


def loaded() -> list[str]:
    """The modules of Python and of libraries that Maar needs."""
    for name in ours():
        importlib.import_module(name)
    return others()


def changes(libraries: list[str]) -> list[str]:
    """What the imports of all modules of Maar change, after those of the libraries that they need."""
    for name in libraries:
        importlib.import_module(name)
    known = others()
    before = process() | variables(known)  # the first one to ask for the event loop policy creates it
    for name in ours():
        importlib.import_module(name)
    after = process() | variables(known)
    return sorted(".".join(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _said(what: str, given: str = "") -> Any:
    """What a fresh interpreter finds."""
    script = f"import json, sys, tests.test_imports as here; print(json.dumps(here.{what}))"
    done = subprocess.run([sys.executable, "-c", script], input=given, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_no_import_changes_anything_outside_of_maar() -> None:
    libraries = _said("loaded()")
    assert {"asyncio.sslproto", "numpy", "aiohttp"} <= set(libraries)
    assert [] == _said("changes(json.loads(sys.stdin.read()))", json.dumps(libraries))
