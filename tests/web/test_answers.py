"""An answer is the event that a client would send: the daemon takes it for one, and it is sent once, by whom it may."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenex.core.config import Role
from tenex.core.delivery.records import MessageSent
from tenex.core.identity.records import ConversationStarted
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.core.records import ApprovalAnswered, QuestionAnswered
from tenex.core.signals import MessageReceived
from tenex.nostr.embedded import embedded_relay
from tenex.nostr.events import is_genuine, parse_event, sign, to_wire, unsigned_event
from tenex.nostr.keys import KeyRing, SecretKey
from tenex.nostr.threading import read_event
from tenex.operations import asks, replies
from tests.cli.journals import ONE, TWO, changed, renamed
from tests.fakes.scenario import WAITS, Router, Scenario, agent, model_by_phase, route, scenario_at
from tests.fakes.scenario import reply as reply_of
from tests.kits.call_approvals import asked, asked_two
from tests.kits.web_answers import ADDRESSES, KINDS, _in_form, answer, question_seq, written
from tests.service.person import stored

from .kit import Served, asking, rewrite, served


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    async with embedded_relay() as url:
        yield url


@pytest.mark.parametrize("form", ADDRESSES)
async def test_an_answer_is_taken_for_the_reply_to_the_question(tmp_path: Path, relay: str, form: str) -> None:
    data = tmp_path / "data"
    scenario = await written(data, relay, form)
    owner = KeyRing(data / "keys").get("owner").public
    async with served(data) as pages:
        sent = await answer(pages)
        assert (sent.status_code, sent.headers["location"].partition("=")[0]) == (303, f"{pages.site.base}/?sent")
        page = await pages.get(sent.headers["location"].removeprefix(pages.site.base))
        assert "No daemon is running" in page.of_class("plain")[0].text
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
        where = sent.headers["location"]
        assert where.startswith(f"{pages.site.base}/c/{TWO}?sent=")
        assert where.endswith("#newest")
    (wire,) = await stored(relay, authors=[owner])
    last = scenario.records(MessageSent)[-1].events[-1].id
    assert ["e", last, relay, "reply"] in [tag[:4] for tag in wire["tags"]]


async def test_a_relay_that_is_away_is_reported_and_the_question_stays(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "PATIENCE", 0.2)
    away = {**ADDRESSES["notes"], "relays": ["ws://127.0.0.1:1"]}
    decisions = changed(renamed(TWO, asking().journal), ConversationStarted, address=away)
    await rewrite(data, {TWO: changed(decisions, MessageSent, relays=("ws://127.0.0.1:1",))})
    async with served(data) as pages:
        failed = await answer(pages)
        assert failed.status_code == 502
        assert "No relay took the message" in failed.text
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
        assert bool(page.all("textarea")) == (why != "off")
        assert all("hidden" in part.attributes for part in page.of_class("signed"))
        assert len(page.of_class("signed")) == (why != "off")
        assert page.of_class("notice")
        session = next(iter(pages.site.logins._sessions.values()))
        action = f"/c/{TWO}/reply/{question_seq()}"
        number = session.form(f"reply {TWO} {question_seq()}")
        refused = await pages.post(action, {"form": number, "text": "Green"})
        assert refused.status_code == 400
    assert await stored(relay, kinds=[1]) == []


# ---- one click -------------------------------------------------------------------------------------------------------


async def pressed(pages: Served, scenario: Scenario, **fields: str) -> Any:
    """A button of the newest question."""
    seq = [int(record.seq) for record in scenario.records(MessageSent) if record.purpose == "question"][-1]
    action = f"/c/{TWO}/reply/{seq}"
    return await pages.post(action, {**await pages.form("/", action), **fields})


async def received(relay: str, data: Path, scenario: Scenario) -> Any:
    """What the daemon reads of the only event of the owner."""
    ring = KeyRing(data / "keys")
    (wire,) = await stored(relay, authors=[ring.get("owner").public])
    message = read_event(parse_event(wire), {*_speakers(scenario), ring.get("project").public}, {}, relay, None)
    assert message is not None
    return message


def _speakers(scenario: Scenario) -> set[Any]:
    return {record.speaker for record in scenario.records(MessageSent)}


@pytest.mark.parametrize(
    ("fields", "text", "outcome"),
    [
        ({"say": "yes"}, "yes", "yes"),
        ({"say": "yes", "text": "a reason that was typed for the no"}, "yes", "yes"),
        ({"say": "no", "text": ""}, "no", "no"),
        ({"say": "no", "text": "not on\r\n a Friday"}, "no: not on a Friday", "no"),
        ({"text": "20 min"}, "20 min", "yes"),
    ],
)
async def test_a_button_allows_or_refuses_a_call_as_a_reply_does(
    tmp_path: Path, relay: str, fields: dict[str, str], text: str, outcome: str
) -> None:
    data = tmp_path / "data"
    scenario = asked()
    await written(data, relay, scenario=scenario)
    async with served(data) as pages:
        page = await pages.get("/")
        (call,) = page.of_class("call")
        assert call.text == "command: git push origin main"
        assert {button.text for button in page.all("button", name_="say")} == {"Yes, once", "20 min", "Always", "No"}
        assert (await pressed(pages, scenario, **fields)).status_code == 303
    message = await received(relay, data, scenario)
    assert message.text == text
    scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice"))
    (answered,) = scenario.records(ApprovalAnswered)
    assert (answered.outcome, answered.event_id) == (outcome, message.event_id)
    assert answered.reason == ("not on a Friday" if "Friday" in text else "")


async def test_a_call_is_shown_whole_and_one_that_cannot_be_is_not_allowed_from_a_page(
    tmp_path: Path, relay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    command = "echo " + "x" * 5_000 + " \u202e; rm -rf build"
    scenario = asked(reply_of("", ("shell", {"command": command, "cwd": "docs"})))
    await written(data, relay, scenario=scenario)
    async with served(data) as pages:
        page = await pages.get("/")
        (call,) = page.of_class("call")
        assert call.text == f"command: {json.dumps(command)}\ncwd: docs"
        assert "in docs" in page.of_class("ask")[0].text
        assert page.all("button", value="yes")
        monkeypatch.setattr(asks, "WHOLE", 4_000)
        page = await pages.get("/")
        assert not page.all("button", value="yes")
        assert page.all("button", value="no")
        assert "tenex approvals show" in page.of_class("ask")[0].text
        refused = await pressed(pages, scenario, say="yes")
        assert (refused.status_code, "Nothing was sent" in refused.text) == (400, True)
    assert await stored(relay, kinds=[1]) == []


@pytest.mark.parametrize(
    ("fields", "text", "outcomes"),
    [
        ({"say": "yes", "call": "1"}, "1 yes", {1: ("yes", False)}),
        ({"say": "no", "call": "2", "text": "not  now"}, "2 no: not now", {2: ("no", False)}),
        ({"say": "always", "call": "2"}, "2 always", {2: ("yes", True)}),
        ({"say": "20 min", "call": "1"}, "1 20 min", {1: ("yes", True)}),
        ({"say": "20 min", "call": ""}, "20 min", {1: ("yes", True), 2: ("yes", True)}),
    ],
)
async def test_each_call_of_a_request_has_buttons_of_its_own(
    tmp_path: Path, relay: str, fields: dict[str, str], text: str, outcomes: dict[int, tuple[str, bool]]
) -> None:
    data = tmp_path / "data"
    scenario = asked_two()
    await written(data, relay, scenario=scenario)
    async with served(data) as pages:
        page = await pages.get("/")
        assert [element.attributes["value"] for element in page.all("input", name_="call")] == ["1", "1", "2", "2"]
        for said in ("yes", "20 min", "always", "no"):
            assert len(page.all("button", value=said)) == 3, "for each of the two, and for both"
        for wrong in ({"say": "yes", "call": "3"}, {"say": "maybe"}, {"say": "no", "text": "x, 2 yes", "call": "1"}):
            assert (await pressed(pages, scenario, **wrong)).status_code == 400
        assert (await pressed(pages, scenario, **fields)).status_code == 303
    message = await received(relay, data, scenario)
    assert message.text == text
    (request,) = scenario.conversation.approvals.open.values()
    numbers = {asked.call: number for number, asked in request.left.items()}
    scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice"))
    given = {
        numbers[call]: (record.outcome, record.remember)
        for record in scenario.records(ApprovalAnswered)
        for call in record.calls
    }
    assert given == outcomes


OPTIONS = ["Red", "Green,  with <b>", "  ", "Blue \u202eeulb"]


async def test_an_option_of_a_question_is_answered_by_its_button(tmp_path: Path, relay: str) -> None:
    data = tmp_path / "data"
    ask = ("ask", {"question": "Which colour?", "options": OPTIONS})
    model = model_by_phase(execute=[reply_of("", ask), reply_of("done")])
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), model)
    scenario.settle()
    assert scenario.conversation.work.asks
    await written(data, relay, scenario=scenario)
    async with served(data) as pages:
        page = await pages.get(f"/c/{TWO}")
        buttons = page.all("button", name_="option")
        assert [button.text for button in buttons] == ["Red", "Green,  with <b>", "Blue \\u202eeulb"]
        for wrong in ("3", "-1", "x", "\u0661", "9999999"):
            assert (await pressed(pages, scenario, option=wrong)).status_code == 400, wrong
        assert (await pressed(pages, scenario, option="2")).status_code == 303
    message = await received(relay, data, scenario)
    scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice"))
    (answered,) = scenario.records(QuestionAnswered)
    assert answered.text == "Blue \u202eeulb"


# ---- signed in the browser (NIP-07) ----------------------------------------------------------------------------------


class InBrowser:
    """What `sign.js` does: it asks for a draft, has the extension sign it, and sends it back."""

    def __init__(self, pages: Served, key: SecretKey) -> None:
        self.pages = pages
        self.key = key
        self.action = f"/c/{TWO}/reply/{question_seq()}"

    async def drafted(self, text: str = "Green", **more: str) -> Any:
        fields = {**await self.pages.form("/", self.action), "text": text, "pubkey": self.key.public, **more}
        return await self.pages.post(self.action.replace("reply", "draft"), fields)

    async def draft(self, text: str = "Green") -> Any:
        answer = await self.drafted(text)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def signed(self, event: dict[str, Any], by: SecretKey | None = None) -> dict[str, Any]:
        key = by or self.key
        draft = unsigned_event(key.public, event["created_at"], event["kind"], event["tags"], event["content"])
        return to_wire(sign(draft, key))

    async def sent(self, to: str, *events: dict[str, Any]) -> Any:
        return await self.pages.post(to.removeprefix(self.pages.site.base), {"events": json.dumps(events)})


@pytest.fixture
async def owner_elsewhere(tmp_path: Path, relay: str) -> AsyncIterator[InBrowser]:
    """Pages whose folder has no key of an owner; the owner has it in a browser."""
    data = tmp_path / "data"
    await written(data, relay)
    owner = KeyRing(data / "keys").get("owner")
    (data / "keys" / "owner.nsec").unlink()
    async with served(data) as pages:
        yield InBrowser(pages, owner)


async def test_a_key_in_the_browser_signs_what_was_drafted(owner_elsewhere: InBrowser, relay: str) -> None:
    browser = owner_elsewhere
    draft = await browser.draft("Green & <b>")
    (event,) = draft["events"]
    assert "sig" not in event
    answer = await browser.sent(draft["to"], browser.signed(event))
    assert answer.status_code == 200, answer.text
    shown = await browser.pages.get(answer.json()["to"].removeprefix(browser.pages.site.base))
    assert "No daemon is running" in shown.of_class("plain")[0].text
    (wire,) = await stored(relay, authors=[browser.key.public])
    assert is_genuine(parse_event(wire))
    question = next(iter(asking().conversation.work.asks))
    message = read_event(parse_event(wire), {agent("helper").pubkey}, {}, relay, None)
    assert message is not None
    assert (message.text, question in message.references) == ("Green & <b>", True)
    again = await browser.sent(draft["to"], browser.signed(event))
    assert (again.status_code, "sent before" in again.text) == (400, True)
    assert len(await stored(relay, authors=[browser.key.public])) == 1


@pytest.mark.parametrize("what", ["content", "tags", "kind", "key", "signature", "two", "none", "nonsense"])
async def test_what_was_not_drafted_is_not_published(owner_elsewhere: InBrowser, relay: str, what: str) -> None:
    browser = owner_elsewhere
    draft = await browser.draft()
    (event,) = draft["events"]
    good = browser.signed(event)
    cases: dict[str, list[Any]] = {
        "content": [browser.signed({**event, "content": "Red"})],
        "tags": [browser.signed({**event, "tags": [*event["tags"], ["p", "b" * 64]]})],
        "kind": [browser.signed({**event, "kind": 0})],
        "key": [browser.signed(event, by=SecretKey.generate())],
        "signature": [{**good, "sig": "0" * 128}],
        "two": [good, good],
        "none": [],
        "nonsense": [1, [], {"id": None}],
    }
    refused = await browser.sent(draft["to"], *cases[what])
    assert (refused.status_code, "Nothing was sent" in refused.text) == (400, True)
    assert await stored(relay, kinds=[0, 1]) == []


async def test_only_who_may_talk_here_and_only_the_browser_that_asked_gets_a_draft(
    owner_elsewhere: InBrowser, relay: str
) -> None:
    browser = owner_elsewhere
    for key in (SecretKey.generate().public, "", "nonsense", "f" * 64):
        refused = await browser.drafted(pubkey=key)
        assert (refused.status_code, "Nothing was sent" in refused.text) == (400, True), key
    draft = await browser.draft()
    (event,) = draft["events"]
    elsewhere = draft["to"].replace(TWO, ONE)
    assert (await browser.sent(elsewhere, browser.signed(event))).status_code == 400
    draft = await browser.draft()
    assert (await browser.pages.login()).status_code == 303  # another session
    refused = await browser.sent(draft["to"], browser.signed(draft["events"][0]))
    assert refused.status_code == 400
    foreign = await browser.pages.post(
        browser.action.replace("reply", "draft"), {"text": "x"}, origin="http://evil.example"
    )
    assert foreign.status_code == 403
    assert await stored(relay, kinds=[1]) == []


async def test_where_answers_are_off_nothing_is_drafted(tmp_path: Path, relay: str) -> None:
    data = tmp_path / "data"
    await written(data, relay)
    owner = KeyRing(data / "keys").get("owner")
    file = next(path for path in (data / "tenex.toml", data / "config" / "tenex.toml") if path.exists())
    file.write_text(f'{file.read_text()}\n[web]\nanswers = "off"\n')
    async with served(data) as pages:
        session = next(iter(pages.site.logins._sessions.values()))
        number = session.form(f"reply {TWO} {question_seq()}")
        fields = {"form": number, "text": "Green", "pubkey": owner.public}
        refused = await pages.post(f"/c/{TWO}/draft/{question_seq()}", fields)
        assert (refused.status_code, "Answers are off" in refused.text) == (400, True)
