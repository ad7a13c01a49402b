"""The control socket: what it answers, whom, and what no junk does to it."""

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tenex.core.errors import ConfigurationError, StoreError, StoreLocked, TenexError, UsageError
from tenex.service import control
from tenex.service.client import ask
from tenex.service.control import CLIENTS, REQUEST_BYTES, control_socket

REFUSALS: dict[str, TenexError] = {
    "configuration": ConfigurationError(["one fault", "another"]),
    "usage": UsageError("no such conversation"),
    "store": StoreError("damaged"),
    "other": TenexError("not now"),
}


async def echo(request: dict[str, Any]) -> Any:
    return request


async def refuse(request: dict[str, Any]) -> Any:
    raise REFUSALS[request["kind"]]


async def fail(_: dict[str, Any]) -> Any:
    raise RuntimeError("a fault of ours")


async def strange(_: dict[str, Any]) -> Any:
    return object()


HANDLERS: Mapping[str, control.Handler] = {"echo": echo, "refuse": refuse, "fail": fail, "strange": strange}


@pytest.fixture
async def path(tmp_path: Path) -> AsyncIterator[Path]:
    async with control_socket(tmp_path / "tenex.sock", HANDLERS):
        yield tmp_path / "tenex.sock"


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_unix_connection(path)
    with closing(writer):
        yield reader, writer


async def line(reader: asyncio.StreamReader) -> dict[str, Any]:
    async with asyncio.timeout(60):
        answer: dict[str, Any] = json.loads(await reader.readline())
    return answer


