"""What is remembered over a long conversation, and how its requests begin with the same bytes."""

import os.path
import re
from itertools import pairwise
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.context.window import fitted
from tenex.core.conversation import Conversation
from tenex.core.decide.rollback import state_at
from tenex.core.effects import ModelCall
from tenex.core.ids import ConversationId, Millis
from tenex.core.messages import AgentText, ModelRequest, ModelStep, Note, ShownBefore, UserText
from tenex.core.phases import Phase
from tenex.core.signals import RollBack
from tenex.core.state.memory import DECISIONS, EARLIER_BYTES, FIRST, LEAST_RECENT, RECENT_BYTES, size
from tenex.core.state.rollback import of_fork
from tenex.core.state.snapshot import StateSnapshot
from tenex.llm.messages import marked
from tenex.store.format import CONVERSATION
from tests.fakes.scenario import (
    ENDS,
    ID,
    WAITS,
    Router,
    Scenario,
    model_by_phase,
    reply,
    route,
    rules,
    scenario_at,
)

FILLER = re.findall(
    r"\w+",
    "the roof of the old house should be repaired before winter because rain comes in at the north side and the "
    "carpenter who looked at it says that the beams below are still dry enough to keep if we begin within a month",
)


def sentence(number: int) -> str:
    """From 20 to 60 words, others for each number."""
    return " ".join(FILLER[(number * 7 + word) % len(FILLER)] for word in range(20 + number * 13 % 41))


class Chat:
    """A person and the project manager, who write to each other in one cycle that does not end."""

    def __init__(self, budget: int) -> None:
        self.requests: list[ModelRequest] = []
        self.answer = sentence
        limits = Limits(same_route=10**6)
        self.scenario = Scenario(Router(WAITS), self._model, config=rules(limits=limits))
        self.scenario.budget = budget

    def _model(self, conversation: Conversation, call: ModelCall) -> ModelStep:
        request = ModelRequest(
            purpose="work",
            agent=conversation.runs[call.run].agent,
            phase=conversation.phase,
            system=call.system,
            entries=fitted(call.system, call.entries, (), self.scenario.budget),
        )
        self.requests.append(request)
        return reply(self.answer(len(self.requests)))

    def writes(self, text: str, then: Any = WAITS) -> None:
        """A message and its answer."""
        self.scenario.router = Router(route(None, "project-manager"), then)
        self.scenario.converse(text)

    def goes_on(self, messages: int, then: Any = WAITS) -> None:
        """So many messages more, each with its answer."""
        for number in range(len(self.requests), len(self.requests) + messages):
            self.writes(f"message-{number} {sentence(number)}", then)


def sent(request: ModelRequest) -> str:
    """What a model reads of the first request of a run."""
    return "\n\n".join(marked(one) for one in request.entries if isinstance(one, (UserText, AgentText, Note)))


def shared(requests: list[ModelRequest]) -> float:
    """The part of all bytes of the requests that the request before begins with, too."""
    texts = [sent(request) for request in requests]
    same = sum(len(os.path.commonprefix(pair)) for pair in pairwise(texts))  # noqa: RUF071 - no paths
    return same / sum(map(len, texts[1:]))


@pytest.mark.parametrize("budget", [32_000, 100_000])
def test_a_fact_of_the_third_message_is_known_at_the_three_hundredth(budget: int) -> None:
    chat = Chat(budget)
    chat.goes_on(2)
    chat.writes("Remember that the password of the archive is heliotrope. " + sentence(3))
    chat.goes_on(297)
    last = chat.requests[-1]
    assert "heliotrope" in sent(last)
    assert f"message-298 {sentence(298)}" in sent(last)
    assert sum(f"message-{number} " in sent(last) for number in range(300)) > 200
    if budget == 100_000:
        assert all(f"message-{number} {sentence(number)}" in sent(last) for number in range(3, 300)), "word for word"


