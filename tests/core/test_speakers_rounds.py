"""A workflow as a conversation: opened by a mention, round by round by its rules, ended in one of five ways, once."""

import dataclasses
import itertools

import pytest

from tenex.core import records as r
from tenex.core.config import Limits
from tenex.core.ids import Slug
from tenex.core.workflow_config import no_graphs
from tenex.workflows.speakers import (
    AgentTarget,
    AllOf,
    Always,
    ContextEquals,
    FromSpeaker,
    RevertToInitiatorTarget,
    StayTarget,
    TerminateTarget,
    ToolCalled,
    Transition,
    TransitionGraph,
)
from tests.fakes.scenario import RELAY, Scenario, agent
from tests.fakes.workflows import (
    NAME,
    TRIO,
    ScriptedSpeakers,
    calls,
    session,
    started,
    unused_router,
    workflow_policy,
    workflow_scenario,
)

LINE = TransitionGraph.sequence(TRIO)


def speakers(one: Scenario) -> list[str]:
    return [record.speaker for record in one.records(r.RoundClosed)]


def closed(one: Scenario) -> str:
    """The reason of the one end there was."""
    (record,) = one.records(r.WorkflowClosed)
    (message,) = [
        record for record in one.records(r.MessageSent) if "close-reason" in dict(tag[:2] for tag in record.tags)
    ]
    assert dict(tag[:2] for tag in message.tags)["close-reason"] == record.reason
    assert one.records(r.MessageSent)[-1] is message, "the reason is in the last message"
    assert one.conversation.status == "ended"
    return str(record.reason)


def test_a_mention_opens_it_everybody_acknowledges_and_the_first_round_begins_in_one_append() -> None:
    one = started(LINE)
    (append,) = one.journal
    kinds = [type(record).__name__ for record in append]
    assert kinds == [
        "ConversationStarted",
        "CycleStarted",
        "WorkflowOpened",
        "InviteAcknowledged",
        "InviteAcknowledged",
        "InviteAcknowledged",
        "MessageRecorded",
        "TurnOpened",
        "RunStarted",
    ]
    assert one.conversation.turn is not None
    assert one.conversation.turn.agents == ("writer",)


def test_a_mention_of_a_disabled_workflow_is_answered_with_its_fault_and_begins_nothing() -> None:
    config = dataclasses.replace(
        workflow_policy(), disabled={Slug(NAME): ("review.toml: line 1.", "review.toml: line 2.")}
    )
    one = Scenario(unused_router, ScriptedSpeakers(), config=config).converse("Make it good", addressed=(NAME,))
    (message,) = one.records(r.MessageSent)
    assert message.text.startswith(f"The workflow {NAME} is disabled: review.toml: line 1. (1 more.)")
    assert one.conversation.status == "ended"
    assert not one.records(r.WorkflowOpened)


def test_a_round_counts_in_the_append_of_its_words() -> None:
    one = started(LINE).settle()
    for append in one.journal:
        kinds = [type(record) for record in append]
        assert (r.TurnClosed in kinds) == (r.RoundClosed in kinds)
        if r.RoundClosed in kinds:
            assert r.RunEnded in kinds
            assert any(isinstance(record, r.MessageSent) and record.purpose == "completion" for record in append)


def test_1_3_b_the_last_round_and_the_end_are_one_append_so_no_crash_lets_anybody_speak() -> None:
    one = started(LINE).settle()
    (last,) = [append for append in one.journal if any(isinstance(record, r.WorkflowClosed) for record in append)]
    assert any(isinstance(record, r.RoundClosed) and record.turn_count == 3 for record in last)
    one.crash()
    one.converse("one more?")
    assert speakers(one) == list(TRIO)
    assert "has ended (sequence_complete)" in one.sent_texts()[-1]
    assert one.conversation.status == "ended"


