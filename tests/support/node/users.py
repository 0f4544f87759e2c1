"""`maar` as people outside the cluster run it: with a kubeconfig, and with the address of `maar web`."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support.charts import NAMESPACE
from tests.support.node.node import RealNode

WEB = "maar-web.maar-system.svc"


def cluster_ip(node: RealNode, service: str) -> str:
    """The address of a Service of Maar."""
    address: str = node.cluster.get("v1", "Service", service, NAMESPACE)["spec"]["clusterIP"]
    return address


class Users:
    """Commands and requests of the administrator of a node."""

    def __init__(self, node: RealNode, history: str) -> None:
        self._node = node
        self._history = history
        self._ca = node.folder / "web-ca.crt"
        secret = node.cluster.get("v1", "Secret", "maar-web", NAMESPACE)
        self._ca.write_bytes(b64decode(secret["data"]["ca.crt"]))
        with Path("/etc/hosts").open("a") as names:  # there is no DNS here
            names.write(f"{cluster_ip(node, 'maar-web')} {WEB}\n")

    def history(self, *arguments: str) -> str:
        return self._run("history", "--history", self._history, *arguments)

    def when(self, *arguments: str) -> str:
        server = ["--server", f"https://{WEB}", "--server-ca", str(self._ca)]
        return self._run("when", "--kubeconfig", str(self._node.cluster.kubeconfig), *server, *arguments)

    def forecasts(self) -> Any:
        """`GET forecasts` of `maar web`."""
        tls = ssl.create_default_context(cafile=str(self._ca))
        with closing(http.client.HTTPSConnection(WEB, context=tls, timeout=30)) as connection:
            token = {"Authorization": f"Bearer {self._node.cluster.token}"}
            connection.request("GET", "/api/v1/forecasts", headers=token)
            return json.loads(connection.getresponse().read())

    def _run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "maar.cli.main", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
        assert 0 == done.returncode, done.stderr
        return done.stdout