@pytest.mark.parametrize("budget", [16_000, 32_000, 100_000])
@pytest.mark.parametrize("then", [WAITS, ENDS], ids=["one cycle", "a cycle for each message"])
def test_requests_of_a_long_chat_begin_with_the_same_bytes(budget: int, then: Any) -> None:
    chat = Chat(budget)
    chat.goes_on(150, then)
    assert shared(chat.requests[-100:]) > 0.9
    moves = [
        one
        for one in chat.scenario.records(r.RunStarted)[1:]
        if not any(isinstance(entry, ShownBefore) for entry in one.entries)
    ]
    assert len(moves) <= 150 * 1_000 // budget


def test_a_decision_and_the_first_messages_are_in_the_note_on_what_was_earlier() -> None:
    chat = Chat(16_000)
    chat.goes_on(1)
    chat.scenario.user_writes("/skip chores")
    chat.goes_on(150)
    note = chat.requests[-1].entries[0]
    assert isinstance(note, Note)
    assert note.title == "Earlier"
    assert "alice gave up chores: “/skip chores”" in note.text
    assert f"alice: message-1 {sentence(1)}" in note.text


def test_the_state_is_bounded_and_what_leaves_it_stays_in_a_line() -> None:
    chat = Chat(100_000)
    chat.answer = lambda number: "x" * 3_000
    chat.goes_on(400)
    state = chat.scenario.conversation
    assert sum(map(size, state.recent)) == state.recent_size <= RECENT_BYTES
    assert len(state.recent) >= LEAST_RECENT
    assert [message.text.split()[0] for message in state.earlier[:FIRST]] == [f"message-{n}" for n in range(FIRST)]
    assert sum(map(size, state.earlier)) <= EARLIER_BYTES
    without_turns = state.fork()
    without_turns.turns, without_turns.last_turn = (), None
    assert len(CONVERSATION.encode_decisions([[StateSnapshot.of(without_turns)]])) < 800_000


def test_going_back_and_branching_off_take_the_window_of_then() -> None:
    chat = Chat(100_000)
    chat.goes_on(3)
    records = chat.scenario.records()
    to = next(record.seq for record in reversed(records) if isinstance(record, r.Waiting))
    then = state_at(ID, records, to)
    chat.goes_on(3)
    chat.scenario.handle(RollBack(to=to, then=then, by="olga"))
    assert chat.scenario.conversation.window == then.window
    chat.goes_on(1)
    last = sent(chat.requests[-1])
    assert [n for n in range(7) if f"message-{n} " in last] == [0, 1, 2, 6]
    fork = of_fork(then, Millis(1), id=ConversationId("f" * 64), address={}, title="t")
    assert fork.window.entries == then.window.entries
    assert fork.window.until == then.window.until - then.next_seq < fork.next_seq
    assert [message.seq for message in fork.recent if message.seq > fork.window.until]


def test_commands_that_waive_answers_and_approved_plans_are_decisions_and_the_oldest_are_forgotten() -> None:
    asks = reply("", ("ask", {"question": "Which colour?"}))
    scenario = scenario_at(Phase.PLAN, Router(WAITS)).settle()
    scenario.router = Router(route("execute", "executor"), WAITS)
    scenario.worker = model_by_phase(execute=[asks, reply("done")])
    for text in ("yes, but without the cellar", "blue", "/skip verification"):
        scenario.converse(text)
    decisions = scenario.conversation.user_decisions
    assert [(one.text, one.is_command) for one in decisions] == [
        ("alice on the plan: yes, but without the cellar", False),
        ("asked “Which colour?”, alice answered: blue", False),
        ("alice gave up verification: “/skip verification”", True),
    ]
    for _ in range(DECISIONS):
        scenario.user_writes("/quick")
    assert len(scenario.conversation.user_decisions) == DECISIONS
    assert not set(decisions) & set(scenario.conversation.user_decisions)
