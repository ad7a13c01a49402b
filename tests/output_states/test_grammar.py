"""Grammars are held to an engine nobody here wrote: it takes what the parser takes, and refuses what it refuses."""

import os
import re
import time
from collections import Counter
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tenex.output_states import AgentStateMachine, Python, Thinking, ToolCallState, grammar

from .kit import EXACT, STOP, TOOLS, Engine, Make, fenced, outputs, read, said, sample, tool

SECONDS = float(os.environ.get("FUZZ_SECONDS", "20"))
"""How long the soak test looks for a difference; an hour for a release."""


@cache
def engine(make: Make) -> Engine:
    return Engine.of_gbnf(grammar(make()).text)


def differs(make: Make, output: str) -> str:
    parser = read(make(), output)
    taken = engine(make).accepts(output)
    if taken == parser.is_valid:
        return ""
    return f"grammar {taken}, parser {parser.is_valid}: {output!r}\n{said(parser.faults)}"


@pytest.mark.parametrize("make", EXACT)
def test_the_engine_compiles_the_grammar(make: Make) -> None:
    assert engine(make).fault == ""
    only = grammar(make())
    assert all(what.startswith("the length of") and what.endswith("above 262144") for what in only.unsaid)
    assert not only.narrower


def compare(make: Make, examples: int, seconds: float = 0.0) -> Counter[bool]:
    """Compare that many outputs, again and again for that long; how many were right and wrong."""
    tally = Counter[bool]()
    until = time.monotonic() + seconds

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), derandomize=not seconds, database=None)
    @given(outputs(make()))
    def agree(output: str) -> None:
        tally[read(make(), output).is_valid] += 1
        assert not differs(make, output)

    agree()
    while time.monotonic() < until:
        agree()
    return tally


@pytest.mark.parametrize("make", EXACT)
def test_grammar_and_parser_agree_on_every_output(make: Make) -> None:
    tally = compare(make, 110)
    assert min(tally[True], tally[False]) >= 10, f"{tally}: the outputs are of one kind, so that little was compared"


@pytest.mark.soak
@pytest.mark.parametrize("make", EXACT)
def test_grammar_and_parser_agree_for_long(make: Make) -> None:
    tally = compare(make, 400, SECONDS / len(EXACT))
    assert min(tally[True], tally[False]) > 40


# ---- the comparison itself can fail ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "by"),
    [
        ("{1,32}", "{0,32}"),  # no white space asked for behind a fence
        (r"\"line\"", r"\"lime\""),  # a name misspelt
        ('"```scratchpad', '"```thinking'),  # a state that is none
        ("[^`\\n]", "[^\\n]"),  # a fence that closes nothing
    ],
)
def test_a_broken_grammar_is_noticed(broken: str, by: str) -> None:
    text = grammar(fenced()).text
    assert broken.replace("\\\\", "\\") in text or broken in text
    wrong = Engine.of_gbnf(text.replace(broken, by))

    assert any(wrong.accepts(output) != read(fenced(), output).is_valid for output in _sample())


@cache
def _sample() -> list[str]:
    return sample(fenced(), 400)


# ---- limits, order, and what is left out ----------------------------------------------------------------------------


@pytest.mark.parametrize("most", [120, pytest.param(1000, marks=pytest.mark.soak)])
def test_the_limits_of_the_built_in_states_are_in_the_grammar(most: int) -> None:
    machine = AgentStateMachine([Thinking(character_max=most)], [ToolCallState((STOP,))], max_planning_loops=1)
    held = Engine.of_gbnf(grammar(machine).text)
    call = '\n```tool\n{"name":"stop","arguments":{}}\n```'
    for length, fits in ((49, False), (50, True), (most, True), (most + 1, False)):
        output = Thinking().format("\n" * (length - 1) + "x") + call
        assert held.accepts(output) is fits
        assert read(machine, output).is_valid is fits


def test_the_grammar_of_the_built_in_states_can_be_sent() -> None:
    text = grammar(AgentStateMachine(tools=TOOLS, use_python=True)).text
    assert len(text) < 600_000, "it goes with every request"
    assert all(re.fullmatch(r"[a-z][a-z0-9-]* ::= .+", line) for line in text.splitlines())


