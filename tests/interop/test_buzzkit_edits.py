"""A person of Buzz edits and deletes in a room, by buzzkit's builders."""

from pathlib import Path

from tenex.core import records as r
from tenex.nostr.keys import SecretKey
from tests.fakes.modelprotocol import Hangs
from tests.kits.daemon_approvals import UNCONFINED
from tests.kits.room_work import workplace
from tests.service import person
from tests.service.kit import of_kind
from tests.service.loopback import QUICK, serving

from .buzz import buzz_person


async def test_an_edit_counts_and_a_deletion_by_the_author_and_by_a_moderator_too(tmp_path: Path) -> None:
    async with workplace(tmp_path / "data", lambda _: Hangs(), f"{UNCONFINED}{QUICK}") as place:
        relay, folder, server, room = place
        moderator = SecretKey.generate()
        relay.add(room, moderator.public, "admin")
        async with (
            serving(folder, server),
            buzz_person(relay.url, folder.owner, room) as alice,
            buzz_person(relay.url, moderator, room) as bob,
        ):
            roots = [await alice.say(room, text, mentions=(folder.project.public,)) for text in ("Bild it", "Burn it")]
            for root in roots:
                await person.until(lambda root=root: folder.state(root).router.question)  # type: ignore[misc]
            target = {"channel_id": room, "target_event_id": roots[0]}
            await alice.publish("build_edit_event", **target, new_content="Build it")
            await person.until(lambda: folder.state(roots[0]).identity.title == "Build it")
            (edited,) = folder.state(roots[0]).cycle.messages
            assert edited.text == "Build it"

            await alice.publish("build_delete_message_event", **target)
            await person.until(lambda: not folder.state(roots[0]).cycle.messages)
            rude = {**target, "target_event_id": roots[1]}
            await bob.publish("build_delete_message_event", **rude, reason="be kind")
            await person.until(lambda: not folder.state(roots[1]).cycle.messages)
        assert len(of_kind(folder.records(roots[0]), r.MessageWithdrawn)) == 2
