"""A message that its author deletes before work on it has begun is taken back (NIP-09); later the work on it ends."""

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.dispatch import decide
from tenex.core.effects import Evaluate
from tenex.core.functions.undecided import EvaluationRequested
from tenex.core.ids import EventId, PublicKey
from tenex.core.inbox.message import DELETED
from tenex.core.pending import pending
from tenex.core.phases import Phase
from tenex.core.signals import Evaluated, InboundMessage, MessageDeleted, MessageReceived
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


def asked() -> Scenario:
    """A request whose router has not answered."""
    scenario = Scenario(Router(route("execute", "executor"), WAITS), plain_model)
    scenario.user_writes("build it")
    return scenario


def delete(scenario: Scenario, at: int = -1, author: PublicKey = ALICE) -> list[r.Record]:
    """The author of a message deletes it."""
    event = scenario.records(r.MessageRecorded)[at].event_id
    return scenario.handle(MessageDeleted(event_id=EventId(event), author=author))


def test_a_request_that_is_deleted_before_work_began_starts_none() -> None:
    scenario = asked()
    assert [type(record) for record in delete(scenario)] == [r.MessageWithdrawn, r.Waiting]
    assert in_flight(scenario) == []
    assert (scenario.conversation.cycle.messages, scenario.conversation.requests) == ((), ())
    assert scenario.conversation.memory.recent == ()
    assert scenario.conversation.cycle.waiting_for == "user"


@pytest.mark.parametrize("author", [MALLORY])
def test_only_its_author_takes_a_message_back(author: PublicKey) -> None:
    assert delete(asked(), author=author) == []


def test_one_of_two_requests_that_is_deleted_leaves_the_other() -> None:
    scenario = asked()
    scenario.user_writes("and make it green")
    assert [type(record) for record in delete(scenario)] == [r.MessageWithdrawn]
    assert len(scenario.conversation.cycle.messages) == 1
    scenario.settle()
    assert scenario.records(r.TurnOpened)


def test_what_came_in_mid_work_and_was_deleted_is_not_shown_to_the_agent() -> None:
    worker = model_by_phase(execute=[reply("", ("write_file", {"path": "f"})), reply("done")])
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), worker)
    step_until(scenario, lambda it: bool(it.records(r.ToolCallStarted)))
    scenario.user_writes("make it green")
    assert [type(record) for record in delete(scenario)] == [r.MessageWithdrawn]
    (run,) = scenario.conversation.work.runs.values()
    assert run.unseen == ()


def test_a_request_that_is_deleted_after_it_was_answered_is_shown_to_no_one_else() -> None:
    scenario = asked()
    scenario.settle()
    (record,) = delete(scenario)
    assert isinstance(record, r.MessageWithdrawn)
    assert (record.was_read, record.was_title) == (True, True)
    assert (scenario.conversation.cycle.messages[0].text, scenario.conversation.identity.title) == (DELETED, "")
    assert "build it" not in repr((scenario.conversation.memory.recent, scenario.conversation.memory.earlier))
    assert delete(scenario) == [], "a relay sends the deletion again after each start"


BUILDER = model_by_phase(execute=[reply("", ("write_file", {"path": "f"})), reply("done")])


def working() -> Scenario:
    """A request that an agent has read and works on."""
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), BUILDER)
    step_until(scenario, lambda it: bool(it.records(r.ToolCallStarted)))
    return scenario


def test_work_ends_whose_only_request_is_deleted() -> None:
    scenario = working()
    records = delete(scenario)
    assert scenario.records(r.MessageWithdrawn)[0].was_read
    assert [record.text for record in records if isinstance(record, r.MessageSent)] == [
        "You deleted what this was for. Stopped: Executor. Write to go on, or `/retry`."
    ]
    assert scenario.conversation.cycle.waiting_for == "stopped"
    assert in_flight(scenario) == []
    assert delete(scenario) == []


def test_it_ends_between_two_turns_too() -> None:
    scenario = working()
    step_until(scenario, lambda it: it.conversation.work.turn is None)
    assert scenario.conversation.router.question is not None
    delete(scenario)
    assert scenario.records(r.Stopped)


def test_work_goes_on_for_what_else_was_written_and_ends_with_the_last_of_it() -> None:
    scenario = working()
    scenario.user_writes("and make it green")
    step_until(scenario, lambda it: not any(run.unseen for run in it.conversation.work.runs.values()))
    delete(scenario, at=0)
    assert scenario.sent_texts()[-1] == "What you deleted was read before, and work goes on. `/stop` ends it."
    assert not scenario.records(r.Stopped)
    delete(scenario, at=1)
    assert scenario.records(r.Stopped)


def test_a_word_said_before_is_no_part_of_the_work() -> None:
    router = Router(route(None, "project-manager"), WAITS, route("execute", "executor"), WAITS)
    scenario = Scenario(router, BUILDER).converse("hello")
    scenario.user_writes("build it")
    step_until(scenario, lambda it: bool(it.records(r.ToolCallStarted)))
    delete(scenario, at=0)
    assert not scenario.records(r.Stopped)
    delete(scenario, at=1)
    assert scenario.records(r.Stopped)


