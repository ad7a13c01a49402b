"""Reads an agent's own phases, state, tools and colleagues from its front matter, as a program.

    phases:
      - [planning, research, plan]
      - [research, analysis, data|length >= 3]
    state:
      plan: ""
      data: {type: list, description: what was found}
    tools:
      - read_file
      - shell: {phases: [research], when: plan}
    agents:
      - planner: {phases: [planning], shared: true}

Conditions are Jinja expressions over the state: `plan`, `state.plan`, `phase`, `conversation.phase`.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import yaml
from jinja2 import TemplateSyntaxError, meta

from tenex.core.graph import Edge, TransitionGraph
from tenex.core.ids import Slug
from tenex.core.phases import Phase
from tenex.core.state.agent import AgentPhaseState, Link, Program, Scope, fits
from tenex.core.workflow.rounds import faults_of_value

from .frontmatter import Front, choices, is_null, line_of, value_of, word_of, words_of
from .templates import sandbox

TYPES: Final = {
    "text": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
    "list": "array",
    "object": "object",
}
"""What a field of state may be, as people say it and as JSON Schema does."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "text": "",
    "number": 0,
    "integer": 0,
    "boolean": False,
    "list": [],
    "object": {},
}

RESERVED: Final = frozenset({"state", "phase", "conversation", "message"})
"""Names that mean something in templates and conditions."""

