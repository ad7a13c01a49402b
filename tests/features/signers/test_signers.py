"""Keys at a remote signer: what is asked, what is believed of the answers, and what happens without one (NIP-46)."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from tenex.core.ids import PublicKey
from tenex.core.ports import UnsignedEvent
from tenex.features.signers.gauges import gauges
from tenex.features.signers.signing import Signers
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import event_id, is_genuine, parse_event, unsigned_event
from tenex.nostr.keys import Key, RemoteKey, SecretKey
from tenex.nostr.signers import SignerTimeouts, parse_bunker
from tests.fakes import bunker as fake
from tests.fakes.bunker import Bunker, bunker, on_signing
from tests.fakes.faultrelay import FaultRelay, Peer
from tests.nostr.kit import ALICE, BOB, FAST, NOTES, PLANNER, PROJECT, RELAY, pool, running, until

SOON = SignerTimeouts(
    answer=0.3, allow=30, ping=0.3, again_first=0.1, again_most=0.2, refused_first=0.05, refused_most=0.1
)
SIGNER = SecretKey(bytes([77]) * 32)


@pytest.fixture
async def fault() -> AsyncIterator[FaultRelay]:
    async with FaultRelay() as relay:
        yield relay


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    async with embedded_relay() as url:
        yield url


def key_at(*relays: str, user: SecretKey = ALICE, signer: SecretKey = SIGNER) -> RemoteKey:
    return RemoteKey(public=user.public, signer=signer.public, relays=relays, client=SecretKey.generate())


def word(text: str = "hello", by: SecretKey = ALICE) -> UnsignedEvent:
    return unsigned_event(by.public, 1_700_000_000, 1, [["t", "x"]], text)


@asynccontextmanager
async def signing(*keys: RemoteKey | SecretKey, timeouts: SignerTimeouts = SOON) -> AsyncIterator[Signers]:
    ours = {key.public: key for key in keys}
    signers = Signers(ours, lambda pubkey: "project" if pubkey == ALICE.public else "planner", timeouts, FAST)
    running = asyncio.create_task(signers.run())
    try:
        yield signers
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def state(signers: Signers) -> tuple[str, str]:
    status = signers.status()[0]
    return status["state"], status["why"]


async def test_an_event_is_signed_by_the_key_that_the_signer_holds(relay: str) -> None:
    """The request holds all of the event, encrypted; each relay's copy of a message is one request."""
    key = key_at(relay)
    async with bunker(relay, ALICE, signer=SIGNER) as there, signing(key, timeouts=SignerTimeouts()) as signers:
        events = await asyncio.gather(*(signers.sign(word(), key) for _ in range(3)))
        await until(lambda: state(signers) == ("ready", ""))
        ready, waiting = ([sample.value for sample in family.samples] for family in gauges(signers))
        assert (ready, waiting) == ([1], [0])
    (event,) = {event.sig: event for event in events}.values()
    assert (event.id, event.pubkey) == (word().id, ALICE.public)
    assert is_genuine(event)
    (request,) = there.asked("sign_event")
    template = json.loads(request["params"][0])
    fields = (template["created_at"], template["kind"], template["tags"], template["content"])
    assert event_id(ALICE.public, *fields) == event.id
    assert request["client"] == key.client.public != ALICE.public


def _bad_signature(there: Bunker, template: dict[str, Any]) -> fake.Reply:
    good = fake.signed(template, there.user)
    other = fake.signed({**template, "content": "other"}, there.user)
    return {"result": json.dumps({**good, "sig": other["sig"]})}