@pytest.mark.parametrize("when", ["before", "after"])
def test_1_3_e_a_crash_at_any_append_resumes_the_round_and_repeats_no_effect(when: str) -> None:
    graph = TransitionGraph(
        "writer",
        [
            Transition(ToolCalled("send"), AgentTarget("checker")),
            Transition(FromSpeaker("writer"), AgentTarget("editor")),
        ],
        TerminateTarget("done"),
    )
    lines = {"writer": [calls(("set_context", {"key": "draft", "value": 1}), ("send", {"path": "m"})), "written"]}
    whole = started(graph, lines).settle()
    for at in itertools.count(1):
        one = workflow_scenario(graph, lines)
        one.crash_at = (at, when)
        one.converse("Make it good", addressed=(NAME,))
        if not one.crashed:
            break
        assert speakers(one) == ["writer", "checker"], at
        assert closed(one) == "done"
        assert all(count == 1 for key, count in one.ran.items()), "a call that may not be repeated ran once"
        assert session(one).speakers.context_vars == {"draft": 1}
        assert [text for text in one.sent_texts() if "spoken" in text or text == "written"] == [
            "written",
            "checker has spoken",
        ]
        assert one.refold() == one.conversation
    assert at == whole.appends + 1


def test_a_handoff_beats_a_tool_and_the_first_call_in_emission_order_counts() -> None:
    graph = TransitionGraph(
        "writer", [Transition(ToolCalled("escalate"), AgentTarget("editor"))], TerminateTarget("over")
    )
    for target in ("Checker", "@checker,", "`checker`", str(agent("checker").pubkey)):
        named = started(graph, {"writer": [calls(("handoff", {"target": target})), "take it"]}).settle()
        assert speakers(named) == ["writer", "checker"]
    one = started(
        graph, {"writer": [calls(("handoff", {"target": "checker", "reason": "it is ready"})), "take it"]}
    ).settle()
    assert speakers(one) == ["writer", "checker"]
    first = one.records(r.RoundClosed)[0]
    assert (first.tool, first.handoff, first.reason) == ("handoff", "checker", "it is ready")
    other = started(graph, {"writer": [calls(("escalate", {}), ("handoff", {"target": "checker"})), "up"]}).settle()
    assert speakers(other) == ["writer", "editor"], "the call that was made first counts"


def test_finish_ends_it_with_its_reason_and_its_summary_is_sent() -> None:
    one = started(
        LINE, {"writer": [calls(("finish", {"summary": "Nothing to do.", "reason": "void"})), "bye"]}
    ).settle()
    assert closed(one) == "void"
    assert "Nothing to do." in one.sent_texts()[-1]


def test_an_owner_closes_it_also_while_somebody_speaks() -> None:
    one = started(LINE)
    one.converse("/new")
    assert closed(one) == "closed"
    assert speakers(one) == []
    assert one.records(r.RunEnded)[0].outcome == "stopped"


def test_a_stopped_round_does_not_count_and_is_done_again() -> None:
    one = started(LINE)
    one.user_writes("/stop")
    assert (one.conversation.status, session(one).expected) == ("waiting", "writer")
    one.converse("/continue")
    assert speakers(one) == list(TRIO)


def test_variables_hold_at_once_whatever_sets_them_and_the_rules_of_the_same_round_see_them() -> None:
    graph = TransitionGraph(
        "writer", [Transition(ContextEquals("route", "b"), AgentTarget("checker"))], TerminateTarget("unset")
    )
    lines = {
        "writer": [calls(("set_context", {"key": "route", "value": "b"})), "go"],
        "checker": [calls(("delete_context", {"key": "route"})), "stop"],
    }
    one = started(graph, lines, context={"tries": 0}).settle()
    assert (speakers(one), closed(one)) == (["writer", "checker"], "unset")
    assert [(record.set_, record.delete) for record in one.records(r.ContextSet)] == [
        ({"route": "b"}, ()),
        ({}, ("route",)),
    ]
    assert session(one).speakers.context_vars == {"tries": 0}


def test_a_user_takes_part_opens_with_the_first_round_and_is_waited_for() -> None:
    graph = TransitionGraph(
        "person",
        [
            Transition(AllOf([FromSpeaker("person"), ContextEquals("ok", value=True)]), TerminateTarget("agreed")),
            Transition(FromSpeaker("person"), AgentTarget("writer")),
            Transition(FromSpeaker("writer"), RevertToInitiatorTarget()),
        ],
    )
    lines = {"writer": ["a draft", calls(("set_context", {"key": "ok", "value": True})), "a better one"]}
    one = started(graph, lines, "person", "writer")
    assert speakers(one) == ["person"], "the opening message is turn 1"
    one.settle()
    assert (one.conversation.status, one.conversation.waiting_for) == ("waiting", "user")
    one.converse("better, please")
    one.converse("yes")
    assert (speakers(one), closed(one)) == (["person", "writer", "person", "writer", "person"], "agreed")


