"""An edit before work has begun is what counts; later agents read it once, and it begins nothing."""

from collections.abc import Sequence

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.ids import EventId, PublicKey
from tenex.core.inbox.message import DELETED
from tenex.core.messages import UserText
from tenex.core.phases import Phase
from tenex.core.projection.fates import Fates
from tenex.core.signals import InboundMessage, MessageDeleted, MessageReceived
from tests.fakes.scenario import (
    ALICE,
    ID,
    WAITS,
    Router,
    Scenario,
    in_flight,
    model_by_phase,
    plain_model,
    reply,
    route,
    scenario_at,
    step_until,
)
from tests.kits.missions import MissionScenario

MALLORY = PublicKey("e" * 64)
HERE = {"form": "notes"}
BUILDER = model_by_phase(execute=[reply("", ("write_file", {"path": "f"})), reply("done")])


def edit(
    scenario: Scenario,
    text: str,
    *,
    at: int = 0,
    author: PublicKey = ALICE,
    event_id: str = "d" * 64,
    date: int = 9,
    edits: str = "",
    address: dict[str, object] | None = None,
) -> list[r.Record]:
    """The author of a message edits it, so many seconds after it."""
    edited = EventId(edits or scenario.records(r.MessageRecorded)[at].event_id)
    message = InboundMessage(
        event_id=EventId(event_id),
        author=author,
        text=text,
        created_at=scenario.now // 1000 + date,
        conversation=ID,
        starts=False,
        references=(edited,),
        edits=edited,
        address=address or HERE,
        origin={"id": edited, "author": author},
    )
    return scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice"))


def asked() -> Scenario:
    scenario = Scenario(Router(route("execute", "executor"), WAITS), plain_model)
    scenario.user_writes("bild it")
    return scenario


def working() -> Scenario:
    """A request that an agent has read and works on."""
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), BUILDER)
    step_until(scenario, lambda it: bool(it.records(r.ToolCallStarted)))
    return scenario


def texts(scenario: Scenario) -> list[str]:
    return [message.text for message in scenario.conversation.memory.recent if message.role is not None]


def kinds(records: Sequence[r.Record]) -> list[type[r.Record]]:
    return [type(record) for record in records]


def test_before_work_has_begun_the_new_words_alone_count() -> None:
    scenario = asked()
    edit(scenario, "build it")
    assert texts(scenario) == ["build it"]
    assert scenario.conversation.identity.title == "build it"
    assert len(in_flight(scenario)) == 1, "the router is asked once, about the new words"
    scenario.settle()
    assert len(scenario.records(r.TurnOpened)) == 1
    assert "bild" not in repr(scenario.conversation.memory)
    assert scenario.refold() == scenario.conversation
    assert edit(scenario, "build it") == [], "a relay sends the edit again after each start"


def test_answers_go_on_to_the_message_that_was_edited() -> None:
    scenario = asked()
    first = scenario.records(r.MessageRecorded)[0].event_id
    edit(scenario, "build it")
    assert scenario.conversation.delivery.origin["id"] == first


def test_the_newest_by_its_date_counts_in_whatever_order_they_come() -> None:
    scenario = asked()
    edit(scenario, "build it well", event_id="b" * 64, date=20)
    assert (
        edit(scenario, "build it", event_id="c" * 64, date=10, edits=scenario.records(r.MessageRecorded)[0].event_id)
        == []
    )
    edit(scenario, "build it best", event_id="f" * 64, date=30)
    assert texts(scenario) == ["build it best"]
    assert scenario.refold() == scenario.conversation


def test_words_that_are_the_same_change_nothing() -> None:
    assert edit(asked(), "bild it") == []


@pytest.mark.parametrize(
    "change", [{"author": MALLORY}, {"edits": "9" * 64}, {"address": {"form": "room", "group": "x"}}]
)
def test_only_its_author_edits_a_message_and_only_where_it_is(change: dict[str, object]) -> None:
    scenario = asked()
    edit(scenario, "burn it", **change)  # type: ignore[arg-type]
    assert "bild it" in texts(scenario)
    assert not scenario.records(r.MessageWithdrawn)