FAULTS = {
    "refuses": (lambda _b, _t: {"result": "", "error": "not \x1b[31m allowed"}, "not  [31m allowed"),
    "says error": (lambda _b, _t: {"result": "error", "error": "no"}, "no"),
    "another event": (
        lambda b, t: {"result": json.dumps(fake.signed(t, b.user, created_at=1))},
        "it signed another event than it was asked to",
    ),
    "another key": (lambda _b, t: {"result": json.dumps(fake.signed(t, BOB))}, "it signed with another key"),
    "a wrong signature": (_bad_signature, "its signature is not good"),
    "no event": (lambda _b, _t: {"result": "[" * 5000}, "its answer is no signed event"),
    "a forged id": (
        lambda b, t: {"result": json.dumps({**fake.signed(t, b.user), "content": "evil"})},
        "its answer is no signed event",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_not_the_signature_is_not_used_and_asked_for_again(relay: str, fault: str) -> None:
    """It is reported once, with the signer's reason; the signature comes once the signer gives it."""
    reply, why = FAULTS[fault]
    key = key_at(relay)
    with capture_logs() as logs:
        async with bunker(relay, ALICE, signer=SIGNER, answer=on_signing(reply)) as there, signing(key) as signers:
            waiting = asyncio.create_task(signers.sign(word(), key))
            await there.until_asked("sign_event", times=3)
            assert not waiting.done()
            await until(lambda: state(signers)[0] == "refused")  # a busy machine may call it silent for a moment
            assert state(signers)[1].startswith(why)
            assert signers.status()[0]["waiting"] == 1
            there.answer = fake.good
            async with asyncio.timeout(30):
                event = await waiting
            await until(lambda: state(signers) == ("ready", ""))
    assert event.id == word().id
    (log,) = [log for log in logs if log["event"] == "signer.refused"]
    assert (log["key"], log["npub"]) == ("project", ALICE.npub)


async def test_a_silent_signer_is_reported_once_and_delays_no_other_key(relay: str) -> None:
    """The relay has no signer; then there is one, and it is asked for the same event again, at once."""
    slow = SignerTimeouts(answer=1, ping=1, again_first=600, again_most=600)
    away, here = key_at(relay), key_at(relay, user=BOB, signer=PLANNER)
    with capture_logs() as logs:
        async with signing(away, here, PROJECT, timeouts=slow) as signers:
            waiting = asyncio.create_task(signers.sign(word(), away))
            async with bunker(relay, BOB, signer=PLANNER):
                async with asyncio.timeout(30):
                    assert (await signers.sign(word(by=BOB), here)).pubkey == BOB.public
                    assert (await signers.sign(word(by=PROJECT), PROJECT)).pubkey == PROJECT.public
                await until(lambda: state(signers) == ("silent", "it does not answer"))
                await until(lambda: any(log["event"] == "signer.late" for log in logs))
                assert not waiting.done()
                async with bunker(relay, ALICE, signer=SIGNER) as there, asyncio.timeout(30):
                    assert (await waiting).id == word().id
                    await until(lambda: state(signers)[0] == "ready")
                    assert len({request["id"] for request in there.asked("sign_event")}) == 1
    events = [log["event"] for log in logs if log.get("key") == "project"]
    assert {event: events.count(event) for event in ("signer.silent", "signer.answers")} == {
        "signer.silent": 1,
        "signer.answers": 1,
    }


async def test_the_answer_to_an_earlier_copy_counts(relay: str) -> None:
    """A person allows it on a phone, after the request was sent again."""
    key = key_at(relay)
    async with (
        bunker(relay, ALICE, signer=SIGNER, answer=on_signing(lambda *_: None)) as there,
        signing(key) as signers,
    ):
        waiting = asyncio.create_task(signers.sign(word(), key))
        await there.until_asked("sign_event", times=2)
        await until(lambda: state(signers)[0] == "late")
        first, second, *_ = there.asked("sign_event")
        assert first["id"] == second["id"], "a signer can see that it is the same request"
        reply = {"id": first["id"], "result": json.dumps(fake.signed(json.loads(first["params"][0]), ALICE))}
        await there.send(reply, first["client"])
        async with asyncio.timeout(30):
            assert is_genuine(await waiting)


@pytest.mark.parametrize(
    ("address", "shown"), [("https://signer.example/allow?r=1", "https://signer.example/allow?r=1"), ("file:///x", "")]
)
async def test_where_a_person_is_to_allow_it_is_shown_and_waited_for(relay: str, address: str, shown: str) -> None:
    key = key_at(relay)
    asks = on_signing(lambda *_: {"result": "auth_url", "error": address})
    with capture_logs() as logs:
        async with bunker(relay, ALICE, signer=SIGNER, answer=asks) as there, signing(key) as signers:
            waiting = asyncio.create_task(signers.sign(word(), key))
            await until(lambda: state(signers) == ("asks", shown))
            await asyncio.wait({waiting}, timeout=2 * SOON.answer)
            request, *again = there.asked("sign_event")
            assert {other["id"] for other in again} <= {request["id"]}
            reply = {"id": request["id"], "result": json.dumps(fake.signed(json.loads(request["params"][0]), ALICE))}
            await there.send(reply, request["client"])
            async with asyncio.timeout(30):
                assert (await waiting).id == word().id
            await until(lambda: state(signers)[0] == "ready")
    assert [log["open"] for log in logs if log["event"] == "signer.asks_person"] == [shown]


async def test_a_stranger_at_the_relay_cannot_answer(relay: str) -> None:
    """Only what the signer's key has signed and encrypted is an answer."""
    key = key_at(relay)
    async with (
        bunker(relay, ALICE, signer=SIGNER, answer=fake.silent) as there,
        bunker(relay, ALICE, signer=BOB) as stranger,
        signing(key) as signers,
    ):
        waiting = asyncio.create_task(signers.sign(word(), key))
        await there.until_asked("sign_event")
        (request, *_) = there.asked("sign_event")
        reply = {"id": request["id"], "result": "", "error": "stop"}
        await stranger.send(reply, request["client"])
        await there.until_asked("sign_event", times=2)
        assert state(signers)[0] in ("silent", "late", "starting")
        waiting.cancel()


async def test_an_event_of_another_key_or_too_long_for_a_request_is_refused_at_once(relay: str) -> None:
    key = key_at(relay)
    async with bunker(relay, ALICE, signer=SIGNER) as there, signing(key) as signers:
        with pytest.raises(ValueError, match="is by"):
            await signers.sign(word(by=BOB), key)
        with pytest.raises(ValueError, match="NIP-44"):
            await signers.sign(word("x" * 70_000), key)
        assert not there.asked("sign_event")


async def test_a_relay_that_asks_who_reads_is_shown_the_key_that_the_signer_holds(
    relay: str, fault: FaultRelay
) -> None:
    """NIP-42: the AUTH is signed remotely; without the signer it fails within the patience for it."""
    key = key_at(relay)
    shown: list[dict[str, Any]] = []

    async def on_auth(peer: Peer, event: dict[str, Any]) -> None:
        shown.append(event)
        await fault.accept_auth(peer, event)

    fault.on_auth = on_auth
    async with signing(key) as signers:
        reading = pool(fault.url, identity=key, sign=signers.sign, timeouts=replace(FAST, auth_timeout=1.0))
        async with running(reading, notes=NOTES):
            await until(lambda: fault.peers and reading._relays[fault.url]._connection)
            connection = reading._relays[fault.url]._connection
            assert connection is not None
            await fault.peers[0].send("AUTH", "challenge")
            assert await connection.authenticate() == "the remote signer of the key did not sign the AUTH in time"
            async with bunker(relay, ALICE, signer=SIGNER):
                await until(lambda: state(signers)[0] == "ready")
                await fault.peers[0].send("AUTH", "another challenge")
                async with asyncio.timeout(30):
                    while await connection.authenticate():  # the new challenge is on its way
                        await asyncio.sleep(0.01)
    assert {event["pubkey"] for event in shown} == {ALICE.public}
    assert is_genuine(parse_event(shown[0]))


@pytest.mark.parametrize(
    ("text", "relays", "secret"),
    [
        (f"bunker://{SIGNER.public}?relay=wss://relay.example", (RELAY,), ""),
        (f" BUNKER://{SIGNER.npub}?relay=wss%3A%2F%2FRelay.Example%2F&secret=a%26b\n", (RELAY,), "a&b"),
        (f"bunker://{SIGNER.public}?secret=s&relay=ws://127.0.0.1:7&relay={RELAY}", ("ws://127.0.0.1:7", RELAY), "s"),
    ],
)
def test_an_address_is_read(text: str, relays: Sequence[str], secret: str) -> None:
    address = parse_bunker(text)
    assert (address.signer, address.relays, address.secret) == (SIGNER.public, tuple(relays), secret)
    assert "xyz" not in repr(parse_bunker(f"bunker://{SIGNER.public}?relay={RELAY}&secret=xyz"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bunker://",
        SIGNER.nsec,
        f"bunker://{SIGNER.nsec}?relay={RELAY}",
        f"bunker://{SIGNER.public}",
        f"bunker://{SIGNER.public}?relay=https://relay.example",
        f"nostrconnect://{SIGNER.public}?relay={RELAY}&secret=xyz",
        f"bunker://{'f' * 64}?relay={RELAY}&secret=xyz",
        f"bunker://{SIGNER.public}?" + "&".join(f"relay=wss://r{n}.example" for n in range(11)),
        f"bunker://{SIGNER.public}?" + "&" * 200,
        "bunker://[",
    ],
)
def test_what_is_no_address_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|relay|public") as error:
        parse_bunker(text)
    assert "xyz" not in str(error.value)
    assert SIGNER.nsec not in str(error.value)


@pytest.mark.parametrize("is_local", [False, True])
async def test_a_key_that_is_reached_in_another_way_is_asked_there_for_what_waits(relay: str, is_local: bool) -> None:
    """The relay of the old address is gone; no connection to it is kept, and nothing is sent to it again."""
    away = key_at("ws://127.0.0.1:1")
    ours: dict[PublicKey, Key] = {ALICE.public: away}
    slow = SignerTimeouts(answer=600, ping=600, again_first=600, again_most=600)
    signers = Signers(ours, lambda _: "project", slow, FAST)
    running = asyncio.create_task(signers.run())
    other = SecretKey(bytes([78]) * 32)
    try:
        async with bunker(relay, ALICE, signer=other) as there, asyncio.timeout(30):
            waiting = [asyncio.create_task(signers.sign(event, away)) for event in (word(), word(), word("again"))]
            await until(lambda: signers.status()[0]["waiting"] == 2)
            assert datetime.fromisoformat(signers.status()[0]["waitingSince"]).timestamp() <= time.time()
            ours[ALICE.public] = ALICE if is_local else key_at(relay, signer=other)
            signers.changed()
            events = await asyncio.gather(*waiting)
            assert [event.id for event in events] == [word().id, word().id, word("again").id]
            assert all(map(is_genuine, events))
            if is_local:
                assert signers.status() == []
                assert not there.requests
                return
            (status,) = signers.status()
            assert (status["relays"], status["waiting"], status["waitingSince"]) == ([relay], 0, None)
            assert (await signers.sign(word("later"), away)).id == word("later").id
            relays = f"relays of the signer of {ALICE.npub}"
            await until(lambda: [task.get_name() for task in asyncio.all_tasks()].count(relays) == 1)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
