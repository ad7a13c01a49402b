"""The claims on what users send: which one takes a message, in which state, and that the others are not called."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.ids import EventId, PublicKey
from tenex.core.inbox import claims
from tenex.core.inbox.claim import Claim
from tenex.core.inbox.claims import MACHINES, all_claims, open_questions
from tenex.core.phases import Phase
from tenex.core.signals import InboundMessage, MessageDeleted, MessageReceived
from tenex.core.transaction import Transaction
from tests.fakes.scenario import (
    ALICE,
    ENDS,
    ID,
    WAITS,
    Router,
    Scenario,
    model_by_phase,
    plain_model,
    reply,
    route,
    scenario_at,
    step_until,
    wish,
)
from tests.kits.approvals import planned
from tests.kits.call_approvals import PUSH, asked, request_event

BOB = PublicKey("b" * 64)


def new() -> Scenario:
    return Scenario(Router(route(None, "project-manager"), WAITS), plain_model)


def working() -> Scenario:
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS))
    step_until(scenario, lambda it: it.conversation.work.turn is not None)
    return scenario


def ended() -> Scenario:
    return scenario_at(Phase.CHAT, Router(ENDS)).settle()


def asking() -> Scenario:
    """An agent has asked for a yes or no."""
    script = [reply("", ("ask", {"question": "Shall I?"})), reply("done")]
    scenario = scenario_at(Phase.CHAT, Router(route("execute", "executor"), WAITS), model_by_phase(execute=script))
    step_until(scenario, lambda it: it.conversation.work.is_parked)
    return scenario


def over() -> Scenario:
    """A request for permission was answered, and the work goes on."""
    scenario = asked(reply("", PUSH), reply("", ("check", {})))
    scenario.user_writes("no", reply_to=request_event(scenario))
    return scenario


def waiving() -> Scenario:
    """It is asked whether verification may be skipped, and a plan waits for its approval."""
    scenario = planned()
    scenario.router = Router(wish(WAITS, "verification", words="hello"), WAITS)
    return scenario.converse("hello", role=Role.GUEST, author=BOB, name="bob")


def visited() -> Scenario:
    """Agents elsewhere have written as often as they are answered."""
    scenario = new()
    for _ in range(MACHINES):
        scenario.converse("hello", author=BOB, name="bob", by_machine=True)
    return scenario


def question_of(scenario: Scenario) -> str:
    sent = [record for record in scenario.records(r.MessageSent) if record.purpose in ("question", "completion")]
    return str(sent[-1].events[0].id)


def writes(text: str, **more: Any) -> Callable[[Scenario], Any]:
    return lambda scenario: scenario.user_writes(text, **more)


def replies(text: str, to: Callable[[Scenario], str] = question_of) -> Callable[[Scenario], Any]:
    return lambda scenario: scenario.user_writes(text, reply_to=to(scenario))


def reacts(picture: str, to: Callable[[Scenario], str] = question_of) -> Callable[[Scenario], Any]:
    def react(scenario: Scenario) -> Any:
        scenario.count += 1
        message = InboundMessage(
            event_id=EventId(f"{scenario.count:064d}"),
            author=ALICE,
            text=picture,
            created_at=scenario.now // 1000,
            conversation=ID,
            starts=False,
            reply_to=EventId(to(scenario)),
            is_reaction=True,
        )
        return scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice"))

    return react


def deletes(event: Callable[[Scenario], str]) -> Callable[[Scenario], Any]:
    return lambda scenario: scenario.handle(MessageDeleted(event_id=EventId(event(scenario)), author=ALICE))


def edits(text: str, event: Callable[[Scenario], str]) -> Callable[[Scenario], Any]:
    def edit(scenario: Scenario) -> Any:
        scenario.count += 1
        message = InboundMessage(
            event_id=EventId(f"{scenario.count:064d}"),
            author=ALICE,
            text=text,
            created_at=scenario.now // 1000,
            conversation=ID,
            starts=False,
            edits=EventId(event(scenario)),
        )
        return scenario.handle(MessageReceived(message=message, role=Role.OWNER, name="alice"))

    return edit


def newest(kind: type[r.Record]) -> Callable[[Scenario], str]:
    return lambda scenario: str(scenario.records(kind)[-1].event_id)


BEGINS = ["beginning", "awake"]
TABLE: list[tuple[Callable[[], Scenario], Callable[[Scenario], Any], list[str]]] = [
    # state, message, the claims that are called, in order: all but the last leave it to those below
    (new, writes("hello"), [*BEGINS, "kind"]),
    (new, writes("/help"), [*BEGINS, "command"]),
    (new, writes("/skip verification build it"), [*BEGINS, "kind"]),
    (new, writes("hello", by_program=True), ["beginning", "kind"]),
    (new, reacts("👍", lambda _: "e" * 64), []),
    (working, writes("hello"), ["awake", "kind"]),
    (working, writes("/stop"), ["awake", "command"]),
    (working, writes("/stop", by_program=True), ["kind"]),
    (working, writes("@nobody build it"), ["awake", "command"]),
    (working, reacts("🛑", newest(r.MessageRecorded)), ["stop sign"]),
    (working, reacts("👍", newest(r.MessageRecorded)), []),
    (working, deletes(newest(r.MessageRecorded)), ["message"]),
    (working, deletes(lambda _: "e" * 64), []),
    (working, edits("hullo", newest(r.MessageRecorded)), ["edit"]),
    (working, edits("/stop", newest(r.MessageRecorded)), ["edit", "awake", "command"]),
    (ended, writes("hello"), ["awake", "kind"]),
    (ended, edits("hullo", newest(r.MessageRecorded)), ["edit"]),
    (ended, reacts("🛑", newest(r.MessageRecorded)), []),
    (asking, writes("yes"), ["awake", "kind", "question"]),
    (asking, replies("yes"), ["awake", "kind", "question"]),
    (asking, reacts("👍"), ["reply", "awake", "kind", "question"]),
    (asking, reacts("🛑"), ["stop sign"]),
    (asking, writes("/status"), ["awake", "command"]),
    (asked, writes("yes"), ["awake", "permission"]),
    (asked, writes("what is it?"), ["awake", "permission", "kind", "question"]),
    (asked, writes("yes", by_program=True), ["kind", "question"]),
    (asked, replies("no", request_event), ["awake", "permission"]),
    (asked, writes("/deny"), ["awake", "permission"]),
    (asked, reacts("👍", request_event), ["permission"]),
    (asked, reacts("🛑", request_event), ["permission"]),
    (asked, reacts("🛑", newest(r.MessageRecorded)), ["stop sign"]),
    (over, replies("yes", request_event), ["awake", "permission"]),
    (over, writes("yes"), ["awake", "kind"]),
    (over, reacts("🛑", request_event), ["stop sign"]),
    (over, deletes(newest(r.CommandGiven)), ["permission"]),
    (over, edits("yes", newest(r.CommandGiven)), ["edit"]),
    (planned, writes("yes"), ["awake", "kind", "decision"]),
    (planned, writes("/approve"), ["awake", "command"]),
    (planned, reacts("👍"), ["reply", "awake", "kind", "decision"]),
    (waiving, writes("yes"), ["awake", "kind", "decision"]),
    (visited, writes("hello", author=BOB, by_machine=True), ["duplicate"]),
    (visited, writes("hello"), ["awake", "kind"]),
]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the claims whose `take` is called, in order; one that does not want the message must not be."""
    names: list[str] = []

    def watched(claim: Claim[Any]) -> Claim[Any]:
        def take(transaction: Transaction, message: Any) -> bool:
            assert claim.wants(transaction.state, message), f"{claim.name} does not want it"
            names.append(claim.name)
            return claim.take(transaction, message)

        return dataclasses.replace(claim, take=take)

    every = tuple(map(watched, all_claims()))
    monkeypatch.setattr(claims, "all_claims", lambda: every)
    return names


