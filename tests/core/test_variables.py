"""Users set variables of a workflow: when they begin it, and later by a command."""

from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.config import Role
from tenex.core.ids import PublicKey
from tenex.core.workflow_config import PERSON
from tenex.workflows.speakers import (
    AllOf,
    ContextEquals,
    ContextIn,
    ContextThreshold,
    FromSpeaker,
    TerminateTarget,
    Transition,
    TransitionGraph,
)
from tests.fakes.scenario import Scenario
from tests.fakes.workflows import NAME, session, workflow_scenario

RULES = [
    Transition(AllOf([FromSpeaker("writer"), ContextEquals("approved", value=True)]), TerminateTarget("approved")),
    Transition(ContextThreshold("tries", 3), TerminateTarget("tired")),
    Transition(ContextIn("route", ["code", "law"]), TerminateTarget("routed")),
    Transition(ContextEquals("any"), TerminateTarget("unset")),
]
GRAPH = TransitionGraph("writer", RULES, max_turns=3)
CONTEXT = {"any": "x", "notes": ["a"], "approved": False}


def reported(text: str, **more: Any) -> Scenario:
    """A workflow that a user has begun, and then given a command; its first speaker has not answered."""
    one = workflow_scenario(GRAPH, context=CONTEXT)
    one.user_writes("Make it good", addressed=(NAME,))
    one.user_writes(text, **more)
    assert one.refold() == one.conversation
    return one


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("/set approved=true", {"approved": True}),
        ("/set tries=2.5", {"tries": 2.5}),
        ("/set route=law tries=1", {"route": "law", "tries": 1}),
        ("/set any=a longer text, with 1 = 2", {"any": "a longer text, with 1 = 2"}),
        ("/set any=7", {"any": "7"}),
        ('/set notes=["b", 2]', {"notes": ["b", 2]}),
        ("/SET approved = x", {}),
        ("/set route=null", {"route": None}),
        ("/set any=", {"any": ""}),
    ],
)
def test_a_command_sets_variables_by_the_kind_they_have(text: str, changed: dict[str, Any]) -> None:
    one = reported(text)
    assert session(one).speakers.context_vars == {**CONTEXT, **changed}
    assert all(record.by == PERSON for record in one.records(r.ContextSet))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "/set colour=red",
            "There is no variable colour in this workflow. There are: any, approved, notes, route, tries.",
        ),
        ("/set approved=yes", 'approved must be true or false, and "yes" is a text.'),
        ("/set tries=many", 'tries must be a number, and "many" is a text.'),
        ("/set tries=true", "tries must be a number, and true is true or false."),
        ("/set notes=b", 'notes must be a list, and "b" is a text.'),
        ("/set approved", "Write it as `/set name=value`."),
        ("/set please approved=true", "Write it as `/set name=value`."),
        ("/set tries=NaN", "tries is nan, which JSON has no word for."),
        (f"/set any={'x' * 65_000}", "All variables together may have 64000 characters as JSON."),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_sentence(text: str, expected: str) -> None:
    one = reported(text)
    assert one.sent_texts()[-1] == expected
    assert session(one).speakers.context_vars == CONTEXT


def test_the_command_alone_lists_them() -> None:
    assert reported("/set").sent_texts()[-1].splitlines() == [
        'any = "x" (a text)',
        "approved = false (true or false)",
        'notes = ["a"] (a list)',
        "route = null (a text)",
        "tries = null (a number)",
    ]


def test_a_rule_sees_what_a_user_has_set_while_somebody_speaks() -> None:
    one = reported("/set approved=true")
    one.settle()
    assert one.records(r.WorkflowClosed)[0].reason == "approved"


def test_only_an_owner_or_who_began_it_may_set_one() -> None:
    other = PublicKey("b" * 64)
    for role, author, may in (
        (Role.OWNER, other, True),
        (Role.MEMBER, None, True),
        (Role.MEMBER, other, False),
        (Role.GUEST, other, False),
    ):
        one = reported("/set approved=true", role=role, **({"author": author} if author else {}))
        assert session(one).speakers.context_vars["approved"] is may
        assert may or "/set is for an owner" in one.sent_texts()[-1]


def test_the_lines_of_a_message_set_variables_before_the_first_speaker_begins() -> None:
    one = workflow_scenario(GRAPH, context=CONTEXT)
    one.user_writes("Make it good\n/set route=law\n  /set tries=2 approved=true\n/setting=1", addressed=(NAME,))
    (opened,) = one.records(r.WorkflowOpened)
    assert opened.context == {**CONTEXT, "route": "law", "tries": 2, "approved": True}


def test_a_message_that_sets_what_it_cannot_begins_nothing() -> None:
    one = workflow_scenario(GRAPH, context=CONTEXT)
    one.converse("Make it good\n/set colour=red", addressed=(NAME,))
    assert not one.records(r.WorkflowOpened)
    assert one.conversation.status == "ended"
    (expected,) = one.sent_texts()
    assert expected.startswith(f"The workflow {NAME} cannot begin: There is no variable colour in this workflow.")


def test_elsewhere_and_after_the_end_nothing_is_set() -> None:
    one = workflow_scenario(TransitionGraph.sequence(["writer", "editor"]))
    one.user_writes("/set a=1")
    assert one.sent_texts()[-1] == "Only a workflow has variables; mention one in a new note to begin it."
    one = reported("/set approved=true")
    one.settle()
    one.user_writes("/set approved=false")
    assert "has ended (approved)" in one.sent_texts()[-1]
    assert not one.records(r.ContextSet)[1:]
    none = workflow_scenario(TransitionGraph.sequence(["writer", "editor"]))
    none.user_writes("go", addressed=(NAME,))
    none.user_writes("/set")
    assert none.sent_texts()[-1] == "This workflow has no variables."
    none.user_writes("/set a=1")
    assert none.sent_texts()[-1] == "There is no variable a in this workflow. It has none."
