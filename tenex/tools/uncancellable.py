"""Blocking work that must not be left half done."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def to_the_end(work: Callable[[], _T]) -> _T:
    """Do blocking work in a thread and wait for its end, cancelled or not: it must not go on without its turn."""
    future = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()