def test_a_user_who_takes_part_names_the_next_speaker_by_a_mention_of_a_participant() -> None:
    rules = [Transition(FromSpeaker("person"), AgentTarget("writer"))]
    graph = TransitionGraph("person", rules, default_target=RevertToInitiatorTarget())
    one = started(graph, {slug: ["one", "two"] for slug in TRIO}, "person", "writer", "checker")
    one.settle()
    one.converse("what do you say?", addressed=("editor", "checker"))
    one.converse("go on", addressed=("editor",))
    assert speakers(one) == ["person", "writer", "person", "checker", "person", "writer"]


def test_a_speaker_who_left_the_roster_is_waited_for_and_comes_back() -> None:
    one = started(LINE)
    without = {slug: known for slug, known in one.rules.roster.items() if slug != "editor"}
    full, one.rules = one.rules, dataclasses.replace(one.rules, roster=without)
    one.settle()
    assert (one.conversation.status, one.conversation.waiting_for) == ("waiting", "fallback")
    assert "editor is to speak, and is no agent here any more" in one.sent_texts()[-1]
    one.rules = full
    one.converse("/continue")
    assert closed(one) == "sequence_complete"


def test_the_graph_it_was_opened_with_goes_on_when_the_configured_one_has_changed_or_is_gone() -> None:
    one = started(LINE)
    one.rules = dataclasses.replace(one.rules, workflows={})
    one.settle()
    assert closed(one) == "sequence_complete"


def test_rules_without_a_bound_stop_at_the_limit_of_turns_and_those_with_one_do_not() -> None:
    limits = Limits(turns_per_message=5)
    one = started(TransitionGraph("writer", [Transition(Always(), StayTarget())]), limits=limits).settle()
    assert (len(speakers(one)), one.conversation.waiting_for) == (5, "limit")
    one.converse("/continue")
    assert len(speakers(one)) == 10
    bounded = started(TransitionGraph.round_robin(TRIO, max_turns=12), limits=limits).settle()
    assert closed(bounded) == "max_turns"


def test_the_limit_of_what_a_cycle_uses_overrides_rules_with_a_bound() -> None:
    one = started(TransitionGraph.round_robin(TRIO, max_turns=12), limits=Limits(tokens_per_cycle=1)).settle()
    assert (len(speakers(one)), one.conversation.waiting_for) == (1, "limit")
    assert "tokens" in one.sent_texts()[-1]


def test_where_nothing_may_be_spent_what_costs_nothing_goes_on() -> None:
    one = started(LINE, limits=Limits(cost_per_cycle_usd=0.0)).settle()
    assert closed(one) == "sequence_complete"


def test_every_message_names_the_workflow_and_its_notices_are_in_its_own_name() -> None:
    one = started(LINE)
    one.converse("/status")
    for message in one.records(r.MessageSent):
        assert ("workflow", NAME) in message.tags
        assert not [tag for tag in message.tags if tag[0] == "phase"]
        assert message.relays == (RELAY,)
    assert one.records(r.MessageSent)[0].text.startswith("Workflow Review: round 1 of at most 3, writer's turn")
    assert one.records(r.MessageSent)[-1].name == "Review"


@pytest.mark.parametrize("command", ["/new", "/continue", "/retry", "/stop", "/quick"])
def test_after_the_end_a_command_is_answered_and_opens_nothing(command: str) -> None:
    one = started(LINE).settle()
    before = len(one.sent_texts())
    one.converse(command)
    assert len(one.sent_texts()) == before + 1
    assert (one.conversation.status, len(one.records(r.WorkflowClosed))) == ("ended", 1)


def test_no_one_is_set_to_work_while_the_rules_cannot_be_read() -> None:
    one = started(LINE)
    full, one.rules = one.rules, dataclasses.replace(one.rules, compile_graph=no_graphs)
    one.settle()
    assert "The rules of Review cannot be read any more" in one.sent_texts()[-1]
    turns = len(one.records(r.TurnOpened))
    one.user_writes("/continue")
    one.converse("go on")
    assert len(one.records(r.TurnOpened)) == turns, "its round could not be counted"
    assert "The rules of Review cannot be read any more" in one.sent_texts()[-1]
    one.rules = full
    one.converse("/continue")
    assert closed(one) == "sequence_complete"
