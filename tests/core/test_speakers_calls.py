"""What a speaker asks for by calls: decided at once, refused with a sentence, counted when the round closes."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.effects import ModelCall, ToolCall
from tenex.core.ports import ToolResult
from tenex.core.signals import ToolReturned
from tenex.core.workflow.rounds import Finish, Handoff
from tenex.workflows.speakers import AgentTarget, TerminateTarget, ToolCalled, Transition, TransitionGraph
from tenex.workflows.speakers.calls import LARGEST, specs
from tests.fakes.scenario import reply
from tests.fakes.workflows import TRIO, calls, session, started

LINE = TransitionGraph.sequence(TRIO)


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("handoff", {}, "needs `target`"),
        ("handoff", {"target": ["editor"]}, "needs `target`"),
        ("handoff", {"target": "editor", "reason": 3}, "must be a text"),
        ("handoff", {"target": "nobody"}, "refused: those who take part are"),
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
    assert [record.speaker for record in one.records(r.RoundClosed)] == list(TRIO)


def test_a_speaker_who_only_hands_over_has_stated_why() -> None:
    one = started(
        LINE, {"writer": [calls(("handoff", {"target": "checker", "reason": "yours now"})), reply("")]}
    ).settle()
    assert one.sent_texts()[0] == "yours now"
    assert not one.records(r.ModelReprompted)


def test_every_speaker_is_offered_the_words_of_a_workflow_and_a_routing_tool_only_after_whom_it_can_route() -> None:
    one = started(TransitionGraph.star("writer", {"call": "editor"}))
    offered = {name: [spec.name for spec in specs(session(one), name)] for name in ("writer", "editor", "planner")}  # type: ignore[arg-type]
    own = ["handoff", "finish", "set_context", "delete_context"]
    assert offered == {"writer": [*own, "call"], "editor": own, "planner": []}
    assert specs(None, "writer") == ()  # type: ignore[arg-type]
    targets = specs(session(one), "writer")[0].parameters["properties"]["target"]["enum"]  # type: ignore[arg-type]
    assert targets == ["editor", "checker"]


def test_the_calls_of_all_steps_count_in_the_order_in_which_they_were_made() -> None:
    rules = [
        Transition(ToolCalled("write_file"), AgentTarget("checker")),
        Transition(ToolCalled("read_file"), AgentTarget("editor")),
    ]
    graph = TransitionGraph("writer", rules, TerminateTarget("none"))
    for steps, speaker in (
        ([calls(("read_file", {"path": "a"})), calls(("write_file", {"path": "a"})), "done"], "editor"),
        ([calls(("write_file", {"path": "a"}), ("read_file", {"path": "b"})), "done"], "checker"),
        ([calls(("check", {})), "done"], ""),
    ):
        one = started(graph, {"writer": steps}).settle()
        assert one.records(r.RoundClosed)[0].next == speaker


def test_a_call_that_was_let_through_and_failed_counts_whatever_was_called_after_it() -> None:
    rules = [Transition(ToolCalled("check"), AgentTarget("checker"))]
    one = started(
        TransitionGraph("writer", rules, TerminateTarget("none")),
        {"writer": [calls(("check", {}), ("read_file", {"path": "a"})), "done"]},
    )
    one.step(lambda ready: next(effect for effect in ready if isinstance(effect, ModelCall)))
    check, _ = (effect for effect in one.running.values() if isinstance(effect, ToolCall))
    one.handle(ToolReturned(key=check.key, result=ToolResult(ok=False, content="red")))
    one.settle()
    assert one.records(r.RoundClosed)[0].next == "checker"


def test_a_round_states_why_its_speaker_is_next() -> None:
    one = started(LINE, {"writer": [calls(("handoff", {"target": "checker", "reason": "yours now"})), "done"]}).settle()
    reasons = [record.reason for record in one.records(r.TurnOpened)]
    assert reasons[:2] == ["Review begins", "writer handed over to checker: yours now"]


def test_complete_is_a_tool_that_rules_can_name() -> None:
    graph = TransitionGraph("writer", [Transition(ToolCalled("complete"), AgentTarget("checker"))])
    one = started(graph, {"writer": [calls(("complete", {"response": "here", "summary": "s"}))]}).settle()
    assert one.records(r.RoundClosed)[0].next == "checker"


def test_a_call_after_the_end_changes_nothing() -> None:
    one = started(LINE, {"writer": [calls(("set_context", {"key": "a", "value": 1}))]})
    one.fire("ttl.close")
    one.settle()
    assert not one.records(r.ContextSet)


@pytest.mark.parametrize("second", [("handoff", {"target": "editor"}), ("finish", {"summary": "x"}), ("route", {})])
@pytest.mark.parametrize("first", [("handoff", {"target": "checker"}), ("route", {}), ("write_file", {"path": "a"})])
def test_who_asks_twice_who_is_next_is_notified_that_the_first_counts(first: Any, second: Any) -> None:
    rules = [Transition(ToolCalled(name), AgentTarget("checker")) for name in ("route", "write_file")]
    graph = TransitionGraph("writer", rules, TerminateTarget("none"))
    one = started(
        graph, {"writer": [calls(first), calls(("set_context", {"key": "a", "value": 1}), second), "done"]}
    ).settle()
    (refused,) = one.records(r.ToolCallRejected)
    assert refused.tool == second[0]
    assert f"`{first[0]}` was called first in this turn and decides what follows" in refused.sentence
    assert one.records(r.RoundClosed)[0].next == "checker"


def returning(result: ToolResult) -> Any:
    """A scenario in which the first speaker's call of a tool returns this result."""
    graph = TransitionGraph("writer", [Transition(ToolCalled("check"), AgentTarget("editor"))], max_turns=2)
    one = started(graph, {"writer": [calls(("check", {})), "done"]}, context={"kept": 1, "old": 2})
    one.step(lambda ready: next(effect for effect in ready if isinstance(effect, ModelCall)))
    (check,) = (effect for effect in one.running.values() if isinstance(effect, ToolCall))
    one.handle(ToolReturned(key=check.key, result=result))
    one.crash()  # what the result asks for is in the journal
    one.settle()
    assert one.refold() == one.conversation
    return one


def test_what_a_tool_returns_routes_before_a_rule_that_names_the_tool() -> None:
    one = returning(ToolResult(ok=True, content="sent", route=Handoff("Checker", "knows it")))
    first = one.records(r.RoundClosed)[0]
    assert (first.next, first.handoff, first.reason) == ("checker", "checker", "knows it")
    one = returning(ToolResult(ok=True, content="closed", route=Finish("all done", "solved")))
    (closed,) = one.records(r.WorkflowClosed)
    assert (closed.reason, closed.summary) == ("solved", "all done")


def test_a_handoff_of_a_tool_to_somebody_else_is_refused_and_the_rules_decide() -> None:
    one = returning(ToolResult(ok=True, content="sent", route=Handoff("ghost")))
    assert "refused: those who take part are" in one.records(r.ToolCallCompleted)[0].content
    assert one.records(r.RoundClosed)[0].next == "editor"


def test_a_tool_sets_and_deletes_variables_and_too_large_ones_are_refused() -> None:
    one = returning(ToolResult(ok=True, content="noted", context={"new": [3]}, removed=("old",)))
    assert session(one).speakers.context_vars == {"kept": 1, "new": [3]}
    one = returning(ToolResult(ok=True, content="noted", context={"new": "x" * LARGEST}))
    assert session(one).speakers.context_vars == {"kept": 1, "old": 2}
    assert "new is not set: all variables together" in one.records(r.ToolCallCompleted)[0].content
