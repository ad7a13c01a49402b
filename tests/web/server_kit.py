"""`tenex web` as a process."""

import asyncio
from pathlib import Path

from tests.service.kit import TENEX, environment


async def started(data: Path, *words: str) -> tuple[asyncio.subprocess.Process, str]:
    """The command as a process, and the link that it prints."""
    process = await asyncio.create_subprocess_exec(
        *TENEX, "web", *words, "--data", str(data), env=environment(), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        link = (await process.stdout.readline()).decode().strip()
    return process, link


async def ended(process: asyncio.subprocess.Process, number: int) -> int:
    process.send_signal(number)
    async with asyncio.timeout(60):
        return await process.wait()
