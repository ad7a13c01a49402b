"""A workflow as a conversation: opened by a mention, round by round by rules and calls, ended in one of five ways."""

import dataclasses
import itertools
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Limits, Role
from tenex.core.effects import ModelCall, ToolCall
from tenex.core.ids import PublicKey, Slug
from tenex.core.ports import ToolResult
from tenex.core.signals import ToolReturned
from tenex.core.work.routes import Finish, Handoff
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
from tenex.workflows.speakers import records as w
from tenex.workflows.speakers.calls import LARGEST, specs
from tenex.workflows.speakers.config import no_graphs, rules_of, with_workflows
from tests.fakes.scenario import RELAY, Scenario, agent, reply
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
from tests.kits.speakers import closed, speakers

LINE = TransitionGraph.sequence(TRIO)


def test_a_mention_opens_it_everybody_acknowledges_and_the_first_round_begins_in_one_append() -> None:
    one = started(LINE)
    (append,) = one.journal
    begun = (r.ConversationStarted, r.CycleStarted, w.WorkflowOpened)
    first = (r.MessageRecorded, r.TurnOpened, r.RunStarted)
    assert [type(record) for record in append] == [*begun, *[w.InviteAcknowledged] * 3, *first]
    assert one.conversation.work.turn is not None
    assert one.conversation.work.turn.agents == ("writer",)


def test_a_mention_of_a_disabled_workflow_is_answered_with_its_fault_and_begins_nothing() -> None:
    config = dataclasses.replace(
        workflow_policy(), disabled={Slug(NAME): ("review.toml: line 1.", "review.toml: line 2.")}
    )
    one = Scenario(unused_router, ScriptedSpeakers(), config=config).converse("Make it good", addressed=(NAME,))
    (message,) = one.records(r.MessageSent)
    assert message.text.startswith(f"The workflow {NAME} is disabled: review.toml: line 1. (1 more.)")
    assert one.conversation.cycle.status == "ended"
    assert not one.records(w.WorkflowOpened)


@pytest.mark.parametrize(
    ("graph", "reason", "words"),
    [
        (TransitionGraph.round_robin(TRIO, max_turns=2), "max_turns", "the most rounds that it may have are done"),
        (TransitionGraph.sequence(TRIO), "sequence_complete", "everybody has spoken"),
        (
            TransitionGraph(TRIO[0], [], TerminateTarget("budget_is_spent")),
            "budget_is_spent",
            "budget is spent",
        ),
    ],
)
def test_people_read_why_it_ended_and_programs_read_the_reason(graph: TransitionGraph, reason: str, words: str) -> None:
    one = started(graph).settle()
    last = one.records(r.MessageSent)[-1]
    assert last.text.endswith(f"has ended: {words}.")
    assert ("close-reason", reason) in last.tags
    assert one.records(w.WorkflowClosed)[0].reason == reason
    assert one.records(r.Ended)[-1].reason == words
    one.user_writes("/status")
    assert words in one.sent_texts()[-1]


def test_1_3_b_the_last_round_and_the_end_are_one_append_so_no_crash_lets_anybody_speak() -> None:
    one = started(LINE).settle()
    (last,) = [append for append in one.journal if any(isinstance(record, w.WorkflowClosed) for record in append)]
    assert any(isinstance(record, w.RoundClosed) and record.turn_count == 3 for record in last)
    one.crash()
    one.converse("one more?")
    assert speakers(one) == list(TRIO)
    assert "has ended: everybody has spoken." in one.sent_texts()[-1]
    assert one.conversation.cycle.status == "ended"


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
        words = [text for text in one.sent_texts() if "spoken" in text or text == "written"]
        assert words == ["written", "checker has spoken"]
    assert at == whole.appends + 1