@pytest.mark.parametrize(
    ("state", "message", "expected"), TABLE, ids=[f"{number}-{row[0].__name__}" for number, row in enumerate(TABLE)]
)
def test_which_claim_takes_a_message(
    state: Callable[[], Scenario], message: Callable[[Scenario], Any], expected: list[str], called: list[str]
) -> None:
    scenario = state()
    called.clear()
    message(scenario)
    assert called == expected


def test_an_event_that_comes_twice_is_a_duplicate(called: list[str]) -> None:
    scenario = new().converse("hello")
    called.clear()
    event = scenario.records(r.MessageRecorded)[0].event_id
    assert scenario.user_writes("hello", event_id=event) == []
    assert called == ["duplicate"]


def test_every_claim_takes_a_message_of_the_table() -> None:
    assert {claim.name for claim in all_claims()} == {name for _, _, names in TABLE for name in names}


@pytest.mark.parametrize(
    ("state", "number"),
    [(new, 0), (working, 0), (ended, 0), (asking, 1), (asked, 1), (over, 0), (planned, 1), (waiving, 2)],
)
def test_how_many_questions_a_yes_could_mean(state: Callable[[], Scenario], number: int) -> None:
    assert open_questions(state().conversation) == number


def test_an_approved_plan_asks_no_more() -> None:
    scenario = planned()
    scenario.user_writes("/approve")
    assert open_questions(scenario.conversation) == 0


def test_a_yes_to_the_thread_allows_nothing_while_an_agent_asks_too() -> None:
    scenario = asked(reply("", PUSH, ("ask", {"question": "Shall I?"})))
    assert open_questions(scenario.conversation) == 2
    scenario.user_writes("yes")
    assert scenario.records(r.ApprovalAnswered) == scenario.records(r.QuestionAnswered) == []
    assert scenario.sent_texts()[-1].startswith("Several things are asked.")
