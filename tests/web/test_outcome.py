"""What is shown as done was recorded: what became of an answer is read from the journal, not from what was sent."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tenex.core import records as r
from tenex.core.ids import EventId
from tenex.core.signals import ApprovalDecided
from tenex.nostr.embedded import embedded_relay
from tenex.operations.asks import Kind
from tenex.web.outcome import outcome_of
from tests.fakes.modelscripts import Team
from tests.fakes.scenario import Scenario
from tests.kits.call_approvals import asked, request_event
from tests.kits.daemon_approvals import COMMAND, UNCONFINED, answers, ended, request, runs, times
from tests.service.loopback import at_work

from .kit import Page, Served, asking, served

OURS = "f" * 64


@pytest.fixture
async def relay() -> AsyncIterator[str]:
    async with embedded_relay() as url:
        yield url


def said(scenario: Scenario, text: str, kind: Kind = "approval") -> tuple[str, str]:
    """The tone and the sentence of a reply to the newest request."""
    last = scenario.conversation.next_seq - 1
    scenario.user_writes(text, reply_to=request_event(scenario), event_id=OURS)
    outcome = outcome_of([OURS], kind, [record for record in scenario.records() if record.seq > last])
    assert outcome is not None
    return outcome.tone, outcome.text


@pytest.mark.parametrize(
    ("text", "tone", "words"),
    [
        ("yes", "good", "Allowed. The agent goes on with it."),
        ("always", "good", "In this conversation I allow"),
        ("no", "good", "Refused. The agent goes on without it."),
        ("no: on Monday", "good", "and reads your reason"),
        ("why not tomorrow?", "bad", "I cannot read that as an answer"),
        ("/status", "bad", "Nothing is decided"),
    ],
)
def test_an_answer_is_done_once_the_journal_says_what_it_decided(text: str, tone: str, words: str) -> None:
    shown, sentence = said(asked(), text)
    assert (shown, words in sentence) == (tone, True), sentence


def test_who_comes_second_reads_what_the_first_answer_was() -> None:
    scenario = asked()
    to = request_event(scenario)
    scenario.user_writes("no", reply_to=to)
    last = scenario.conversation.next_seq - 1
    scenario.user_writes("yes", reply_to=to, event_id=OURS)
    outcome = outcome_of([OURS], "approval", [record for record in scenario.records() if record.seq > last])
    assert outcome is not None
    assert outcome.tone == "bad"
    assert "answered already" in outcome.text


def test_the_answer_of_another_is_not_taken_for_ours() -> None:
    """Ours is not understood; in the same look the operator allows it at the machine."""
    scenario = asked()
    last = scenario.conversation.next_seq - 1
    scenario.user_writes("perhaps", reply_to=request_event(scenario), event_id=OURS)
    (seq,) = scenario.conversation.approvals.open
    scenario.handle(ApprovalDecided(request=seq, is_yes=True, by="The operator", reason=""))
    records = [record for record in scenario.records() if record.seq > last]
    assert any(isinstance(record, r.ApprovalAnswered) for record in records)
    outcome = outcome_of([OURS], "approval", records)
    assert outcome is not None
    assert outcome.tone == "bad"
    assert outcome_of([EventId("e" * 64)], "approval", records) is None


def test_a_question_is_answered_once_its_record_is_there() -> None:
    scenario = asking()
    last = scenario.conversation.next_seq - 1
    scenario.user_writes("blue", reply_to=next(iter(scenario.conversation.work.asks)), event_id=OURS)
    outcome = outcome_of([OURS], "question", [record for record in scenario.records() if record.seq > last])
    assert outcome is not None
    assert (outcome.tone, outcome.text) == ("good", "Your answer is there, alice.")


# ---- a daemon, a relay, an agent that wants to run a command --------------------------------------------------------


async def pressed(pages: Served, name: str, **fields: str) -> tuple[str, Page]:
    """Send a form of what waits, as a browser does; what the next page says."""
    page = await pages.get("/")
    (ask,) = page.of_class("ask")
    action = f"/c/{name}/reply/{ask.attributes['id'].rpartition('-')[2]}"
    sent = await pages.post(action, {**await pages.form("/", action), "from": "waiting", **fields})
    assert sent.status_code == 303, sent.text
    shown = await pages.get(sent.headers["location"].removeprefix(pages.site.base))
    return shown.of_class("notice")[0].text, shown


async def test_one_click_runs_the_command_and_what_is_not_understood_is_no_success(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(worker=runs()), UNCONFINED) as (folder, _):
        name = await folder.write("Publish it")
        await request(folder, name)
        async with served(folder.data) as pages:
            page = await pages.get("/")
            assert [call.text for call in page.of_class("call")] == [f"command: {COMMAND}"]
            shown, page = await pressed(pages, name, text="what is it for?")
            assert "I cannot read that as an answer" in shown
            assert page.of_class("ask")
            assert not page.of_class("good")
            assert times(folder) == 0
            shown, page = await pressed(pages, name, say="yes")
            assert shown == "Allowed. The agent goes on with it."
            assert not page.of_class("call")
        (given,) = answers(folder, name)
        assert (given.outcome, given.by) == ("yes", folder.owner.public)
        assert await ended(folder, name) == "finished"
        assert times(folder) == 1