def test_a_second_message_before_work_began_that_is_deleted_does_not_end_the_work_on_the_first() -> None:
    scenario = Scenario(Router(route("execute", "executor"), WAITS), BUILDER)
    scenario.user_writes("build it")
    scenario.user_writes("and use tabs")
    step_until(scenario, lambda it: bool(it.records(r.ToolCallStarted)))
    delete(scenario, at=1)
    assert not scenario.records(r.Stopped)
    delete(scenario, at=0)
    assert scenario.records(r.Stopped)


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("role", [Role.OWNER, Role.MEMBER])
def test_a_remark_that_is_deleted_does_not_end_a_mission(role: Role, *, is_first: bool) -> None:
    """Nor does what a member wrote, who may not stop it, where no one else wrote in the cycle."""
    scenario = MissionScenario()
    if not is_first:
        scenario.user_writes("do it")
    scenario.begin()
    scenario.user_writes("how is it going?", role=role, author=MALLORY)
    delete(scenario, author=MALLORY)
    may_stop = is_first and role is Role.OWNER
    assert scenario.mission.is_paused is may_stop


@pytest.mark.parametrize("role", [Role.OWNER, Role.MEMBER])
@pytest.mark.parametrize("author", [ALICE, MALLORY])
def test_a_word_between_two_turns_that_is_deleted_does_not_end_the_work_on_what_came_before(
    author: PublicKey, role: Role
) -> None:
    """The first request was not verified, though only what was added to it was deleted."""
    scenario = working()
    step_until(scenario, lambda it: it.conversation.work.turn is None)
    scenario.user_writes("and make it green", author=author, role=role, name="mallory")
    scenario.router = Router(route(None, "executor"))
    step_until(scenario, lambda it: it.conversation.work.turn is not None and not it.conversation.unanswered)
    delete(scenario, author=author)
    assert scenario.sent_texts()[-1] == "What you deleted was read before, and work goes on. `/stop` ends it."
    assert not scenario.records(r.Stopped)


@pytest.mark.parametrize(("role", "is_stopped"), [(Role.OWNER, True), (Role.MEMBER, False)])
def test_who_may_not_stop_the_work_of_others_does_not_by_deleting(role: Role, *, is_stopped: bool) -> None:
    """What is under way is for the second request alone, and the first one is still in the cycle."""
    scenario = Scenario(Router(route(None, "project-manager"), WAITS, route("execute", "executor"), WAITS), BUILDER)
    scenario.converse("hello")
    scenario.user_writes("build it", author=MALLORY, role=role, name="mallory")
    step_until(scenario, lambda it: bool(it.records(r.ToolCallStarted)))
    delete(scenario, author=MALLORY)
    assert bool(scenario.records(r.Stopped)) is is_stopped


def test_the_next_message_names_a_conversation_whose_first_was_deleted() -> None:
    scenario = asked()
    delete(scenario)
    assert scenario.conversation.identity.title == ""
    scenario.user_writes("paint it")
    assert scenario.conversation.identity.title == "paint it"


def test_a_deletion_waits_for_the_decision_on_its_message() -> None:
    """The message waits for functions of an operator; it was recorded, and its deletion came to nothing."""
    scenario = asked()
    first = scenario.records(r.MessageRecorded)[0]
    message = InboundMessage(
        event_id=EventId("d" * 64), author=ALICE, text="and paint it", created_at=1, conversation=ID, starts=False
    )
    waiting = MessageReceived(message=message, role=Role.OWNER, name="alice")
    state = scenario.conversation.fork()
    state.apply(EvaluationRequested(seq=state.next_seq, at=first.at, signal=waiting))
    deletion = MessageDeleted(event_id=message.event_id, author=ALICE)
    state = decide(state, deletion, scenario.policy, scenario.now).after
    assert [one.signal for one in state.work.undecided] == [waiting, deletion]
    while state.work.undecided:
        (key,) = (key for key in pending(state) if isinstance(pending(state)[key], Evaluate))
        state = decide(state, Evaluated(key=key, verdicts=()), scenario.policy, scenario.now).after
    assert [one.text for one in state.cycle.messages] == ["build it"]


def test_an_answer_that_is_deleted_has_been_read() -> None:
    ask = model_by_phase(execute=[reply("", ("ask", {"question": "Which colour?"})), reply("done")])
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), ask)
    step_until(scenario, lambda it: it.conversation.work.is_parked)
    scenario.user_writes("teal")
    assert [type(record) for record in delete(scenario)] == [r.MessageWithdrawn, r.MessageSent]
    assert scenario.records(r.MessageWithdrawn)[0].was_read


@pytest.mark.parametrize("was_read", [False, True])
def test_answers_do_not_hang_below_a_message_that_was_deleted(*, was_read: bool) -> None:
    """Clients showed "2 replies" and none of them: the result answered what the relay had removed."""
    scenario = asked()
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    scenario.user_writes("and a second one")
    if was_read:
        scenario.settle()
    delete(scenario)
    assert scenario.conversation.delivery.origin["number"] == 1
    assert scenario.refold().delivery.origin["number"] == 1
    scenario.user_writes("a third one")
    assert scenario.conversation.delivery.origin["number"] == 3