def test_without_limits_it_is_small_and_says_so() -> None:
    machine = AgentStateMachine(tools=TOOLS, use_python=True)
    found = grammar(machine, limits=False)
    assert len(found.text) < 8_000
    assert {"the length of thinking", "the length of python", "whether python is Python"} <= {*found.unsaid}
    held = Engine.of_gbnf(found.text)
    output = Thinking().format("x") + "\n" + Python().format("print(")
    assert held.accepts(output)
    assert not read(machine, output).is_valid


def test_what_a_grammar_leaves_out_makes_it_wider_never_narrower() -> None:
    loose = Engine.of_gbnf(grammar(fenced(), limits=False).text)
    right = [output for output in _sample() if read(fenced(), output).is_valid]
    assert len(right) > 30
    assert all(loose.accepts(output) for output in right)


def test_a_grammar_follows_the_tools() -> None:
    live = [STOP]
    machine = AgentStateMachine([], [ToolCallState(lambda: live)], max_planning_loops=0)
    before, output = grammar(machine).text, '```tool\n{"name":"go","arguments":{}}\n```'
    live.append(tool("go"))
    after = grammar(machine).text
    assert not Engine.of_gbnf(before).accepts(output)
    assert Engine.of_gbnf(after).accepts(output)


@pytest.mark.parametrize(
    ("schema", "unsaid", "narrower"),
    [
        ({"type": "string", "pattern": "^a"}, "pattern", ""),
        ({"type": "number", "minimum": 1}, "minimum", ""),
        ({"type": "integer", "multipleOf": 3}, "multipleOf", ""),
        ({"type": "string", "maxLength": 5000}, "lengths of a text above 2000", ""),
        ({"type": "array", "uniqueItems": True}, "uniqueItems", ""),
        ({"type": "object"}, "a name standing twice in an object", ""),
        ({"allOf": [{"type": "string"}]}, "allOf", ""),
        ({"type": "object", "properties": {"a": {}}}, "depth of any value", "names that are not described"),
        (
            {
                "type": "object",
                "properties": {f"p{i}": {"type": "null"} for i in range(7)},
                "additionalProperties": False,
            },
            "",
            "more than 6 names in another order than the schema's",
        ),
    ],
)
def test_what_a_schema_says_and_the_grammar_does_not_is_told(
    schema: dict[str, Any], unsaid: str, narrower: str
) -> None:
    machine = AgentStateMachine([], [ToolCallState((tool("go", {"x": schema}),))], max_planning_loops=0)
    found = grammar(machine)
    assert Engine.of_gbnf(found.text).fault == ""
    assert unsaid in (*found.unsaid, "")
    assert narrower in (*found.narrower, "")
    assert unsaid or narrower


def test_seven_optional_names_keep_the_order_of_the_schema() -> None:
    optional = {f"p{i}": {"type": "null"} for i in range(7)}
    machine = AgentStateMachine(
        [], [ToolCallState((tool("go", {"a": {"type": "null"}}, optional),))], max_planning_loops=0
    )
    held = Engine.of_gbnf(grammar(machine).text)
    for names, fits in (("a", True), ("a p0", True), ("a p3 p6", True), ("p0", False), ("a p1 p0", False), ("", False)):
        arguments = ",".join(f'"{name}":null' for name in names.split())
        assert held.accepts(f'```tool\n{{"name":"go","arguments":{{{arguments}}}}}\n```') is fits


def test_no_model_is_led_to_where_nothing_can_follow() -> None:
    """A block of code begun three characters before the limit could not be closed within it."""
    machine = AgentStateMachine([Thinking(character_max=12, character_min=1)], [ToolCallState((STOP,))])
    held = Engine.of_gbnf(grammar(machine).text)
    assert held.permits("```thinking\nab\n```")
    assert not held.permits("```thinking\nabcdef\n```py")
    assert held.permits("```thinking\n\n```p\n```")