_PHASE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,27}")
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_WORDS: Final = frozenset({"and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "loop", "self"})
"""Words that Jinja reads as something else than a name."""

_ENVIRONMENT: Final = sandbox()


@dataclass(frozen=True)
class Expression:
    """A condition as it was written; two are equal if their words are."""

    text: str

    @cached_property
    def _ask(self) -> Any:
        return _ENVIRONMENT.compile_expression(self.text, undefined_to_none=False)

    def holds(self, facts: Any) -> bool:
        """Whether it is true of these values."""
        return bool(self._ask(**facts))


def values(standing: AgentPhaseState, conversation: Phase | None) -> dict[str, Any]:
    """What conditions and templates see of an agent."""
    phase = None if conversation is None else str(conversation)
    history = [{"source": move.source, "target": move.target, "at": move.at} for move in standing.history]
    state = {"history": history, **standing.values, "phase": standing.phase}
    return {**standing.values, "state": state, "phase": standing.phase, "conversation": {"phase": phase}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What front matter says of an agent beyond who it is."""

    tools: tuple[str, ...] = ()
    program: Program | None = None
    input: str = ""
    """The template of what it is told as its part; empty to tell it as it is."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Of its colleagues, by the tools that call them."""


def read_own(front: Front, tools: Collection[str] | None, given: Collection[str]) -> Own:
    """Read the keys of shape; whatever is wrong is added to the faults.

    Args:
        front: Their nodes.
        tools: Every tool there is; None leaves the names unchecked.
        given: Those every agent has, which need not be named.
    """
    reading = _Reading(front)
    schema, defaults = reading.state()
    graph = reading.graph()
    named, scopes = reading.tools(tools, given)
    links, lines = reading.links()
    for name in links:
        if tools is not None and name in tools:
            front.fault(lines[name], f"{name} is a tool already, and cannot be a colleague's. Rename the agent.")
    shown = reading.input()
    if graph is None and not schema and not scopes and not links:
        return Own(tools=named, input=shown)
    program = Program(
        graph=graph,
        defaults=defaults,
        schema=schema,
        look=values,
        scopes=scopes,
        links=links,
        is_settable=bool(schema),
        has_triggers=reading.has_triggers,
    )
    return Own(tools=named, program=program, input=shown, lines=lines)


class _Reading:
    """One agent's program being read: what later keys may name."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._fields: frozenset[str] = frozenset()
        self._phases: tuple[str, ...] = ()
        self.has_triggers = self._switch(front.nodes.get("triggers"), "triggers")

    # ---- state ----

    def state(self) -> tuple[dict[str, Mapping[str, Any]], dict[str, Any]]:
        node = self._front.nodes.get("state")
        schema: dict[str, Mapping[str, Any]] = {}
        defaults: dict[str, Any] = {}
        if node is None:
            return schema, defaults
        if not isinstance(node, yaml.MappingNode):
            self._front.fault(line_of(node), "`state` must be lines of `name: default`.")
            return schema, defaults
        for key, value in node.value:
            name = word_of(key) or ""
            if not _FIELD.fullmatch(name) or name.lower() in _WORDS:
                told = "a name begins with a letter and has letters, digits and `_` only"
                self._front.fault(line_of(key), f"{name!r} cannot be a field of `state`: {told}.")
            elif name in RESERVED:
                self._front.fault(line_of(key), f"`{name}` cannot be a field of `state`: it means something else.")
            elif name in schema:
                self._front.fault(line_of(key), f"`{name}` stands in `state` twice. Keep one.")
            else:
                schema[name], defaults[name] = self._field(name, value)
        self._fields = frozenset(schema)
        return schema, defaults

    def _field(self, name: str, node: yaml.Node) -> tuple[Mapping[str, Any], Any]:
        parts: Mapping[str, yaml.Node] = {"default": node}
        if isinstance(node, yaml.MappingNode) and node.value:
            parts = self._front.pairs(node, ("type", "default", "description"), f"`{name}`")
        kind, default = word_of(parts["type"]) if "type" in parts else None, self._plain(name, parts.get("default"))
        if kind is not None and kind not in TYPES:
            self._front.fault(line_of(parts["type"]), f"{kind!r} is no type of a field. {choices(kind, TYPES)}")
            kind = None
        elif kind is None and default is None:
            self._front.fault(line_of(node), f"`{name}` has neither a type nor a default. Give one of them.")
        elif kind is None:
            kind = next(word for word, told in TYPES.items() if told == _type_of(default))
        elif default is None:
            default = _DEFAULTS[kind]
        elif not fits(default, {"type": TYPES[kind]}):
            self._front.fault(line_of(parts["default"]), f"the default of `{name}` is no {kind}.")
        about = " ".join((word_of(parts["description"]) or "").split()) if "description" in parts else ""
        found = {"type": TYPES[kind]} if kind else {}
        return ({**found, "description": about} if about else found), default

    def _plain(self, name: str, node: yaml.Node | None) -> Any:
        """The default as a JSON value; None where there is none, or it is no such value."""
        if node is None or is_null(node):
            return None
        try:
            value = value_of(node)
        except yaml.YAMLError:
            value = ...
        if any(faults_of_value(value, name)):
            self._front.fault(line_of(node), f"the default of `{name}` is no value JSON can hold. Put it in quotes.")
            return ""
        return value

    # ---- phases ----

    def graph(self) -> TransitionGraph | None:
        node = self._front.nodes.get("phases")
        if node is None:
            return None
        line = self._front.lines["phases"]
        words = words_of(node)
        if words is not None and not words:
            return None
        if words is not None:
            self._front.fault(
                line,
                "`phases` is an agent's own graph, a list of `[source, destination, condition]`. The phases of "
                f"the conversation it works in are `in_phases: [{', '.join(word for word, _ in words)}]`.",
            )
            return None
        edges = [edge for item in self._items(node) if (edge := self._edge(item)) is not None]
        if not edges:
            return None
        names = tuple(dict.fromkeys(name for edge in edges for name in (str(edge.source), str(edge.target))))
        self._phases = names
        found = TransitionGraph(
            nodes=names, initial=names[0], edges=tuple(edges), terminal=frozenset(names)
        )  # an agent may end its work in any of its phases
        for sentence in found.faults(by_rules=not self.has_triggers):
            self._front.fault(line, f"`phases`: {sentence}")
        pairs: dict[str, Edge] = {}
        for edge in edges if self.has_triggers else ():
            one = pairs.setdefault(name := f"{edge.source}_to_{edge.target}", edge)
            if one.source != edge.source:
                self._front.fault(
                    line,
                    f"`phases`: {one.source} -> {one.target} and {edge.source} -> {edge.target} would both be "
                    f"the trigger {name}. Rename a phase.",
                )
        entered, left = {edge.target for edge in edges}, {edge.source for edge in edges}
        for name in names if names[0] not in entered else ():
            if name not in left and _is_slip(name, names[0]):
                self._front.fault(
                    line,
                    f"`phases`: nothing leads to {names[0]} and nothing leads out of {name}. If one phase is "
                    "meant, write it in one way; if not, give them names that differ more.",
                )
        return found

    def _items(self, node: yaml.Node) -> list[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            return list(node.value)
        self._front.fault(line_of(node), "`phases` must be a list of `[source, destination, condition]`.")
        return []

    def _edge(self, item: yaml.Node) -> Edge | None:
        words = words_of(item)
        if words is None or len(words) not in (2, 3):
            self._front.fault(line_of(item), "each of `phases` is `[source, destination, condition]`.")
            return None
        for word, line in words[:2]:
            if not _PHASE.fullmatch(word):
                told = "a phase is one word of at most 28 letters, digits, `_` and `-` that begins with a letter"
                self._front.fault(line, f"{word!r} is no name of a phase: {told}.")
                return None
        when = self._condition(item.value[2]) if len(words) == 3 else None
        return Edge(words[0][0], words[1][0], when, label=when.text if when is not None else "")

    def _condition(self, node: yaml.Node) -> Expression | None:
        text = word_of(node)
        if not text:
            if not is_null(node):
                self._front.fault(line_of(node), "a condition must be an expression, such as `data|length >= 3`.")
            return None
        try:
            _ENVIRONMENT.compile_expression(text)
            unknown = meta.find_undeclared_variables(_ENVIRONMENT.parse(f"{{{{ {text} }}}}"))
        except TemplateSyntaxError as error:
            self._front.fault(line_of(node), f"the condition {text!r} is no expression: {error.message}.")
            return None
        known = {*self._fields, "state", "phase", "conversation"}
        for name in sorted(unknown - known):
            self._front.fault(line_of(node), f"the condition {text!r} names {name!r}. {choices(name, known)}")
        return Expression(text)

    # ---- tools and colleagues ----

    def tools(self, known: Collection[str] | None, given: Collection[str]) -> tuple[tuple[str, ...], dict[str, Scope]]:
        scopes: dict[str, Scope] = {}
        named: dict[str, None] = {}
        for word, line, node in self._named("tools"):
            if known is not None and word not in known and word not in given:
                self._front.fault(line, f"there is no tool {word!r}. {choices(word, set(known) - set(given))}")
            named[word] = None
            if node is not None:
                scopes[word] = self._scope(self._front.pairs(node, ("phases", "when"), f"`{word}`"))
        return tuple(named), scopes

    def links(self) -> tuple[dict[str, Link], dict[str, int]]:
        links: dict[str, Link] = {}
        lines: dict[str, int] = {}
        for word, line, node in self._named("agents"):
            keys = ("phases", "when", "shared", "description")
            parts = {} if node is None else self._front.pairs(node, keys, f"`{word}`")
            name = f"ask_{word.replace('-', '_')}"
            about = (word_of(parts["description"]) or "") if "description" in parts else ""
            links[name] = Link(
                agent=Slug(word),
                description=about,
                scope=self._scope(parts),
                is_shared=self._switch(parts.get("shared"), "shared"),
            )
            lines[name] = line
        return links, lines

    def _named(self, key: str) -> Iterator[tuple[str, int, yaml.Node | None]]:
        """What a list of words names, each with its line and, where it is `word: {...}`, what stands after it.

        A word may stand there again; where it says in which phases, nobody could tell which of them counts.
        """
        known: dict[str, yaml.Node | None] = {}
        for word, line, node in self._words(key):
            if word in known and (node is not None or known[word] is not None):
                self._front.fault(
                    line,
                    f"`{word}` stands in `{key}` twice. Keep one; join its phases in one list, and its "
                    "conditions by `or`.",
                )
            known[word] = node
            yield word, line, node

    def _words(self, key: str) -> Iterator[tuple[str, int, yaml.Node | None]]:
        node = self._front.nodes.get(key)
        if node is None:
            return
        items = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for item in items:
            word = word_of(item)
            if isinstance(node, yaml.SequenceNode) and word is not None:
                yield word, line_of(item), None
            elif isinstance(item, yaml.MappingNode) and all(word_of(name) for name, _ in item.value):
                for name, value in item.value:
                    yield word_of(name) or "", line_of(name), None if is_null(value) else value
            else:
                self._front.fault(
                    self._front.lines[key],
                    f"`{key}` must be a list of words, such as `{key}: [a, b]`, or of "
                    "`a: {phases: [...], when: condition}`.",
                )
                return

    def _scope(self, parts: Mapping[str, yaml.Node]) -> Scope:
        phases: list[str] = []
        node = parts.get("phases")
        if node is not None:
            one = word_of(node)
            words = [(one, line_of(node))] if one is not None else words_of(node)
            if words is None:
                self._front.fault(line_of(node), "`phases` of a tool or a colleague must be a list of words.")
            for word, line in words or ():
                if word not in self._phases:
                    self._front.fault(
                        line, f"{word!r} is none of the agent's own phases. {choices(word, self._phases)}"
                    )
                phases.append(word)
        when = self._condition(parts["when"]) if "when" in parts else None
        return Scope(phases=frozenset(phases), when=when)

    # ---- the rest ----

    def input(self) -> str:
        node = self._front.nodes.get("input")
        if node is None:
            return ""
        text = word_of(node)
        if not text:
            self._front.fault(line_of(node), "`input` must be a text.")
        return text or ""

    def _switch(self, node: yaml.Node | None, name: str) -> bool:
        word = "false" if node is None else (word_of(node) or "").lower()
        if word not in ("true", "false"):
            assert node is not None
            self._front.fault(line_of(node), f"`{name}` must be true or false.")
        return word == "true"


def _is_slip(word: str, other: str) -> bool:
    """Whether two words are one but for a slip: a letter too many, too few, another one, or two in the wrong order.

    Names that somebody counts by, as in `step_1`, `draft2` and `part_b`, are no slips; nor are short words like `read`
    and `ready`, which have too many others beside them.
    """
    one, two = sorted((word.lower().replace("-", "_"), other.lower().replace("-", "_")), key=len)
    if len(one) < 6 or len(two) - len(one) > 1:
        return one == two
    at = next((place for place, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), len(one))
    if len(two) > len(one):
        return two[at].isalpha() and one[at:] == two[at + 1 :]
    is_inside = two[at + 1 : at + 2].isalpha()
    is_other = one[at + 1 :] == two[at + 1 :] and one[at : at + 1].isalpha() and two[at : at + 1].isalpha()
    is_swapped = (one[at : at + 1], one[at + 1 : at + 2]) == (two[at + 1 : at + 2], two[at : at + 1])
    return at == len(one) or (is_inside and (is_other or (is_swapped and one[at + 2 :] == two[at + 2 :])))


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "string"
