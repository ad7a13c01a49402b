"""Reading a router's answer: whatever a model writes becomes a decision or a sentence, never an exception."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenex.core.phases import Phase
from tenex.core.routing import DECISION_SCHEMA, REASON_CHARACTERS, RoutingDecision, parse

GOOD = {"agents": ["executor"], "phase": "execute", "reason": "clear enough"}


def read(value: Any) -> RoutingDecision:
    """A decision that must be one."""
    decision = parse(value if isinstance(value, str) else json.dumps(value))
    assert isinstance(decision, RoutingDecision), decision
    return decision


def refused(value: Any) -> str:
    """The sentence of an answer that is no decision."""
    sentence = parse(value if isinstance(value, str) else json.dumps(value))
    assert isinstance(sentence, str), sentence
    return sentence


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"\n  {json.dumps(GOOD, indent=2)}  \n",
        f"I think the executor should go on.\n\n{json.dumps(GOOD)}\n\nThat is my decision.",
        f"```json\n{json.dumps(GOOD)}\n```",
        f"```\n{json.dumps(GOOD)}\n```",
        f'<tool_call>{{"name": "decision", "arguments": {json.dumps(GOOD)}}}</tool_call>',
        f"<thinking>{{not json}} and {{1: 2}}</thinking>{json.dumps(GOOD)}",
        f'{{"thought": "hm"}} {json.dumps(GOOD)}',
        f"{json.dumps({**GOOD, 'agents': ['planner']})}{json.dumps(GOOD)}",
        f'For instance {{"agents": ["planner"], "reason": "r"}}.\n{json.dumps(GOOD)}\nNot {{"agents": []}}',
        f'{json.dumps(GOOD)} and then {{"agents": ["planner"], "rea',
        '{"agents": ["planner"], "reason": "x"} ' + "{} " * 1000 + json.dumps(GOOD),
        "{" * 20 + json.dumps(GOOD),
        f"\ufeff{json.dumps(GOOD)}",
    ],
)
def test_an_object_is_found_whatever_text_is_around_it(text: str) -> None:
    assert read(text) == RoutingDecision(agents=("executor",), phase="execute", reason="clear enough")


@pytest.mark.parametrize("waive", [None, {}, [], "", [""]])
def test_an_empty_wish_to_waive_is_none(waive: Any) -> None:
    """Servers that hold an answer to a schema fill in what may be left out."""
    assert read({**GOOD, "waive": waive}).waive == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "executor",
        "[]",
        "null",
        "42",
        '"agents"',
        "{",
        "}{",
        '{"agents": ["executor"]',
        "{'agents': ['executor']}",
        "```json\n```",
        "no " * 10_000,
        "{" * 100_000,
        '{"a":' * 50_000,
        "[" * 100_000,
        "\0\0\0",
        "\ud800",
        "{\ud800}",
        '{"agents": ' + "9" * 10_000 + "}",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_nonsense_gives_a_sentence_that_states_what_to_answer(text: str) -> None:
    assert "agents" in refused(text)


def test_an_object_without_agents_is_refused_with_what_is_missing() -> None:
    assert refused('Here: {"agent": "executor"}') == "`agents` must be a list of slugs."


@pytest.mark.parametrize("agents", [None, 7, {"slug": "executor"}, [7], [["executor"]], [None], True, [{"a": 1}]])
def test_agents_of_a_wrong_type_are_refused(agents: Any) -> None:
    assert refused({"agents": agents, "reason": "x"}) == "`agents` must be a list of slugs."


@pytest.mark.parametrize("agents", [[], [""], ["  ", "\n"], "", " "])
def test_no_agents_is_refused_with_what_may_be_answered_instead(agents: Any) -> None:
    sentence = refused({"agents": agents, "reason": "x"})
    assert "is empty" in sentence
    assert "END" in sentence
    assert "USER" in sentence


def test_one_agent_as_a_string_is_read() -> None:
    assert read({"agents": "executor"}).agents == ("executor",)


def test_an_agent_named_twice_is_one() -> None:
    assert read({"agents": ["executor", " executor ", "helper"]}).agents == ("executor", "helper")


@pytest.mark.parametrize("phase", [None, "", "  "])
def test_no_phase_means_stay(phase: Any) -> None:
    assert read({"agents": ["executor"], "phase": phase}).phase is None


@pytest.mark.parametrize("phase", [3, ["execute"], {"to": "execute"}, True])
def test_a_phase_of_a_wrong_type_is_refused(phase: Any) -> None:
    assert refused({"agents": ["executor"], "phase": phase}) == "`phase` must be a string."


@pytest.mark.parametrize("reason", [None, 7, "", " \n", ["because"]])
def test_a_missing_reason_costs_nothing(reason: Any) -> None:
    assert read({"agents": ["executor"], "reason": reason}).reason == "no reason given"


def test_a_rambling_reason_is_cut() -> None:
    assert len(read({"agents": ["executor"], "reason": "blah " * 10_000}).reason) == REASON_CHARACTERS


@pytest.mark.parametrize("waive", [7, True, [7], {"phase": "chores", "quote": "skip it", "message_id": "1"}])
def test_a_wish_to_waive_of_a_wrong_type_is_refused(waive: Any) -> None:
    sentence = refused({**GOOD, "waive": waive})
    assert sentence == "`waive` must be a list of quality gates: verification, chores, reflection."


@pytest.mark.parametrize("waive", ["chores", ["chores"]])
def test_a_wish_to_waive_is_read(waive: Any) -> None:
    assert read({**GOOD, "waive": waive}).waive == ("chores",)


_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
_json = st.recursive(
    _scalars,
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