def test_a_handoff_beats_a_tool_and_the_first_call_in_emission_order_counts() -> None:
    graph = TransitionGraph(
        "writer", [Transition(ToolCalled("escalate"), AgentTarget("editor"))], TerminateTarget("over")
    )
    for target in ("Checker", "@checker,", "`checker`", str(agent("checker").pubkey)):
        handed = ("handoff", {"target": target, "reason": "it is ready"})
        one = started(graph, {"writer": [calls(handed), reply("")]}).settle()
        assert speakers(one) == ["writer", "checker"]
        first = one.records(w.RoundClosed)[0]
        assert (first.tool, first.handoff, first.reason) == ("handoff", "checker", "it is ready")
        reasons = [record.reason for record in one.records(r.TurnOpened)]
        assert reasons == ["Review begins", "writer handed over to checker: it is ready"]
        assert one.sent_texts()[0] == "it is ready", "who only hands over has stated why"
        assert not one.records(r.ModelReprompted)
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
    assert (one.conversation.cycle.status, session(one).expected) == ("waiting", "writer")
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
    changes = [(record.set_, record.delete) for record in one.records(w.ContextSet)]
    assert changes == [({"route": "b"}, ()), ({}, ("route",))]
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
    assert (one.conversation.cycle.status, one.conversation.cycle.waiting_for) == ("waiting", "user")
    one.converse("better, please")
    one.converse("yes")
    assert (speakers(one), closed(one)) == (["person", "writer", "person", "writer", "person"], "agreed")


def test_a_user_who_takes_part_names_the_next_speaker_by_a_mention_of_a_participant() -> None:
    policy = [Transition(FromSpeaker("person"), AgentTarget("writer"))]
    graph = TransitionGraph("person", policy, default_target=RevertToInitiatorTarget())
    one = started(graph, {slug: ["one", "two"] for slug in TRIO}, "person", "writer", "checker")
    one.settle()
    one.converse("what do you say?", addressed=("editor", "checker"))
    one.converse("go on", addressed=("editor",))
    assert speakers(one) == ["person", "writer", "person", "checker", "person", "writer"]


def test_a_speaker_who_left_the_roster_is_waited_for_and_comes_back() -> None:
    one = started(LINE)
    without = {slug: known for slug, known in one.policy.roster.items() if slug != "editor"}
    full, one.policy = one.policy, dataclasses.replace(one.policy, roster=without)
    one.settle()
    assert (one.conversation.cycle.status, one.conversation.cycle.waiting_for) == ("waiting", "fallback")
    assert "editor is to speak, and is no agent here any more" in one.sent_texts()[-1]
    one.policy = full
    one.converse("/continue")
    assert closed(one) == "sequence_complete"


def test_the_graph_it_was_opened_with_goes_on_when_the_configured_one_has_changed_or_is_gone() -> None:
    one = started(LINE)
    one.policy = with_workflows(one.policy, {})
    one.settle()
    assert closed(one) == "sequence_complete"


def test_rules_without_a_bound_stop_at_the_limit_of_turns_and_those_with_one_do_not() -> None:
    limits = Limits(turns_per_message=5)
    one = started(TransitionGraph("writer", [Transition(Always(), StayTarget())]), limits=limits).settle()
    assert (len(speakers(one)), one.conversation.cycle.waiting_for) == (5, "limit")
    one.converse("/continue")
    assert len(speakers(one)) == 10
    bounded = started(TransitionGraph.round_robin(TRIO, max_turns=12), limits=limits).settle()
    assert closed(bounded) == "max_turns"


def test_the_limit_of_what_a_cycle_uses_overrides_rules_with_a_bound() -> None:
    one = started(TransitionGraph.round_robin(TRIO, max_turns=12), limits=Limits(tokens_per_cycle=1)).settle()
    assert (len(speakers(one)), one.conversation.cycle.waiting_for) == (1, "limit")
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
    assert (one.conversation.cycle.status, len(one.records(w.WorkflowClosed))) == ("ended", 1)


