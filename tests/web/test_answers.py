"""An answer is the event that a client would send: the daemon takes it for one, and it is sent once, by whom it may."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenex.cli.init import prepare
from tenex.core.config import Role
from tenex.core.delivery.records import MessageSent
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import Slug
from tenex.core.records import QuestionAnswered
from tenex.core.signals import MessageReceived
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import is_genuine, parse_event
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.nostr.threading import read_event
from tenex.web import reply
from tests.cli.journals import TWO, changed, renamed
from tests.fakes.scenario import Scenario, agent
from tests.service.person import stored

from .kit import Served, asking, rewrite, served

ROOT = {"root": TWO, "root_author": "a" * 64, "root_relay": ""}
SCOPE = [["E", TWO, "", "a" * 64], ["K", "11"], ["P", "a" * 64]]
ADDRESSES = {
    "notes": {"form": "notes", "root_kind": 1, **ROOT},
    "comments": {"form": "comments", "root_kind": 1, **ROOT},
    "threads": {"form": "threads", "root_kind": 11, "scope": SCOPE, **ROOT},
}
KINDS = {"notes": 1, "comments": 1111, "threads": 1111}


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    async with embedded_relay() as url:
        yield url


async def written(data: Path, relay: str, form: str = "notes") -> Scenario:
    """A data folder with a conversation that waits for an answer; its messages are at the relay's address."""
    prepare(data, None, [relay])
    scenario = asking()
    address = {**ADDRESSES[form], "relays": [relay]}
    decisions = changed(renamed(TWO, scenario.journal), ConversationStarted, address=address)
    decisions = changed(decisions, MessageSent, relays=(relay,))
    await rewrite(data, {TWO: [tuple(map(_in_form(form), decision)) for decision in decisions]})
    return scenario


def _in_form(form: str) -> Any:
    """The events of our messages, as this form writes them."""
    tags = {
        "notes": (("e", TWO, "", "root"), ("p", "a" * 64)),
        "comments": (("E", TWO, "", "a" * 64), ("K", "1"), ("P", "a" * 64), ("e", TWO), ("k", "1"), ("p", "a" * 64)),
        "threads": (*map(tuple, SCOPE), ("e", TWO), ("k", "11"), ("p", "a" * 64)),
    }[form]

    def formed(record: Any) -> Any:
        if not isinstance(record, MessageSent):
            return record
        events = tuple(replace(event, kind=KINDS[form], tags=tags) for event in record.events)
        return replace(record, events=events)

    return formed


async def answer(pages: Served, text: str = "Green & <b>") -> Any:
    action = f"/c/{TWO}/reply/{question_seq()}"
    return await pages.post(action, {**await pages.form("/", action), "text": text})


def question_seq() -> int:
    return next(int(record.seq) for record in asking().records(MessageSent) if record.purpose == "question")


@pytest.mark.parametrize("form", ADDRESSES)
async def test_an_answer_is_taken_for_the_reply_to_the_question(tmp_path: Path, relay: str, form: str) -> None:
    data = tmp_path / "data"
    scenario = await written(data, relay, form)
    owner = KeyRing(data / "keys").get("owner").public
    async with served(data) as pages:
        sent = await answer(pages)
        assert (sent.status_code, sent.headers["location"]) == (303, f"{pages.site.base}/?sent=1")
    (wire,) = await stored(relay, authors=[owner])
    event = parse_event(wire)
    assert is_genuine(event)
    assert event.kind == KINDS[form]
    assert event.content == "Green & <b>"
    assert not [tag for tag in event.tags if tag[0] in ("L", "l")]  # it was written by a person
    project = KeyRing(data / "keys").get("project").public
    assert ["p", project] in [list(tag[:2]) for tag in event.tags]
    helper = agent("helper").pubkey
    message = read_event(event, {helper, project}, {}, relay, None)
    assert message is not None
    assert message.conversation == TWO
    question = next(iter(scenario.conversation.work.asks))
    assert question in message.references or form == "threads"  # there every comment is below the root
    scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice", addressed=(Slug("helper"),)))
    (answered,) = scenario.records(QuestionAnswered)
    assert answered.text == "Green & <b>"


