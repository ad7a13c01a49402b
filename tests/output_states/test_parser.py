"""Outputs are read the same however they are cut, and whatever they hold: faults are reported, never raised."""

import gc
import json
import os
import random
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.output_states import (
    AgentStateMachine,
    OutputParser,
    Piece,
    Python,
    Scratchpad,
    Segment,
    Thinking,
    ToolCallState,
    repair_prompt,
)
from tenex.output_states.endings import SPACES

from .kit import (
    EXACT,
    HOSTILE,
    STOP,
    Make,
    fenced,
    kinds,
    messages_of,
    outputs,
    parsed,
    plan_of,
    read,
    split,
    tool,
)

FUZZ = settings(max_examples=50, suppress_health_check=list(HealthCheck), database=None)
SECONDS = float(os.environ.get("FUZZ_SECONDS", "20"))
"""How long the soak test looks for a crash; an hour for a release."""

THOUGHT = "```thinking\nlet me see\n```\n"
ECHO = tool("echo", {"text": {"type": "string"}})
CALL = '```tool\n{"name":"stop","arguments":{}}\n```'
SHORT = AgentStateMachine([Thinking(character_min=1), Scratchpad(character_min=0)], [ToolCallState((STOP,)), Python()])


# ---- what is right --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + THOUGHT + CALL,
        (THOUGHT + CALL).replace("\n", "\r\n"),
        "\ufeff" + (THOUGHT + CALL).replace("\n", "\r\n") + "\r\n",
        "```thinking \t\nlet me see\n```\n" + CALL,
        "``` thinking\nlet me see\n``` \n" + CALL.replace("```tool\n", "```tool  \n"),
        "``` thinking \r\nlet me see\r\n```\r\n" + CALL,
    ],
)
def test_line_ends_marks_and_blanks_of_other_systems_are_read(text: str) -> None:
    for size in (1, 2, len(text)):
        parser = OutputParser(SHORT)
        for start in range(0, len(text), size):
            parser.feed(text[start : start + size])
        parser.close()
        assert parser.faults == ()
        assert plan_of(*parser.segments)[0] == ("thinking", "let me see", True)


def test_blanks_elsewhere_in_an_opening_fence_open_nothing() -> None:
    for text in ("`` `thinking\nx\n```", "```think ing\nx\n```", "```thinking x\nx\n```"):
        assert "outside" in [fault.kind for fault in read(SHORT, text + "\n" + CALL).faults]
    wide = "```thinking" + " " * (SPACES + 2) + "\nlet me see\n```\n" + CALL
    assert not read(SHORT, wide).is_valid


def test_a_carriage_return_alone_is_content() -> None:
    parser = read(SHORT, "```thinking\na\rb\n```\n" + CALL)
    assert plan_of(*parser.segments)[0] == ("thinking", "a\rb", True)


def test_an_output_is_segments_with_their_states() -> None:
    parser = read(SHORT, "```thinking\none\n```\n```scratchpad\ntwo\n```\n\n" + CALL)
    assert parser.is_valid
    assert plan_of(*parser.segments) == [
        ("thinking", "one", True),
        ("scratchpad", "two", True),
        ("tool_call", '{"name":"stop","arguments":{}}', True),
    ]
    assert [segment.role for segment in parser.segments] == ["plan", "plan", "action"]
    assert parser.feed("more") == ()
    assert parser.close() == ()
    assert parser.is_valid
    assert read(SHORT, THOUGHT + "\n" * (SPACES - 1) + CALL).is_valid
    parser = read(SHORT, f"```thinking\na\ud800b\n```\n{CALL}")
    assert (parser.segments[0].text, parser.is_valid) == ("a\ufffdb", True)
    assert "No action can be taken" in messages_of(
        read(AgentStateMachine([Thinking(character_min=1)], [ToolCallState(())]), THOUGHT).faults
    )


def test_pieces_come_as_soon_as_they_are_certain() -> None:
    parser = OutputParser(SHORT)
    assert parser.feed("```thinking\nfirst") == (Piece("thinking", "first"),)
    assert parser.feed("\n``") == ()
    assert parser.feed("x") == (Piece("thinking", "\n``x"),)
    assert parser.feed("\n```") == ()
    assert parser.feed("\n") == (Segment("thinking", "plan", "first\n``x", is_complete=True),)
    assert not parser.is_valid


