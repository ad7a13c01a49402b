"""The port of the kinds of conversation: who owns a conversation, and what it takes to add a kind."""

import pytest

from tenex.core import mode as port
from tenex.core import records as r
from tenex.core.commands import activity
from tenex.core.decide.messages import answers_question, record_message
from tenex.core.decide.transaction import Transaction
from tenex.core.decide.turns import advance, open_turn
from tenex.core.errors import InternalError
from tenex.core.ids import Slug
from tenex.core.mode import Mode, all_modes, mode_of, register
from tenex.core.signals import MessageReceived
from tenex.core.state.conversation import State
from tenex.workflows.missions.mode import MissionsMode
from tenex.workflows.phases.mode import PhasesMode
from tenex.workflows.speakers.mode import SpeakersMode
from tests.fakes.scenario import Router, Scenario, plain_model, reply


class OneAgentMode(Mode):
    """A kind without phases and without a router: one agent answers each message."""

    def owns(self, state: State) -> bool:
        del state
        return True

    def on_message(self, draft: Transaction, signal: MessageReceived, called: Slug) -> None:
        del called
        if not answers_question(draft, record_message(draft, signal)):
            advance(draft)

    def next(self, draft: Transaction) -> None:
        if draft.state.unanswered:
            open_turn(draft, (Slug("executor"),), "a user wrote")
        else:
            draft.add(r.Waiting, reason="user")

    def status(self, draft: Transaction) -> list[str]:
        return activity(draft, "It has ended.")


@pytest.fixture
def one_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "_MODES", [])
    register(OneAgentMode())


def unused(question: object) -> object:
    raise AssertionError(f"the router was asked: {question}")


@pytest.mark.usefixtures("one_agent")
def test_a_kind_is_one_class_and_one_registration() -> None:
    scenario = Scenario(unused, lambda conversation, call: reply(f"step {conversation.turn_count}"))
    scenario.user_writes("hello")
    scenario.settle()
    scenario.user_writes("and again")
    scenario.settle()
    assert [turn.agents for turn in scenario.conversation.turns] == [("executor",), ("executor",)]
    assert scenario.conversation.status == "waiting"
    scenario.user_writes("/status")
    scenario.settle()
    assert "I wait for you." in scenario.sent_texts()[-1]


@pytest.mark.usefixtures("one_agent")
@pytest.mark.parametrize(
    ("command", "answer"),
    [("/quick", "no quality gates"), ("/set a=1", "Only a workflow"), ("/pause", "Only a mission")],
)
def test_the_kernel_answers_commands_that_a_kind_has_not(command: str, answer: str) -> None:
    scenario = Scenario(unused, plain_model)
    scenario.user_writes("hello")
    scenario.settle()
    scenario.user_writes(command)
    scenario.settle()
    assert answer in scenario.sent_texts()[-1]


def test_the_phases_own_what_no_other_kind_owns() -> None:
    assert [type(mode) for mode in all_modes()] == [SpeakersMode, MissionsMode, PhasesMode]
    assert isinstance(mode_of(Scenario(Router({}), plain_model).conversation), PhasesMode)


def test_without_a_registered_kind_the_error_tells_what_to_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "_MODES", [])
    with pytest.raises(InternalError, match=r"import tenex\.workflows"):
        all_modes()