async def test_an_answer_is_sent_once(tmp_path: Path, relay: str) -> None:
    data = tmp_path / "data"
    await written(data, relay)
    owner = KeyRing(data / "keys").get("owner").public
    async with served(data) as pages:
        action = f"/c/{TWO}/reply/{question_seq()}"
        fields = {**await pages.form("/", action), "text": "Green"}
        assert (await pages.post(action, fields, origin="http://evil.example")).status_code == 403
        assert await stored(relay, authors=[owner]) == []
        assert (await pages.post(f"/c/{TWO}/reply/0", fields)).status_code == 403
        fields = {**await pages.form("/", action), "text": "Green"}
        assert (await pages.post(action, fields)).status_code == 303
        assert (await pages.post(action, fields)).status_code == 403
        assert len(await stored(relay, authors=[owner])) == 1
        fields = {**await pages.form("/", action), "text": "  \r\n "}
        empty = await pages.post(action, fields)
        assert (empty.status_code, "is empty" in empty.text) == (400, True)


async def test_a_message_can_be_written_in_a_conversation(tmp_path: Path, relay: str) -> None:
    data = tmp_path / "data"
    scenario = await written(data, relay)
    scenario.converse("green", reply_to=next(iter(scenario.conversation.work.asks)))
    address = {**ADDRESSES["notes"], "relays": [relay]}
    decisions = changed(renamed(TWO, scenario.journal), ConversationStarted, address=address)
    decisions = changed(decisions, MessageSent, relays=(relay,))
    await rewrite(data, {TWO: [tuple(map(_in_form("notes"), decision)) for decision in decisions]})
    owner = KeyRing(data / "keys").get("owner").public
    async with served(data) as pages:
        action = f"/c/{TWO}/reply/0"
        fields = {**await pages.form(f"/c/{TWO}", action), "text": "and now in blue"}
        sent = await pages.post(action, fields)
        assert sent.headers["location"] == f"{pages.site.base}/c/{TWO}?sent=1#newest"
    (wire,) = await stored(relay, authors=[owner])
    last = scenario.records(MessageSent)[-1].events[-1].id
    assert ["e", last, relay, "reply"] in [tag[:4] for tag in wire["tags"]]


async def test_a_relay_that_is_away_is_reported_and_the_question_stays(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply, "PATIENCE", 0.2)
    away = {**ADDRESSES["notes"], "relays": ["ws://127.0.0.1:1"]}
    decisions = changed(renamed(TWO, asking().journal), ConversationStarted, address=away)
    await rewrite(data, {TWO: changed(decisions, MessageSent, relays=("ws://127.0.0.1:1",))})
    async with served(data) as pages:
        failed = await answer(pages)
        assert failed.status_code == 502
        assert "No relay took the answer" in failed.text
        assert (await pages.get("/")).of_class("ask")


@pytest.mark.parametrize("why", ["off", "stranger", "missing"])
async def test_only_an_owner_s_key_answers_and_only_where_the_settings_permit_it(
    tmp_path: Path, relay: str, why: str
) -> None:
    data = tmp_path / "data"
    await written(data, relay)
    file = next(path for path in (data / "tenex.toml", data / "config" / "tenex.toml") if path.exists())
    if why == "off":
        file.write_text(f'{file.read_text()}\n[web]\nanswers = "off"\n')
    elif why == "missing":
        (data / "keys" / "owner.nsec").unlink()
    else:
        owner = KeyRing(data / "keys").get("owner")
        file.write_text(file.read_text().replace(owner.npub, SecretKey.generate().npub))
    async with served(data) as pages:
        page = await pages.get("/")
        assert not page.all("textarea")
        assert page.of_class("notice")
        session = next(iter(pages.site.logins._sessions.values()))
        action = f"/c/{TWO}/reply/{question_seq()}"
        number = session.form(f"reply {TWO} {question_seq()}")
        refused = await pages.post(action, {"form": number, "text": "Green"})
        assert refused.status_code == 400
    assert await stored(relay, kinds=[1]) == []
