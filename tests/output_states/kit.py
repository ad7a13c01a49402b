"""Machines to read with, outputs to read, and a grammar engine that no one here wrote."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from tenex.core.messages import ToolSpec
from tenex.output_states import (
    AgentState,
    AgentStateMachine,
    FencedFreeformStateMachine,
    JsonStateMachine,
    OutputFault,
    OutputParser,
    OutputPlan,
    ParserEvent,
    Piece,
    Scratchpad,
    Segment,
    StateMachine,
    Thinking,
    ToolCallState,
)

Make = Callable[[], AgentStateMachine]

# ---- machines -------------------------------------------------------------------------------------------------------


def tool(name: str, required: dict[str, Any] | None = None, optional: dict[str, Any] | None = None) -> ToolSpec:
    parameters = {
        "type": "object",
        "properties": {**(required or {}), **(optional or {})},
        "required": list(required or {}),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=f"Does {name}.", parameters=parameters)


READ = tool(
    "read",
    {"path": {"type": "string", "minLength": 1, "maxLength": 12}},
    {"line": {"type": "integer", "minimum": -3, "maximum": 1207}},
)
STOP = tool("stop")
SORT = tool(
    "sort",
    {"how": {"enum": ["up", "down", 3, None]}, "what": {"type": "array", "items": {"type": "number"}, "maxItems": 2}},
    {"deep": {"anyOf": [{"type": "boolean"}, {"type": ["null", "integer"]}]}},
)
TREE = ToolSpec(
    name="tree",
    description="Takes a tree.",
    parameters={
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "required": ["root"],
        "additionalProperties": False,
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "in": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                "required": ["v"],
                "additionalProperties": False,
            }
        },
    },
)
TOOLS = (READ, STOP, SORT)


class Freeform(AgentState):
    """A state of free text with any delimiters."""

    def __init__(self, identifier: str, delimiters: tuple[str, str], least: int, most: int) -> None:
        super().__init__(identifier, identifier, delimiters, "white", "*")
        self.least, self.most = least, most

    @property
    def state_machine(self) -> StateMachine:
        return FencedFreeformStateMachine(self.identifier, self.delimiters, self.least, self.most)

    @property
    def state_prompt(self) -> str:
        return "Write."


class Json(AgentState):
    """A state of one JSON value of a schema."""

    def __init__(self, identifier: str, delimiters: tuple[str, str], schema: dict[str, Any]) -> None:
        super().__init__(identifier, identifier, delimiters, "white", "*")
        self.schema = schema

    @property
    def state_machine(self) -> StateMachine:
        return JsonStateMachine(self.schema, identifier=self.identifier, delimiters=self.delimiters)

    @property
    def state_prompt(self) -> str:
        return "Write JSON."


@cache
def fenced() -> AgentStateMachine:
    planning = [Thinking(character_max=24, character_min=3), Scratchpad(character_max=12, character_min=0)]
    return AgentStateMachine(planning, [ToolCallState(TOOLS)], max_planning_loops=2)


@cache
def marked() -> AgentStateMachine:
    """Marks that overlap with themselves, no planning needed, two actions."""
    planning = [Freeform("note", ("<note>", "</note>"), 0, 9), Freeform("knot", ("[aa", "aab"), 1, 5)]
    acting = [ToolCallState((READ, STOP), ("<call>", "</call>")), Freeform("reply", ("~~~\n", "\n~~~~"), 1, 6)]
    return AgentStateMachine(planning, acting, min_planning_loops=0, max_planning_loops=2)


@cache
def strict() -> AgentStateMachine:
    """Exactly two plans, then a list in a fence that does not begin a line."""
    planning = [Freeform("t", ("```t", "\n```"), 2, 8)]
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3}
    return AgentStateMachine(
        planning, [Json("list", ("```l ", "\n```"), schema)], min_planning_loops=2, max_planning_loops=2
    )


@cache
def recursive() -> AgentStateMachine:
    """A tool whose arguments refer to themselves."""
    return AgentStateMachine([], [ToolCallState((TREE,))], max_planning_loops=0)


EXACT = (fenced, marked, strict, recursive)
"""Machines of every kind of delimiter and content."""

# ---- reading --------------------------------------------------------------------------------------------------------


def parsed(machine: AgentStateMachine | OutputPlan, chunks: Iterable[str]) -> tuple[OutputParser, list[ParserEvent]]:
    """A closed parser, and what it reported; pieces of one content that came in several calls are joined."""
    parser = OutputParser(machine)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    events += parser.close()
    joined: list[ParserEvent] = []
    for event in events:
        if isinstance(event, Piece) and joined and isinstance(last := joined[-1], Piece):
            joined[-1] = Piece(event.state, last.text + event.text)
        else:
            joined.append(event)
    return parser, joined


def read(machine: AgentStateMachine | OutputPlan, output: str) -> OutputParser:
    return parsed(machine, [output])[0]


def kinds(parser: OutputParser) -> list[str]:
    return [fault.kind for fault in parser.faults]


def plan_of(*segments: Segment) -> list[tuple[str, str, bool]]:
    return [(segment.state, segment.text, segment.is_complete) for segment in segments]


def messages_of(faults: Sequence[OutputFault]) -> str:
    return "\n".join(fault.message for fault in faults)


# ---- outputs --------------------------------------------------------------------------------------------------------

HOSTILE = (
    *("\n```", "```", "```\n", "\n```\n", "```t", "````", "`", "\n", " ", "\n" * 31, " " * 33, "\t\r\n", "\n```py\n"),
    *("```thinking\n", "```scratchpad\n", "```tool\n", "<note>", "</note>", "</", "<call>", "</call>", "[aa", "aab"),
    *("aaab", "~~~\n", "\n~~~~", "\n~~~", "{", "}", "[", "]", '"', "\\", "\\n", '\\"', "\\ud83d", "\\ud83d\\ude00"),
    *("\\u00e9", ",", ":", "0", "-", "1e5", "1.0", "null", "true", '"name"', '"x":1,', "NaN", "a" * 9, "é", "😀"),
    *("\x00", "\x1f", "\u2028", "1207", "1208", "-0", "-4", "12345678901234567890"),
)
"""Pieces that mean something to one state or another."""

_TEXTS = (
    "abc",
    "a b\nc",
    "aa",
    "x",
    "let me see",
    "",
    "a ```\nb",
    "<note>",
    "```tool\n{}\n```\n",
    "é😀\n``",
    "\n~~~\nx",
)
CONTENTS = {
    **dict.fromkeys(("thinking", "scratchpad", "note", "knot", "t", "reply"), _TEXTS),
    "list": ('["a", "]", "\\ud83d\\ude00"]', '[ "\\"\\n```" ]\n', "[]", "[1]", '["a"'),
    "tool_call": (
        '{"name":"stop","arguments":{}}',
        '\n {"name": "read", "arguments": {"path": "a\\n```", "line": -3}}\n',
        '{"arguments":{"how":null,"what":[1.5, -2e3],"deep":true},"name":"sort"}',
        '{"name":"tree","arguments":{"root":{"v":1,"in":[{"v":2},\r\n{"v":3,"in":[]}]}}}',
        '{"name":"tree","arguments":{"root":{"in":[]}}}',
        '{"name":"go","arguments":{}}',
    ),
}
"""What is between the delimiters of each state: right in one machine or another, or nearly so."""


@st.composite
def outputs(draw: st.DrawFn, machine: AgentStateMachine) -> str:
    """Outputs that are right, or nearly so."""
    plan = machine.plan()
    loops = draw(st.integers(plan.least, plan.most))
    states = [draw(st.sampled_from(sorted(plan.planning))) for _ in range(loops)]
    states.append(draw(st.sampled_from([name for name in plan.contents if name not in plan.planning])))
    text = draw(st.sampled_from(["", "", "\n", "  "]))
    for state in states:
        opening, closing = plan.contents[state].delimiters
        white = draw(st.sampled_from(["\n", "\n", "\n", " \n", "\n\n", "\t", "\r\n", "", "\n" * 32]))
        text += opening + draw(st.sampled_from(CONTENTS[state])) + closing + white
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        text = _mutated(draw, text)
    return text


def _mutated(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    end = min(len(text), at + draw(st.integers(0, 8)))
    piece = draw(st.sampled_from(HOSTILE))
    changed = (
        text[:at] + piece + text[at:],
        text[:at] + text[end:],
        text[:at] + piece + text[end:],
        text[:end] + text[at:],
    )
    return draw(st.sampled_from([*changed, text[:at]]))


@st.composite
def split(draw: st.DrawFn, text: str) -> list[str]:
    """The text in chunks, some of them empty."""
    cuts = draw(st.lists(st.integers(0, len(text)), max_size=12))
    return [text[start:end] for start, end in pairwise([0, *sorted(cuts), len(text)])]


# ---- the engine -----------------------------------------------------------------------------------------------------


class _Bytes:
    """The smallest vocabulary: every byte is a token."""

    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes([byte]) for byte in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text: Any) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


@cache
def tokenizer() -> LLTokenizer:
    return LLTokenizer(TokenizerWrapper(_Bytes()))


class Engine:
    """A grammar as llguidance has compiled it."""

    def __init__(self, compiled: str) -> None:
        self._matcher = LLMatcher(tokenizer(), compiled, log_level=0)
        self.fault = self._matcher.get_error()

    @classmethod
    def of_tag(cls, tag: dict[str, Any]) -> "Engine":
        """A structural tag, which llguidance does not read, as its own grammar."""
        rules: list[str] = []
        return cls(LLMatcher.grammar_from_lark(f"start: {_lark(tag['format'], rules)}\n" + "\n".join(rules)))

    @classmethod
    def of_schema(cls, schema: dict[str, Any]) -> "Engine":
        return cls(LLMatcher.grammar_from_json_schema(json.dumps(schema)))

    def accepts(self, text: str) -> bool:
        """Whether the whole text is one of the grammar's."""
        self._matcher.reset()
        tokens = list(text.encode())
        return self._matcher.try_consume_tokens(tokens) == len(tokens) and self._matcher.is_accepting()

    def permits(self, text: str) -> bool:
        """Whether some text of the grammar begins so."""
        self._matcher.reset()
        tokens = list(text.encode())
        return self._matcher.try_consume_tokens(tokens) == len(tokens)


def _lark(tag: dict[str, Any], rules: list[str]) -> str:
    match tag["type"]:
        case "const_string":
            return json.dumps(tag["value"])
        case "json_schema":
            return f"%json {json.dumps(tag['json_schema'])}"
        case "sequence":
            return " ".join(_lark(one, rules) for one in tag["elements"])
        case "or":
            return f"({' | '.join(_lark(one, rules) for one in tag['elements'])})"
        case "tag" if tag["content"]["type"] == "any_text":
            rules.append(f"t{len(rules)}[suffix={json.dumps(tag['end'])}]: /(?s:.*)/")
            return f"{json.dumps(tag['begin'])} t{len(rules) - 1}"
    space = r"/[ \t\r\n]{0,32}/"
    return f"{json.dumps(tag['begin'])} {space} {_lark(tag['content'], rules)} {space} {json.dumps(tag['end'])}"
