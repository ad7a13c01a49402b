"""What a daemon reports while its disk is full, and what it holds afterwards."""

import asyncio

from tenex.core import records as r
from tests.service import person
from tests.service.kit import Folder, of_kind, tenex_here


async def notices(folder: Folder) -> list[person.Wire]:
    """The project's notices about messages it could not take in."""
    sent = await folder.sent(authors=[folder.project.public])
    return [event for event in sent if ["error", "storage"] in event["tags"]]


async def until_notified(folder: Folder, *messages: str) -> None:
    """Wait until each of these messages has been answered with such a word."""
    async with asyncio.timeout(60):
        while True:
            answered = {tag[1] for event in await notices(folder) for tag in event["tags"] if tag[0] == "e"}
            if answered >= set(messages):
                return
            await asyncio.sleep(0.1)


async def complaints(folder: Folder) -> str:
    """What the doctor finds wrong with the store."""
    report = await folder.facts("doctor", code=4)
    found = [one for one in report["findings"] if one["level"] == "fault"]
    return "\n".join(f"{one['location']}: {one['message']}" for one in found)


async def whole(folder: Folder, name: str, messages: int) -> None:
    """Every message was taken in once, and the journal has no fault."""
    wrote = of_kind(folder.records(name), r.MessageRecorded)
    assert len({record.event_id for record in wrote}) == len(wrote) == messages
    code, out, err = await tenex_here("conversations", "verify", name, "--data", folder.data)
    assert code == 0, out + err
