"""A daemon that is killed within the first second of each of its lives still gets on."""

import asyncio
import signal
from collections import Counter
from pathlib import Path
from random import Random

from tests.fakes.faultrelay import FaultRelay

from .kit import TENEX, Folder, forked

MESSAGES = 4
MOST_LIVES = 40
"""It takes about as many as there are messages where the machine is idle."""
MOST_COPIES = 5
"""Of one event: a kill may always come between the relay's OK and the record of it."""


async def test_short_lives_journal_what_relays_have_taken_and_read_what_people_write(tmp_path: Path) -> None:
    dice = Random(3)
    async with FaultRelay() as relay:
        folder = Folder(tmp_path / "data", relay.url)
        names: list[str] = []
        lives = 0

        def is_over(name: str) -> bool:
            state = folder.state(name)
            return state.status in ("waiting", "ended") and not state.outbox

        while len(names) < MESSAGES or not all(map(is_over, names)):
            lives += 1
            assert lives <= MOST_LIVES, "it does not get on"
            if len(names) < MESSAGES:
                names.append(await folder.write("Hello"))
            async with forked([TENEX[-1], "run", "--data", str(folder.data)]) as process:
                await asyncio.sleep(dice.uniform(0.3, 0.9))
                process.signal(signal.SIGKILL)
                await process.ended()
        sent = Counter(event["id"] for event in relay.events() if event["pubkey"] != folder.owner.public)
    assert max(sent.values()) <= MOST_COPIES