async def test_questions_are_answered_in_order(path: Path) -> None:
    assert await ask(path, "echo", id="ab12", words=["ä", 1, None]) == {"id": "ab12", "words": ["ä", 1, None]}
    async with connected(path) as (reader, writer):
        writer.write(b'{"do":"echo","n":1}\n{"do":"echo","n":2}\n')
        assert [(await line(reader))["result"]["n"] for _ in range(2)] == [1, 2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", REFUSALS)
async def test_a_refusal_comes_out_as_the_error_it_was(path: Path, kind: str) -> None:
    with pytest.raises(TenexError) as caught:
        await ask(path, "refuse", kind=kind)
    assert type(caught.value) is type(REFUSALS[kind])
    if isinstance(caught.value, ConfigurationError):
        assert caught.value.faults == ("one fault", "another")


@pytest.mark.parametrize("verb", ["fail", "strange"])
async def test_an_internal_error_is_reported_and_survived(path: Path, verb: str) -> None:
    with pytest.raises(TenexError, match="internal error"):
        await ask(path, verb)
    assert await ask(path, "echo") == {}


@pytest.mark.parametrize(
    "junk",
    [
        *(b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff\xfe\n", b"[]\n", b"null\n", b"17\n", b'"do"\n', b"{}\n", b"\n"),
        *(b'{"do":1}\n', b'{"do":["echo"]}\n', b'{"do":"nonsense"}\n', b"[" * 50_000 + b"\n", b'{"do":"echo"\n'),
    ],
)
async def test_junk_is_answered_with_an_error(path: Path, junk: bytes) -> None:
    async with connected(path) as (reader, writer):
        writer.write(junk)
        answer = await line(reader)
        assert (answer["ok"], answer["code"]) == (False, 2)
        assert "a request is" in answer["error"]
    assert await ask(path, "echo") == {}


async def test_a_line_without_an_end_is_cut_and_half_a_line_is_nothing(path: Path) -> None:
    async with connected(path) as (reader, writer):
        writer.write(b"x" * (REQUEST_BYTES + 1))
        assert "at most" in (await line(reader))["error"]
        async with asyncio.timeout(60):
            assert await reader.read() == b""
    async with connected(path) as (_, writer):
        writer.write(b'{"do":')
    assert await ask(path, "echo") == {}


async def test_clients_are_bounded_in_number(path: Path) -> None:
    async with AsyncExitStack() as idle:
        for _ in range(CLIENTS):
            reader, writer = await idle.enter_async_context(connected(path))
            writer.write(b'{"do":"echo"}\n')
            assert (await line(reader))["ok"]
        with pytest.raises(UsageError, match="others are asking"):
            await ask(path, "echo")
    async with asyncio.timeout(60):
        while True:
            try:
                assert await ask(path, "echo") == {}
                break
            except UsageError:
                await asyncio.sleep(0)


async def test_clients_are_bounded_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: dict[str, Any]) -> Any:
        await asyncio.Event().wait()

    async def much(_: dict[str, Any]) -> Any:
        return "x" * 4_000_000

    monkeypatch.setattr(control, "IDLE", 0.05)
    monkeypatch.setattr(control, "WORK", 0.05)
    path = tmp_path / "tenex.sock"
    async with control_socket(path, {"never": never, "much": much, "echo": echo}):
        with pytest.raises(TenexError, match="longer than"):
            await ask(path, "never")
        async with connected(path) as (reader, _), asyncio.timeout(60):
            assert await reader.read() == b""
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.connect(str(path))
            deaf.sendall(b'{"do":"much"}\n')
            assert await ask(path, "echo") == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
async def test_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tenex.sock"
    await asyncio.to_thread(tmp_path.chmod, 0o755)
    async with control_socket(path, HANDLERS):
        path.chmod(0o666)
        script = (
            "import os, socket\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "s = socket.socket(socket.AF_UNIX); s.connect('tenex.sock'); print(s.makefile().readline())"
        )
        process = await asyncio.create_subprocess_exec(
            "/usr/bin/python3", "-c", script, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(60):
            answer, _ = await process.communicate()
    assert "belongs to user 0, and you are 65534" in json.loads(answer)["error"]


async def test_a_socket_that_was_left_is_replaced_one_in_use_is_not_and_ours_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "tenex.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with control_socket(path, HANDLERS):
        with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
            async with control_socket(path, HANDLERS):
                pass
        assert await ask(path, "echo") == {}
    assert not path.exists()


async def test_what_is_in_the_way_is_named_and_stays(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("somebody's")
    folder.mkdir()
    for path in (file, folder, tmp_path / "nowhere" / "tenex.sock"):
        with pytest.raises(ConfigurationError, match=r"paths\.socket"):
            async with control_socket(path, HANDLERS):
                pass
    assert file.read_text() == "somebody's"


async def test_a_path_longer_than_the_kernel_takes(tmp_path: Path) -> None:
    path = tmp_path / ("deep" * 30) / "tenex.sock"
    path.parent.mkdir()
    async with control_socket(path, HANDLERS):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert await ask(path, "echo", n=1) == {"n": 1}
    assert list(path.parent.iterdir()) == []


async def test_leaving_waits_for_no_client_and_removes_no_file_that_took_its_place(tmp_path: Path) -> None:
    path = tmp_path / "tenex.sock"
    async with asyncio.timeout(60):
        async with control_socket(path, HANDLERS):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b'{"do":"echo"}\n')
            assert (await line(reader))["ok"]
            path.unlink()
            path.write_text("somebody's")
        assert await reader.read() == b""
    writer.close()
    assert path.read_text() == "somebody's"


async def test_an_unanswered_connection_is_an_os_error(tmp_path: Path) -> None:
    path = tmp_path / "tenex.sock"
    with pytest.raises(FileNotFoundError):
        await ask(path, "echo")
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        with pytest.raises(ConnectionRefusedError):
            await ask(path, "echo")
        mute.listen()
        with pytest.raises(TimeoutError):
            await ask(path, "echo", patience=0.05)


@pytest.mark.parametrize("answer", [b"", b"hello\n", b"[]\n", b'{"ok":true}\n', b'{"result":1}\n', b'{"ok":tr'])
async def test_somebody_else_at_the_other_end_is_an_os_error(tmp_path: Path, answer: bytes) -> None:
    async def other(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    path = tmp_path / "tenex.sock"
    async with await asyncio.start_unix_server(other, path):
        with pytest.raises(ConnectionResetError):
            await ask(path, "echo")
