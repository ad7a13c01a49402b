"""Files as events: described beside their address in public, a kind 15 in direct messages, words in kind 4."""

import json
from dataclasses import replace

from tenex.core.port_values import AttachedFile
from tenex.nostr.compose import NostrSealer
from tenex.nostr.direct import nip04_decrypt
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading.direct import CHAT, ENCRYPTED
from tenex.nostr.threading.files import FILE
from tests.kits.drafts import draft as public_draft
from tests.kits.private_chats import SEALER, draft, message, read

from .kit import PERSON, PROJECT

URL = f"https://b.example/{'a' * 64}.md"
PUBLIC = AttachedFile(name="minutes.md", media_type="text/markdown", size=12, url=URL, x="a" * 64)
SEALED = replace(PUBLIC, key="1" * 64, nonce="2" * 24, ox="b" * 64, caption="Minutes", dim="")


def test_of_a_long_text_the_part_with_the_addresses_describes_them() -> None:
    text = f"{'word ' * 20_000}\n\nminutes.md\n{URL}"
    events = NostrSealer(["wss://relay.example"]).seal(replace(public_draft(text), files=(PUBLIC, PUBLIC)))
    assert len(events) > 1
    described = [[tag for tag in event.tags if tag[0] == "imeta"] for event in events]
    assert described[:-1] == [[]] * (len(events) - 1)
    tag = ("imeta", f"url {URL}", "m text/markdown", f"x {'a' * 64}", "size 12", "name minutes.md")
    assert described[-1] == [tag, tag]
    assert events[-1].content.endswith(URL)


def test_a_private_file_is_an_event_beside_the_text_and_wrapped_like_it() -> None:
    spoken = replace(draft(read(message())), files=(SEALED, replace(SEALED, url=f"{URL}2")))
    events = SEALER.seal(spoken)
    assert [event.kind for event in events] == [CHAT, FILE, FILE]
    assert [event.created_at for event in events] == [2000, 2001, 2002]
    assert [event.content for event in events] == ["Answer", URL, f"{URL}2"]
    assert not any(tag[0] == "imeta" for event in events for tag in event.tags)
    tags = {tag[0]: tag[1] for tag in events[1].tags}
    assert tags["p"] == PERSON.public
    assert (tags["decryption-key"], tags["decryption-nonce"], tags["encryption-algorithm"]) == (
        SEALED.key,
        SEALED.nonce,
        "aes-gcm",
    )
    assert (tags["x"], tags["ox"], tags["size"], tags["alt"]) == ("a" * 64, "b" * 64, "12", "Minutes")
    assert "phase" not in tags, "what is said of the message is on its text"
    wraps = SEALER.wraps(spoken, events)
    assert len(wraps) == 3
    assert URL not in json.dumps([wrap.event.content for wrap in wraps])


def test_a_file_without_words_is_alone() -> None:
    spoken = replace(draft(read(message()), text=""), files=(SEALED,))
    events = SEALER.seal(spoken)
    assert [event.kind for event in events] == [FILE]
    assert len(SEALER.wraps(spoken, events)) == 1


def test_a_kind_4_says_that_it_carries_no_files() -> None:
    opener = read(message(kind=ENCRYPTED))
    (event,) = SEALER.seal(replace(draft(opener, opener), files=(SEALED,)))
    assert isinstance(PERSON, SecretKey)
    text = nip04_decrypt(event.content, PERSON.shared_secret(PROJECT.public))
    assert text == "Answer\n\n[minutes.md was not sent: messages of this kind (NIP-04) carry no files.]"
    assert SEALED.key not in str(event)
