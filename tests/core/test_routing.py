"""Reading a router's answer: whatever a model writes becomes a decision or a sentence, never an exception."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.phases import Phase
from tenex.core.routing import DECISION_SCHEMA, REASON_CHARACTERS, RoutingDecision, parse

GOOD = {"agents": ["executor"], "phase": "execute", "reason": "clear enough"}
OBJECT = json.dumps(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        f"\n  {json.dumps(GOOD, indent=2)}  \n",
        f"I think the executor should go on.\n\n```json\n{OBJECT}\n```\n\nThat is my decision.",
        f'<tool_call>{{"name": "decision", "arguments": {OBJECT}}}</tool_call>',
        f"<thinking>{{not json}} and {{1: 2}}</thinking>{OBJECT}",
        f"{json.dumps({**GOOD, 'agents': ['planner']})}{OBJECT}",
        f'For instance {{"agents": ["planner"], "reason": "r"}}.\n{OBJECT}\nNot {{"agents": []}}',
        f'{OBJECT} and then {{"agents": ["planner"], "rea',
        '{"agents": ["planner"], "reason": "x"} ' + "{} " * 1000 + OBJECT,
        "{" * 20 + OBJECT,
        f"\ufeff{OBJECT}",
    ],
)
def test_an_object_is_found_whatever_text_is_around_it(text: str) -> None:
    assert parse(text) == RoutingDecision(agents=("executor",), phase="execute", reason="clear enough")


NONSENSE = [
    "",
    "executor",
    "[]",
    "null",
    "}{",
    OBJECT[:-1],
    "```json\n```",
    "{" * 100_000,
    '{"a":' * 50_000,
    "{\ud800}",
]


@pytest.mark.parametrize("text", [*NONSENSE, '{"agents": ' + "9" * 10_000 + "}"], ids=lambda text: repr(text[:20]))
def test_nonsense_gives_a_sentence_that_states_what_to_answer(text: str) -> None:
    sentence = parse(text)
    assert isinstance(sentence, str)
    assert "agents" in sentence


GATES = "`waive` must be a list of quality gates: verification, chores, reflection."


@pytest.mark.parametrize(
    ("field", "values", "sentence"),
    [
        ("agents", [None, 7, {"slug": "executor"}, [7], [["executor"]], [None], True], "must be a list of slugs"),
        ("agents", [[], [""], ["  ", "\n"], ""], '`agents` is empty. Name at least one agent, or ["END"], or ["USER"]'),
        ("phase", [3, ["execute"], {"to": "execute"}, True], "`phase` must be a string."),
        ("waive", [7, True, [7], {"phase": "chores"}], GATES),
    ],
)
def test_a_field_of_a_wrong_type_is_refused(field: str, values: list[Any], sentence: str) -> None:
    for value in values:
        answer = parse(json.dumps({**GOOD, field: value}))
        assert isinstance(answer, str)
        assert sentence in answer


@pytest.mark.parametrize(
    ("field", "values", "read"),
    [
        ("agents", ["executor", ["executor", " executor "]], ("executor",)),
        ("phase", [None, "", "  "], None),
        ("reason", [None, 7, "", " \n", ["because"]], "no reason given"),
        ("reason", ["b" * (REASON_CHARACTERS + 1)], "b" * REASON_CHARACTERS),
        ("waive", ["chores", ["chores"]], ("chores",)),
        ("waive", [None, {}, [], "", [""]], ()),  # servers that hold an answer to a schema fill in every field
    ],
)
def test_what_leaves_no_doubt_is_read(field: str, values: list[Any], read: Any) -> None:
    for value in values:
        assert getattr(parse(json.dumps({**GOOD, field: value})), field) == read


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.text() | st.fixed_dictionaries({}, optional=dict.fromkeys(("agents", "phase", "reason", "waive"), _json)))
def test_anything_at_all_is_a_decision_or_a_sentence(answer: Any) -> None:
    verdict = parse(answer if isinstance(answer, str) else f"so: {json.dumps(answer)}")
    if isinstance(verdict, RoutingDecision):
        assert verdict.agents
        assert all(verdict.agents)
        assert verdict.reason
    else:
        assert verdict.endswith(".")


def test_the_schema_offered_to_models_names_every_phase() -> None:
    assert set(DECISION_SCHEMA["properties"]["phase"]["enum"]) == set(Phase)
    assert set(DECISION_SCHEMA["required"]) == {"agents", "reason"}
