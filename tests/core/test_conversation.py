"""A fork of a conversation: all of it but the history, and nothing that is drafted on it is seen in the other."""

from dataclasses import fields

from tenex.core import records as r
from tenex.core.ids import Millis
from tenex.core.phases import Phase
from tenex.core.state.conversation import State
from tests.fakes.scenario import scenario_at


def test_a_fork_holds_every_value_of_the_conversation_but_its_history() -> None:
    conversation = scenario_at(Phase.VERIFICATION).conversation
    fork = conversation.fork()
    for spec in fields(State):
        mine, its = getattr(conversation, spec.name), getattr(fork, spec.name)
        assert its is (None if spec.name == "history" else mine), spec.name


def test_what_is_applied_to_a_fork_is_not_applied_to_the_conversation() -> None:
    conversation = scenario_at(Phase.CHAT).conversation
    seq, fork = conversation.next_seq, conversation.fork()
    fork.apply(r.Ended(seq=seq, at=Millis(conversation.updated_at + 1), reason="done"))
    assert (fork.status, fork.next_seq) == ("ended", seq + 1)
    assert (conversation.status, conversation.next_seq) == ("active", seq)
