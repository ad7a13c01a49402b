"""The database that holds the conversations, where the setting `store` names one."""

import asyncio
from collections.abc import Iterator

from tenex.core.errors import ConfigurationError, StoreError
from tenex.runtime.clock import SystemClock
from tenex.store.disk import Disk
from tenex.store.opening import open_shared

from .findings import Case, Finding, fault, ok, warning

_START = "start it, or correct the address in the setting"


def database(case: Case) -> Iterator[Finding]:
    """Report a database that cannot be used, or that would lose what it has acknowledged."""
    if not case.settings.store:
        return
    try:
        faults, remarks = asyncio.run(_examine(case))
    except StoreError as error:
        yield fault(str(error), "store", _START, StoreError)
        return
    except ConfigurationError as error:
        for sentence in error.faults:
            message, _, fix = sentence.removeprefix("store: ").partition("; ")
            yield fault(message, "store", fix)
        return
    for sentence in faults:
        message, _, fix = sentence.partition("; ")
        yield fault(message, "store", fix, StoreError)
    for sentence in remarks:
        message, _, fix = sentence.partition("; ")
        yield warning(message, "store", fix)
    if not faults:
        yield ok("the database keeps what it acknowledges", "store")


async def _examine(case: Case) -> tuple[list[str], list[str]]:
    async with open_shared(case.settings.store, case.paths.conversations, Disk(), SystemClock()) as store:
        return await store.faults()