def test_no_one_is_set_to_work_while_the_rules_cannot_be_read() -> None:
    one = started(LINE)
    full = one.policy
    one.policy = with_workflows(full, rules_of(full).workflows, no_graphs)
    one.settle()
    assert "The rules of Review cannot be read any more" in one.sent_texts()[-1]
    turns = len(one.records(r.TurnOpened))
    one.user_writes("/continue")
    one.converse("go on")
    assert len(one.records(r.TurnOpened)) == turns, "its round could not be counted"
    assert "The rules of Review cannot be read any more" in one.sent_texts()[-1]
    one.policy = full
    one.converse("/continue")
    assert closed(one) == "sequence_complete"


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("handoff", {}, "needs `target`"),
        ("handoff", {"target": ["editor"]}, "needs `target`"),
        ("handoff", {"target": "editor", "reason": 3}, "must be a text"),
        ("handoff", {"target": "outsider"}, "refused: those who take part are"),
        ("finish", {"summary": 1}, "must be texts"),
        ("set_context", {"value": 1}, "`key` of `set_context`"),
        ("set_context", {"key": " ", "value": 1}, "`key` of `set_context`"),
        ("set_context", {"key": "a"}, "needs `value`"),
        ("set_context", {"key": "a", "value": float("nan")}, "JSON has no word for"),
        ("set_context", {"key": "a", "value": "x" * LARGEST}, "all variables together"),
        ("delete_context", {"key": None}, "`key` of `delete_context`"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence_and_changes_nothing(
    tool: str, arguments: dict[str, Any], expected: str
) -> None:
    one = started(LINE, {"writer": [calls((tool, arguments)), "done"]}, context={"kept": 1}).settle()
    (refused,) = one.records(r.ToolCallRejected)
    assert expected in refused.sentence
    assert session(one).speakers.context_vars == {"kept": 1}
    assert [record.speaker for record in one.records(w.RoundClosed)] == list(TRIO)


def test_every_speaker_is_offered_the_words_of_a_workflow_and_a_routing_tool_only_after_whom_it_can_route() -> None:
    one = started(TransitionGraph.star("writer", {"call": "editor"}))
    offered = {name: [spec.name for spec in specs(session(one), name)] for name in ("writer", "editor", "planner")}  # type: ignore[arg-type]
    own = ["handoff", "finish", "set_context", "delete_context"]
    assert offered == {"writer": [*own, "call"], "editor": own, "planner": []}
    assert specs(None, "writer") == ()  # type: ignore[arg-type]
    targets = specs(session(one), "writer")[0].parameters["properties"]["target"]["enum"]  # type: ignore[arg-type]
    assert targets == ["editor", "checker"]


def test_the_calls_of_all_steps_count_in_the_order_in_which_they_were_made() -> None:
    targets = {"write_file": "checker", "read_file": "editor", "complete": "checker"}
    policy = [Transition(ToolCalled(tool), AgentTarget(name)) for tool, name in targets.items()]
    graph = TransitionGraph("writer", policy, TerminateTarget("none"))
    for steps, speaker in (
        ([calls(("read_file", {"path": "a"})), calls(("write_file", {"path": "a"})), "done"], "editor"),
        ([calls(("write_file", {"path": "a"}), ("read_file", {"path": "b"})), "done"], "checker"),
        ([calls(("complete", {"response": "here", "summary": "s"}))], "checker"),
        ([calls(("check", {})), "done"], ""),
    ):
        one = started(graph, {"writer": steps}).settle()
        assert one.records(w.RoundClosed)[0].next == speaker


def test_a_call_that_was_let_through_and_failed_counts_whatever_was_called_after_it() -> None:
    one = returning(ToolResult(ok=False, content="red"), ("read_file", {"path": "a"}))
    assert one.records(w.RoundClosed)[0].next == "editor"


@pytest.mark.parametrize("second", [("handoff", {"target": "editor"}), ("finish", {"summary": "x"}), ("route", {})])
@pytest.mark.parametrize("first", [("handoff", {"target": "checker"}), ("route", {}), ("write_file", {"path": "a"})])
def test_who_asks_twice_who_is_next_is_notified_that_the_first_counts(first: Any, second: Any) -> None:
    policy = [Transition(ToolCalled(name), AgentTarget("checker")) for name in ("route", "write_file")]
    graph = TransitionGraph("writer", policy, TerminateTarget("none"))
    one = started(
        graph, {"writer": [calls(first), calls(("set_context", {"key": "a", "value": 1}), second), "done"]}
    ).settle()
    (refused,) = one.records(r.ToolCallRejected)
    assert refused.tool == second[0]
    assert f"`{first[0]}` was called first in this turn and decides what follows" in refused.sentence
    assert one.records(w.RoundClosed)[0].next == "checker"


def returning(result: ToolResult, *more: tuple[str, dict[str, Any]]) -> Any:
    """A scenario in which the first speaker's call of a tool, made with these, returns this result."""
    graph = TransitionGraph("writer", [Transition(ToolCalled("check"), AgentTarget("editor"))], max_turns=2)
    one = started(graph, {"writer": [calls(("check", {}), *more), "done"]}, context={"kept": 1, "old": 2})
    one.step(lambda ready: next(effect for effect in ready if isinstance(effect, ModelCall)))
    check = next(effect for effect in one.running.values() if isinstance(effect, ToolCall))
    one.handle(ToolReturned(key=check.key, result=result))
    one.crash()  # what the result asks for is in the journal
    one.settle()
    return one


def test_what_a_tool_returns_routes_before_a_rule_that_names_the_tool() -> None:
    one = returning(ToolResult(ok=True, content="sent", route=Handoff("Checker", "knows it")))
    first = one.records(w.RoundClosed)[0]
    assert (first.next, first.handoff, first.reason) == ("checker", "checker", "knows it")
    one = returning(ToolResult(ok=True, content="closed", route=Finish("all done", "solved")))
    (closed,) = one.records(w.WorkflowClosed)
    assert (closed.reason, closed.summary) == ("solved", "all done")


def test_a_handoff_of_a_tool_to_somebody_else_is_refused_and_the_rules_decide() -> None:
    one = returning(ToolResult(ok=True, content="sent", route=Handoff("ghost")))
    assert "refused: those who take part are" in one.records(r.ToolCallCompleted)[0].content
    assert one.records(w.RoundClosed)[0].next == "editor"


def test_a_tool_sets_and_deletes_variables_and_too_large_ones_are_refused() -> None:
    one = returning(ToolResult(ok=True, content="noted", context={"new": [3]}, removed=("old",)))
    assert session(one).speakers.context_vars == {"kept": 1, "new": [3]}
    one = returning(ToolResult(ok=True, content="noted", context={"new": "x" * LARGEST}))
    assert session(one).speakers.context_vars == {"kept": 1, "old": 2}
    assert "new is not set: all variables together" in one.records(r.ToolCallCompleted)[0].content


@pytest.mark.parametrize("role", [Role.GUEST, Role.MEMBER])
def test_someone_else_answers_no_question_and_takes_no_round_of_the_user(role: Role) -> None:
    """Who opened the workflow is asked; what others write is kept for the next speaker."""
    policy = [Transition(FromSpeaker("person"), AgentTarget("writer"))]
    graph = TransitionGraph("person", policy, default_target=RevertToInitiatorTarget())
    asks = reply("", ("ask", {"question": "How long?"}))
    one = started(graph, {"writer": [asks, "one page", "two pages"]}, "person", "writer")
    others: dict[str, Any] = {"role": role, "author": PublicKey("b" * 64), "name": "bob"}
    one.converse("ten pages", **others)
    assert one.records(r.QuestionAnswered) == []
    one.converse("one page")
    assert [record.text for record in one.records(r.QuestionAnswered)] == ["one page"]
    before = speakers(one)
    one.converse("more", **others)
    assert speakers(one) == before
    assert "It is the turn of the user who started this." in one.sent_texts()[-1]
    one.converse("more")
    assert speakers(one) == [*before, "person", "writer"]
