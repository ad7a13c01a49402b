"""Direct messages to a daemon, made with another library."""

from collections.abc import Sequence
from typing import Any

import pytest

from tenex.core import records as r
from tenex.nostr.keys import SecretKey
from tests.service import person
from tests.service.kit import Folder, of_kind

sdk = pytest.importorskip("nostr_sdk")


def theirs(key: SecretKey) -> Any:
    return sdk.Keys.parse(key.nsec)


def encrypted(by: SecretKey, to: str, text: str, *tags: Sequence[str]) -> person.Wire:
    """A kind 4."""
    content = sdk.nip04_encrypt(theirs(by).secret_key(), sdk.PublicKey.parse(to), text)
    return person.note(by, content, ["p", to], *tags, kind=4)


async def began(folder: Folder, count: int = 1) -> str:
    """Wait for so many conversations; the one that began last."""

    def newest() -> str | None:
        started = {name: of_kind(folder.records(name), r.ConversationStarted) for name in folder.names}
        known = {name: records[0].at for name, records in started.items() if records}
        return max(known, key=lambda name: known[name]) if len(known) == count else None

    name: str = await person.until(newest)
    return name


async def listening(folder: Folder) -> str:
    """Wait until the daemon receives what is new: a wrap is dated days back, where a first start does not look."""
    name = await folder.write("/status")
    await person.until(lambda: of_kind(folder.records(name), r.CommandGiven))
    return name
