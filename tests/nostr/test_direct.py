"""Direct messages as relays have them, by us and by another implementation: each reads what the other has made."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tenex.core.ids import PublicKey
from tenex.core.port_values import UnsignedEvent
from tenex.nostr.direct import (
    EPHEMERAL_WRAP,
    GIFT_WRAP,
    LARGEST,
    SEAL,
    answer_to,
    encrypted,
    finished,
    nip04_decrypt,
    nip44_decrypt,
    nip44_encrypt,
    read_direct,
    wrapped,
)
from tenex.nostr.events import Event, parse_event, sign, to_wire, unsigned_event
from tenex.nostr.keys import SecretKey
from tenex.nostr.threading.direct import CHAT, ENCRYPTED, LARGEST_RUMOR, LARGEST_TEXT
from tenex.nostr.threading.files import FILE

sdk = pytest.importorskip("nostr_sdk")

ALICE, PROJECT, AGENT = SecretKey.generate(), SecretKey.generate(), SecretKey.generate()
KEYS = {key.public: key for key in (PROJECT, AGENT)}
NOW = 1_800_000_000
TEXT = "Only text is read."
RELAY_BYTES = 64 * 1024


def theirs(key: SecretKey) -> Any:
    return sdk.Keys.parse(key.nsec)


def received(event: Any) -> Event:
    return parse_event(json.loads(event.as_json()))


def event(
    kind: int, content: str, key: SecretKey = ALICE, to: PublicKey = PROJECT.public, tags: Sequence[Sequence[str]] = ()
) -> Event:
    return sign(unsigned_event(key.public, NOW, kind, [["p", to], *tags], content), key)


def in_a_wrap(
    rumor: object,
    by: SecretKey = ALICE,
    seal_kind: int = SEAL,
    kind: int = GIFT_WRAP,
    encrypted_by: SecretKey | None = None,
    seal_tags: Sequence[Sequence[str]] = (),
) -> Event:
    """A gift wrap that holds anything."""
    once = SecretKey.generate()
    inner = nip44_encrypt(json.dumps(rumor), (encrypted_by or by).shared_secret(PROJECT.public))
    seal = to_wire(sign(unsigned_event(by.public, NOW, seal_kind, seal_tags, inner), by))
    return event(kind, nip44_encrypt(json.dumps(seal), once.shared_secret(PROJECT.public)), once)


def opened(wrap: UnsignedEvent, key: SecretKey) -> tuple[str, dict[str, Any]]:
    """Who sealed it and what is in it, as rust-nostr reads it."""
    whole = finished(wrap)
    assert whole is not None
    gift = sdk.UnwrappedGift.from_gift_wrap(theirs(key), sdk.Event.from_json(json.dumps(to_wire(whole))))
    return gift.sender().to_hex(), json.loads(gift.rumor().as_json())


@pytest.mark.parametrize("length", [1, 31, 32, 33, 64, 65, 256, 257, 1_000, 60_000])
def test_what_one_encrypts_the_other_reads(length: int) -> None:
    text = "x" * length
    shared = PROJECT.shared_secret(ALICE.public)
    ours, keys = nip44_encrypt(text, shared), theirs(ALICE)
    project = sdk.PublicKey.parse(PROJECT.public)
    assert sdk.nip44_decrypt(keys.secret_key(), project, ours) == text
    other = sdk.nip44_encrypt(keys.secret_key(), project, text, sdk.Nip44Version.V2)
    assert nip44_decrypt(other, shared) == text


def test_the_author_of_a_gift_wrap_is_the_one_of_its_seal_and_reads_the_answer_in_a_gift_wrap() -> None:
    to = sdk.PublicKey.parse(AGENT.public)
    wrap = received(sdk.nip17_make_private_msg(theirs(ALICE), to, "the secret"))
    message = read_direct(wrap, KEYS)
    assert message is not None
    assert (message.author, message.to, message.is_wrapped) == (ALICE.public, AGENT.public, True)
    assert (message.event.kind, message.event.content, message.is_read) == (CHAT, "the secret", True)
    answer = answer_to(message, TEXT, AGENT, NOW)
    assert answer.kind == GIFT_WRAP
    assert AGENT.public not in json.dumps([answer.pubkey, answer.tags, answer.content]), "nothing says who answers"
    assert NOW - 2 * 86_400 <= answer.created_at <= NOW
    who, rumor = opened(answer, ALICE)
    assert who == AGENT.public
    assert (rumor["kind"], rumor["content"], rumor["tags"]) == (CHAT, TEXT, [["p", ALICE.public]])


def test_two_wraps_of_a_message_have_nothing_in_common_but_what_is_in_them() -> None:
    rumor = unsigned_event(PROJECT.public, NOW, CHAT, [["p", ALICE.public]], TEXT)
    first, second = (wrapped(rumor, ALICE.public, PROJECT) for _ in range(2))
    assert first.pubkey != second.pubkey
    assert first.content != second.content
    assert opened(first, ALICE) == opened(second, ALICE)
    assert opened(first, ALICE)[1]["id"] == rumor.id


@pytest.mark.parametrize("character", ["x", "ü", '"'])
def test_the_largest_message_fits_into_an_event_that_relays_take(character: str) -> None:
    size = len(json.dumps(character, ensure_ascii=False).encode()) - 2
    rumor = unsigned_event(PROJECT.public, NOW, CHAT, [], character * ((LARGEST_RUMOR - 300) // size))
    whole = finished(wrapped(rumor, ALICE.public, PROJECT))
    assert whole is not None
    assert len(json.dumps(["EVENT", to_wire(whole)])) < RELAY_BYTES
    text = unsigned_event(PROJECT.public, NOW, ENCRYPTED, [["p", ALICE.public]], character * (LARGEST_TEXT // size))
    assert len(json.dumps(["EVENT", to_wire(sign(encrypted(text, PROJECT), PROJECT))])) < RELAY_BYTES


def test_only_a_wrap_with_a_good_signature_is_finished() -> None:
    rumor = unsigned_event(PROJECT.public, NOW, CHAT, [["p", ALICE.public]], TEXT)
    wrap = wrapped(rumor, ALICE.public, PROJECT)
    note = sign(unsigned_event(PROJECT.public, NOW, 1, [], "hello"), PROJECT)
    fields = ("id", "pubkey", "created_at", "kind", "tags", "content")

    def signed(event: Event | UnsignedEvent, sig: str) -> UnsignedEvent:
        return UnsignedEvent(**{name: getattr(event, name) for name in fields}, sig=sig)

    assert finished(signed(wrap, wrap.sig)) is not None
    assert finished(signed(wrap, "0" * 128)) is None
    assert finished(signed(wrap, "")) is None
    assert finished(signed(note, note.sig)) is None


def test_a_kind_4_is_read_and_answered_by_a_kind_4() -> None:
    project = sdk.PublicKey.parse(PROJECT.public)
    content = sdk.nip04_encrypt(theirs(ALICE).secret_key(), project, "the secret")
    message = read_direct(event(ENCRYPTED, content, tags=[["p", AGENT.public]]), KEYS)
    assert message is not None
    assert (message.event.content, message.is_read, message.is_wrapped) == ("the secret", True, False)
    assert message.event.tags == (("p", PROJECT.public),), "no one else can read it"
    answer = answer_to(message, TEXT, PROJECT, NOW)
    assert (answer.kind, answer.pubkey, answer.sig) == (ENCRYPTED, PROJECT.public, "")
    assert sdk.nip04_decrypt(theirs(ALICE).secret_key(), project, answer.content) == TEXT
    assert nip04_decrypt(answer.content, ALICE.shared_secret(PROJECT.public)) == TEXT


@pytest.mark.parametrize("content", ["", "hello", "?iv=", "AAAA?iv=AAAA", "A" * (LARGEST + 4)])
def test_a_kind_4_that_cannot_be_decrypted_is_no_message(content: str) -> None:
    assert read_direct(event(ENCRYPTED, content), KEYS) is None


@pytest.mark.parametrize(("kind", "is_read"), [(CHAT, True), (FILE, True)])
def test_a_private_message_that_was_published_as_it_is_is_answered_in_a_gift_wrap(kind: int, is_read: bool) -> None:
    message = read_direct(event(kind, "hello"), KEYS)
    assert message is not None
    assert (message.author, message.is_read) == (ALICE.public, is_read)
    assert answer_to(message, TEXT, PROJECT, NOW).kind == GIFT_WRAP


RUMOR = {"pubkey": ALICE.public, "created_at": NOW, "kind": CHAT, "tags": [["p", PROJECT.public]], "content": "hello"}


@pytest.mark.parametrize("kind", [GIFT_WRAP, EPHEMERAL_WRAP])
def test_a_wrap_is_read_also_one_that_relays_do_not_keep(kind: int) -> None:
    message = read_direct(in_a_wrap(RUMOR, kind=kind), KEYS)
    assert message is not None
    assert message.event.content == "hello"


def test_a_message_that_names_no_reader_is_for_who_could_open_it() -> None:
    message = read_direct(in_a_wrap({**RUMOR, "tags": []}), KEYS)
    assert message is not None
    assert message.event.tags == (("p", PROJECT.public),)


@pytest.mark.parametrize(("kind", "is_read"), [(5, True), (7, True), (15, True), (9, False), (444, False)])
def test_reactions_deletions_and_files_are_read_and_invitations_are_not(kind: int, is_read: bool) -> None:
    message = read_direct(in_a_wrap({**RUMOR, "kind": kind}), KEYS)
    assert message is not None
    assert message.is_read is is_read


@pytest.mark.parametrize(
    "wrap",
    [
        event(GIFT_WRAP, "not encrypted"),
        event(GIFT_WRAP, ""),
        event(GIFT_WRAP, "A" * (LARGEST + 4)),
        in_a_wrap({**RUMOR, "pubkey": PROJECT.public}),  # says that another one wrote it
        in_a_wrap({**RUMOR, "id": "0" * 64}),  # an id that is not its own
        in_a_wrap({**RUMOR, "kind": 10_000}),
        in_a_wrap({**RUMOR, "kind": ENCRYPTED}),
        in_a_wrap({**RUMOR, "kind": [CHAT]}),
        in_a_wrap({**RUMOR, "tags": [[1]]}),
        in_a_wrap({name: value for name, value in RUMOR.items() if name != "tags"}),
        in_a_wrap([RUMOR]),
        in_a_wrap("hello"),
        in_a_wrap(RUMOR, seal_kind=1),
        event(GIFT_WRAP, "hello", to=ALICE.public),
        event(1, "hello"),
    ],
)
def test_what_nobody_signed_or_nobody_said_to_us_is_no_message(wrap: Event) -> None:
    assert read_direct(wrap, KEYS) is None


def test_a_seal_that_its_author_did_not_sign_is_no_message() -> None:
    once = SecretKey.generate()
    inner = nip44_encrypt(json.dumps(RUMOR), once.shared_secret(PROJECT.public))
    seal = to_wire(sign(unsigned_event(ALICE.public, NOW, SEAL, [], inner), ALICE)) | {"sig": "0" * 128}
    wrap = event(GIFT_WRAP, nip44_encrypt(json.dumps(seal), once.shared_secret(PROJECT.public)), once)
    assert read_direct(wrap, KEYS) is None
    assert read_direct(in_a_wrap(RUMOR), KEYS) is not None


# ---- clients that encrypt with a key of their own (NIP-4E) -----------------------------------------------------------


def read_with(key: SecretKey, wrap: UnsignedEvent) -> tuple[Any, Any]:
    """The seal and the message in a wrap, as a client reads them that has only its encryption key."""
    seal = json.loads(nip44_decrypt(wrap.content, key.shared_secret(wrap.pubkey)))
    (named,) = [tag[1] for tag in seal["tags"] if tag[0] == "n"]
    return seal, json.loads(nip44_decrypt(seal["content"], key.shared_secret(named)))


def test_who_encrypts_with_a_key_of_their_own_is_read_and_answered_for_that_key() -> None:
    """It was dropped: nothing of it could be read with the key that signed the seal."""
    own = SecretKey.generate()
    message = read_direct(in_a_wrap(RUMOR, encrypted_by=own, seal_tags=[["n", own.public]]), KEYS)
    assert message is not None
    assert (message.author, message.encryption_key) == (ALICE.public, own.public)
    assert message.event.content == RUMOR["content"]
    answer = answer_to(message, TEXT, PROJECT, NOW)
    assert answer.tags == (("p", ALICE.public),), "what clients ask relays for; some relays refuse a second name"
    seal, rumor = read_with(own, answer)
    assert (seal["pubkey"], rumor["content"]) == (PROJECT.public, TEXT)


def test_a_key_that_a_seal_names_signs_for_no_one() -> None:
    """Older clients sign the seal with that key: anybody could name another author."""
    own = SecretKey.generate()
    for by, tags in ((own, []), (own, [["n", own.public]]), (ALICE, [["n", "x"]])):
        assert read_direct(in_a_wrap(RUMOR, by=by, encrypted_by=own, seal_tags=tags), KEYS) is None
    named = in_a_wrap(RUMOR, seal_tags=[["n", ALICE.public]])
    message = read_direct(named, KEYS)
    assert message is not None
    assert message.encryption_key is None, "it is the author's own"