def test_an_agent_at_work_reads_the_new_words_once_and_no_second_task_begins() -> None:
    scenario = working()
    records = edit(scenario, "and paint it")
    assert kinds(records) == [r.MessageRecorded]
    step_until(scenario, lambda it: not any(run.unseen for run in it.conversation.work.runs.values()))
    (run,) = scenario.conversation.work.runs.values()
    shown = [entry.text for entry in run.entries if isinstance(entry, UserText) and "and paint it" in entry.text]
    assert len(shown) == 1
    assert "no new request" in shown[0]
    scenario.settle()
    assert len([turn for turn in scenario.records(r.TurnOpened) if turn.phase is Phase.EXECUTE]) == 1
    assert edit(scenario, "and paint it") == []
    assert scenario.refold() == scenario.conversation


def test_an_edit_after_the_work_is_over_begins_none_and_says_nothing() -> None:
    scenario = asked().settle()
    before = scenario.conversation.cycle.status
    assert kinds(edit(scenario, "build it")) == [r.MessageRecorded]
    assert in_flight(scenario) == []
    assert scenario.conversation.cycle.status == before
    assert not scenario.conversation.requests
    fate = Fates(scenario.conversation).of(scenario.conversation.memory.recent[-1])
    assert fate is not None
    assert fate.kind == "correction"
    assert edit(scenario, "build it") == []
    scenario.user_writes("go on")
    assert [message.text for message in scenario.conversation.requests] == ["go on"]


@pytest.mark.parametrize("is_read", [False, True])
def test_an_edit_to_a_command_gives_that(*, is_read: bool) -> None:
    scenario = working() if is_read else asked()
    edit(scenario, "/stop")
    assert scenario.records(r.Stopped)
    assert edit(scenario, "/stop") == []


def test_an_edit_of_a_command_gives_none_and_says_so_once() -> None:
    scenario = asked()
    scenario.user_writes("/status", event_id="7" * 64)
    edit(scenario, "status please", edits="7" * 64)
    assert scenario.sent_texts()[-1] == "An edit changes no command, and no yes or no that was given. Write a new one."
    assert edit(scenario, "status please", edits="7" * 64) == []


def test_an_edit_of_what_was_deleted_does_not_bring_it_back() -> None:
    scenario = asked().settle()
    event = scenario.records(r.MessageRecorded)[0].event_id
    scenario.handle(MessageDeleted(event_id=event, author=ALICE))
    assert edit(scenario, "build it") == []


@pytest.mark.parametrize("is_read", [False, True])
def test_a_deletion_takes_the_message_and_its_edits_back(*, is_read: bool) -> None:
    scenario = working() if is_read else asked()
    edit(scenario, "paint it")
    event = scenario.records(r.MessageRecorded)[0].event_id
    scenario.handle(MessageDeleted(event_id=event, author=ALICE))
    assert set(texts(scenario)) == ({DELETED} if is_read else set())
    assert bool(scenario.records(r.Stopped)) is is_read
    assert in_flight(scenario) == []
    assert scenario.refold() == scenario.conversation


def test_the_moderation_of_a_room_takes_back_what_others_wrote() -> None:
    scenario = working()
    event = scenario.records(r.MessageRecorded)[0].event_id
    assert scenario.handle(MessageDeleted(event_id=event, author=MALLORY)) == []
    scenario.handle(MessageDeleted(event_id=event, author=MALLORY, is_moderated=True))
    assert scenario.sent_texts()[-1].startswith("The moderation of this room deleted what this was for. Stopped")
    assert DELETED in texts(scenario)


def test_a_mission_goes_on_and_its_author_reads_so() -> None:
    scenario = MissionScenario()
    scenario.begin()
    scenario.user_writes("how is it going?")
    edit(scenario, "how is it?", at=-1)
    assert scenario.sent_texts()[-1] == "What you edited was read before, and work goes on as it was. `/stop` ends it."
    assert not scenario.mission.is_paused


def test_an_answer_to_a_question_stays_and_the_agent_reads_the_new_words() -> None:
    ask = model_by_phase(execute=[reply("", ("ask", {"question": "Which colour?"})), reply("done")])
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), ask)
    step_until(scenario, lambda it: it.conversation.work.is_parked)
    scenario.user_writes("teel")
    edit(scenario, "teal", at=-1)
    (run,) = scenario.conversation.work.runs.values()
    assert len(run.unseen) == 1
    assert scenario.records(r.MessageRecorded)[-1].is_correction


def test_an_edit_is_an_answer_to_no_question() -> None:
    ask = model_by_phase(execute=[reply("", ("ask", {"question": "Which colour?"})), reply("done")])
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), ask)
    step_until(scenario, lambda it: it.conversation.work.is_parked)
    edit(scenario, "teal")
    assert scenario.conversation.work.is_parked
    assert not scenario.records(r.QuestionAnswered)