@pytest.mark.parametrize("make", EXACT)
def test_any_split_of_any_output_reads_the_same_and_the_pieces_of_a_content_are_its_segment(make: Make) -> None:
    @FUZZ
    @given(st.data())
    def same(data: st.DataObject) -> None:
        output = data.draw(outputs(make()))
        whole, events = parsed(make(), [output])
        for chunks in (data.draw(split(output)), list(output)):
            parts, events_in_parts = parsed(make(), chunks)
            assert events_in_parts == events
            assert (parts.segments, parts.faults, parts.is_valid) == (whole.segments, whole.faults, whole.is_valid)
        text = ""
        for event in events:
            if isinstance(event, Piece):
                text += event.text
            elif isinstance(event, Segment):
                assert event.text == text
                text = ""
        assert not text

    same()


# ---- hostile delimiters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "look:\n```python\nprint(1)\n```\nso",  # a block within
        "```python\nprint(1)\n```\nso",  # a block on the first line
        "a ``` in a line",
        "`code` and ``code``\n`code` begins a line",
        "\n````\nfour are none\n````\n",
        "```tool\n{}\n```\nnot a call",  # an action within a thought is a block
        '</note> {"name": 1}',
        "\n\n\n",
        "``\n`\n",
    ],
)
def test_what_looks_like_a_delimiter_within_a_thought_closes_nothing(content: str) -> None:
    parser = read(SHORT, f"```thinking\n{content}\n```\n{CALL}")
    assert messages_of(parser.faults) == ""
    assert parser.segments[0].text == content
    assert len(parser.segments) == 2


@pytest.mark.parametrize("text", ["\n```\n```tool\n", "```", "}\n```", '"}}\n```', "\\", "{[", "```tool"])
def test_delimiters_within_json_strings_close_nothing(text: str) -> None:
    machine = AgentStateMachine([], [ToolCallState((ECHO,))], max_planning_loops=0)
    call = json.dumps({"name": "echo", "arguments": {"text": text}})
    parser = read(machine, ToolCallState().format(call))
    assert messages_of(parser.faults) == ""
    assert json.loads(parser.segments[0].text)["arguments"]["text"] == text


# ---- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "expected", "sentence"),
    [
        ("", ["unfinished"], "must end with one of: tool_call, python after 1 or more of scratchpad, thinking"),
        ("Sure!\n" + THOUGHT + CALL, ["outside"], "opens with one of: '```thinking\\n'"),
        (THOUGHT + "Now I act.\n" + CALL, ["outside"], "outside of every state"),
        (THOUGHT + CALL + "\nDone.", ["outside"], "outside of every state"),
        (THOUGHT + CALL + "\n```thi", ["outside"], "outside of every state"),
        (THOUGHT + "\n" * 33 + CALL, ["outside"], f"More than {SPACES} characters of white space"),
        (CALL, ["order"], "tool_call comes too early; an answer plans first, in at least 1 of"),
        (THOUGHT * 4 + CALL, ["order"], "one planning state too many; an answer has at most 3"),
        (THOUGHT + CALL + "\n" + CALL, ["order"], "tool_call comes after the action"),
        (THOUGHT + CALL + "\n" + THOUGHT, ["order"], "thinking comes after the action"),
        (THOUGHT, ["unfinished"], "The answer has no action"),
        (THOUGHT[:-5] + "\n" + CALL + "\n", ["unclosed"], "thinking was opened and never closed"),
        (
            "Hello\n```thinking\n\n```\n" + CALL.replace("stop", "go") + "\nbye",
            ["outside", "limits", "content", "outside"],
            "There is no tool",
        ),
        ("```thinking\n\n```\n" + CALL, ["limits"], "too short: 0 characters; it takes 1 to 1000"),
        ("```thinking\n" + "x" * 1001 + "\n```\n" + CALL, ["limits"], "too long: 1001 characters; it takes 1 to 1000"),
        ("```thinking\nabc", ["unclosed"], "thinking was opened and never closed with '\\n```'"),
        (THOUGHT + '```tool\n{"name":"stop"', ["unclosed"], "tool_call was opened and never closed"),
        (THOUGHT + "```tool\n{]\n```", ["content"], "This is no JSON"),
        (THOUGHT + "```tool\nstop\n```", ["content"], "Text precedes the JSON"),
        (THOUGHT + "```tool\n\n```", ["content"], "There is no JSON"),
        (THOUGHT + CALL.replace("}}", "}} ok"), ["content"], "More text follows the JSON"),
        (THOUGHT + CALL.replace("stop", "start"), ["content"], 'There is no tool "start". There are: stop.'),
        (THOUGHT + CALL.replace("{}", '{"x":1}'), ["content"], "`x` is not known"),
        (THOUGHT + CALL.replace("{}", "[]"), ["content"], "A tool call is an object"),
        (THOUGHT + CALL.replace("}}", '},"x":1}'), ["content"], "`x` does not belong beside name and arguments"),
        (THOUGHT + CALL.replace("}}", '},"name":"stop"}'), ["content"], "A name occurs twice"),
        (THOUGHT + "```tool\n" + "{" * 70 + "\n```", ["content"], "nested deeper than 64"),
        (THOUGHT + CALL.replace(":{", ":" + " " * 33 + "{"), ["content"], "white space follow in a row in the JSON"),
        (THOUGHT + "```python\nprint(\n```", ["content"], "This is no Python"),
        (THOUGHT + "```python\n" + "(" * 5000 + "\n```", ["content"], "This is no Python"),
        (THOUGHT + "```python\nx = '\x00'\n```", ["content"], "This is no Python"),
    ],
)
def test_every_fault_is_reported_in_a_sentence_one_can_act_on(output: str, expected: list[str], sentence: str) -> None:
    parser = read(SHORT, output)
    assert kinds(parser) == expected
    assert sentence in messages_of(parser.faults)
    assert sentence in repair_prompt(parser.faults)
    assert not repair_prompt(())
    assert not parser.is_valid
    if "order" in expected or "content" in expected or "unclosed" in expected:
        assert not all(segment.is_complete for segment in parser.segments)


