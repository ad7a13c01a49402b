"""A relay that refuses our answers for good: the operator sees it, and the person's other relays get them."""

from pathlib import Path
from typing import Any

from tenex.core import records as r
from tests.fakes.faultrelay import FaultRelay, Peer

from . import person
from .kit import Folder, daemon, of_kind, tenex

WHY = "blocked: this key may not write here"


async def test_a_refused_answer_is_shown_and_goes_to_the_relays_that_the_message_names(tmp_path: Path) -> None:
    async with FaultRelay() as relay, FaultRelay() as other:
        folder = Folder(tmp_path / "data", relay.url)

        async def refuse(peer: Peer, event: dict[str, Any]) -> None:
            if event["pubkey"] == folder.owner.public:
                await relay.accept(peer, event)
            else:
                await peer.send("OK", event["id"], False, WHY)

        relay.on_event = refuse
        asked = person.note(folder.owner, "Hello", ["p", folder.project.public, other.url])
        name = str(asked["id"])

        def answers() -> list[str]:
            return [event["id"] for event in other.stored if event["kind"] == 1]

        async with daemon(folder):
            await person.publish(relay.url, asked)
            await folder.until(name, "waiting")
            await person.until(lambda: answers() and not folder.state(name).outbox)
            _, out, _ = await tenex("status", "--data", folder.data)
        sent = [event.id for record in of_kind(folder.records(name), r.MessageSent) for event in record.events]
        assert answers() == sent
        refusals = folder.view(name)["refusals"]
        assert {one["eventId"] for one in refusals} == set(sent)
        assert all((one["relay"], one["reason"], one["isDelivered"]) == (relay.url, WHY, True) for one in refusals)
        assert [line for line in out.splitlines() if "REFUSED" in line and WHY in line and name[:8] in line], out
