"""Direct messages by another implementation: who wrote them is found, and it reads the answers."""

import json
from typing import Any

import pytest

from tenex.core.ids import PublicKey
from tenex.nostr.direct import (
    CHAT,
    ENCRYPTED,
    GIFT_WRAP,
    LARGEST,
    SEAL,
    answer_to,
    nip44_decrypt,
    nip44_encrypt,
    read_direct,
)
from tenex.nostr.events import Event, parse_event, sign, to_wire, unsigned_event
from tenex.nostr.keys import SecretKey

sdk = pytest.importorskip("nostr_sdk")

ALICE, PROJECT, AGENT = SecretKey.generate(), SecretKey.generate(), SecretKey.generate()
KEYS = {key.public: key for key in (PROJECT, AGENT)}
NOW = 1_800_000_000
TEXT = "Write a public note."


def theirs(key: SecretKey) -> Any:
    return sdk.Keys.parse(key.nsec)


def received(event: Any) -> Event:
    return parse_event(json.loads(event.as_json()))


def event(kind: int, content: str, key: SecretKey = ALICE, to: PublicKey = PROJECT.public) -> Event:
    return sign(unsigned_event(key.public, NOW, kind, [["p", to]], content), key)


def wrapped(rumor: object, by: SecretKey = ALICE, seal_kind: int = SEAL, once: SecretKey | None = None) -> Event:
    """A gift wrap that holds anything."""
    once = once or SecretKey.generate()
    inner = nip44_encrypt(json.dumps(rumor), by.shared_secret(PROJECT.public))
    seal = to_wire(sign(unsigned_event(by.public, NOW, seal_kind, [], inner), by))
    return event(GIFT_WRAP, nip44_encrypt(json.dumps(seal), once.shared_secret(PROJECT.public)), once)


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
    assert "secret" not in repr(message)
    answer = answer_to(message, TEXT, AGENT, NOW)
    assert answer.kind == GIFT_WRAP
    assert AGENT.public not in json.dumps(to_wire(answer)), "nothing in the open says who answers"
    assert NOW - 2 * 86_400 <= answer.created_at <= NOW
    gift = sdk.UnwrappedGift.from_gift_wrap(theirs(ALICE), sdk.Event.from_json(json.dumps(to_wire(answer))))
    rumor = json.loads(gift.rumor().as_json())
    assert gift.sender().to_hex() == AGENT.public
    assert (rumor["kind"], rumor["content"], rumor["tags"]) == (CHAT, TEXT, [["p", ALICE.public]])


def test_a_kind_4_is_answered_by_a_kind_4() -> None:
    project = sdk.PublicKey.parse(PROJECT.public)
    content = sdk.nip04_encrypt(theirs(ALICE).secret_key(), project, "the secret")
    message = read_direct(event(ENCRYPTED, content), KEYS)
    assert message is not None
    answer = answer_to(message, TEXT, PROJECT, NOW)
    assert (answer.kind, answer.pubkey) == (ENCRYPTED, PROJECT.public)
    assert sdk.nip04_decrypt(theirs(ALICE).secret_key(), project, answer.content) == TEXT


@pytest.mark.parametrize("kind", [14, 15])
def test_a_private_message_that_was_published_as_it_is_is_answered_in_a_gift_wrap(kind: int) -> None:
    message = read_direct(event(kind, "hello"), KEYS)
    assert message is not None
    assert (message.author, answer_to(message, TEXT, PROJECT, NOW).kind) == (ALICE.public, GIFT_WRAP)


RUMOR = {"pubkey": ALICE.public, "created_at": NOW, "kind": CHAT, "tags": [], "content": "hello"}


@pytest.mark.parametrize(
    "wrap",
    [
        event(GIFT_WRAP, "not encrypted"),
        event(GIFT_WRAP, ""),
        event(GIFT_WRAP, "A" * (LARGEST + 4)),
        wrapped({**RUMOR, "pubkey": PROJECT.public}),  # says that another one wrote it
        wrapped({**RUMOR, "kind": 7}),  # a reaction
        wrapped({**RUMOR, "kind": [CHAT]}),
        wrapped([RUMOR]),
        wrapped("hello"),
        wrapped(RUMOR, seal_kind=1),
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
    assert read_direct(wrapped(RUMOR), KEYS) is not None