@pytest.mark.parametrize("astray", ["---\n", "Hello\n---\n", "---\n---\n", "---\nno\n"])
@pytest.mark.parametrize("opening", ["# b", "# bee", "<s>"])
def test_a_line_within_a_delimiter_that_was_none_may_open_another(astray: str, opening: str) -> None:
    planning = [Thinking(delimiters=("---\n# a", "\n#")), Scratchpad(character_min=1, delimiters=(opening, "\n#"))]
    machine = AgentStateMachine(planning, [ToolCallState(())])
    parser = read(machine, f"{astray}{opening}two\n#")
    assert kinds(parser) == ["outside", "unfinished"]
    assert plan_of(*parser.segments) == [("scratchpad", "two", True)]


def test_after_eight_faults_the_rest_is_not_read() -> None:
    parser = OutputParser(SHORT)
    events = [event for _ in range(1000) for event in parser.feed("hello\n```scratchpad\nx\n```\n")]
    assert [fault.kind for fault in parser.faults][-1] == "given up"
    assert len(parser.faults) == 8
    assert len(parser.segments) <= 12
    assert parser.close() == ()
    assert events
    assert not parser.is_valid


# ---- order and limits, and tools that come and go -------------------------------------------------------------------


def test_tools_that_change_do_not_change_an_output_that_has_begun() -> None:
    live = [STOP]
    machine = AgentStateMachine([], [ToolCallState(live)], max_planning_loops=0)
    parser = OutputParser(machine)
    live.clear()
    parser.feed(CALL)
    parser.close()
    assert parser.is_valid
    assert not read(machine, CALL).is_valid


def test_memory_is_bounded_by_the_limits() -> None:
    parser = OutputParser(fenced())
    parser.feed("```thinking\n")
    gc.collect()
    tracemalloc.start()
    for _ in range(300):
        parser.feed("ab\n``" * 40)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20_000
    parser.close()
    assert len(parser.segments[0].text) == 24


def test_time_is_linear() -> None:
    """Ten times as much takes ten times as long, whatever the chunks; some slack for a busy machine."""

    def seconds(size: int, chunk: int) -> float:
        parser, text = OutputParser(SHORT), "```python\n" + "x = '`~\\n'\n``" * size
        started = time.thread_time()
        for start in range(0, len(text), chunk):
            parser.feed(text[start : start + chunk])
        return time.thread_time() - started

    for chunk in (1, 1_000_000):
        small, large = min(seconds(300, chunk) for _ in range(3)), seconds(3000, chunk)
        assert large < 40 * small


# ---- anything at all ------------------------------------------------------------------------------------------------


def test_noise_never_raises() -> None:
    noise(200, 0)


@pytest.mark.soak
def test_noise_never_raises_for_long() -> None:
    noise(0, SECONDS)


def noise(rounds: int, seconds: float) -> None:
    """Hostile pieces in any order; the seed is in the failure."""
    until, seed = time.monotonic() + seconds, 0 if rounds else time.time_ns()
    while rounds > 0 or time.monotonic() < until:
        rounds, seed = rounds - 1, seed + 1
        dice = random.Random(seed)
        make = dice.choice(EXACT)
        openings = [content.delimiters[0] for content in make().plan().contents.values()]
        pieces = dice.choices([*HOSTILE, *openings * 4], k=dice.randrange(60))
        parser, events = parsed(make(), pieces)
        whole, events_whole = parsed(make(), ["".join(pieces)])
        assert events == events_whole, f"seed {seed}"
        assert parser.is_valid == (not parser.faults), f"seed {seed}"
        assert whole.is_valid == parser.is_valid
