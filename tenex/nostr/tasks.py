"""Tasks of connections, which may be asked for while these are ending."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def start(group: asyncio.TaskGroup, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None] | None:
    """Start a task in a group; None if the group is ending, since then no task can be started in it."""
    try:
        return group.create_task(work, name=name)
    except RuntimeError:  # a group does not say whether it is ending; before Python 3.13 it leaves the coroutine open
        work.close()
        return None
