"""A command and a daemon that ends before, while or after it is asked: what is reported is what happened."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.cli.shared.daemon import ask_or_run
from tenex.core.errors import TenexError
from tenex.settings import ProjectPaths, load, resolve_paths

ANSWER = b'{"ok": true, "result": "asked"}\n'
ENDS = b""


@asynccontextmanager
async def dying(path: Path, *answers: bytes) -> AsyncIterator[None]:
    """A daemon that answers so many requests, and ends with the last."""
    left = list(answers)

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(left.pop(0))
        if not left:
            server.close()
            path.unlink()
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(attend, path)
    yield
    server.close()


@pytest.fixture
def where(tmp_path: Path) -> ProjectPaths:
    prepare(tmp_path / "data", None, [])
    return resolve_paths(load(None, tmp_path / "data", env={}))


async def carried_out(where: ProjectPaths) -> tuple[Any, bool]:
    async def run() -> str:
        return "ran here"

    return await ask_or_run(where, "fork", {}, run, patience=5, check="tenex conversations list")


@pytest.mark.parametrize("answers", [[ENDS], [ANSWER]])
async def test_what_no_daemon_was_asked_for_is_done_without_it(where: ProjectPaths, answers: list[bytes]) -> None:
    async with dying(where.socket, *answers):
        assert await carried_out(where) == ("ran here", False)


async def test_what_a_daemon_answered_is_not_done_again(where: ProjectPaths) -> None:
    async with dying(where.socket, ANSWER, ANSWER):
        assert await carried_out(where) == ("asked", True)


async def test_a_daemon_that_ends_with_the_request_may_have_done_it(where: ProjectPaths) -> None:
    async with dying(where.socket, ANSWER, ENDS):
        with pytest.raises(
            TenexError, match=r"result is unknown.* Look with `tenex conversations list` before"
        ) as seen:
            await carried_out(where)
    assert "Nothing was done" not in str(seen.value)
