"""A mission as its author writes it down: a module with the graph and, beside it, how it begins and what it needs.

    graph = Graph(nodes=(Discovery, Research), state_type=MissionState)

    def begin(message: str) -> MissionState: ...       # or (node, state); without it see `Starting`
    def deps(workspace: Path) -> GraphContext: ...     # the parameter may be left out

Both are plain functions. `begin` raises ValueError with a sentence for the author of the message; `deps` is called
whenever a node is run, also after a restart, and nothing of what it gives is journaled.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from tenex.core.errors import ConfigurationError, SerializationError, UsageError
from tenex.core.ids import PublicKey, Slug
from tenex.workflows.kit.error_text import complaints
from tenex.workflows.kit.serialization import field_names
from tenex.workflows.missions.config import MISSION_ID, TRACKED, Beginning, MissionRule

from .graph import Graph
from .nodes import BaseNode

BEGIN: Final = "begin"
DEPS: Final = "deps"
WORKSPACE: Final = "workspace"
_REASON: Final = 500
"""Characters of an error of user code in a message to users."""
_BLOCK = re.compile(r"```(?:json)?[ \t]*\n(?P<body>.*?)\n?```", re.DOTALL)

AnyGraph = Graph[Any, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissionWorkflow:
    """A mission that people begin by a mention."""

    graph: AnyGraph
    begin: Callable[[str], Any] | None = None
    deps: Callable[..., Any] | None = None
    about: str = ""

    @property
    def everybody(self) -> tuple[Slug, ...]:
        """No agent takes part."""
        return ()

    def faults(self) -> Iterator[str]:
        """Everything wrong with how it begins and with what it needs; the graph was checked when it was built."""
        for name, function, most in ((BEGIN, self.begin, None), (DEPS, self.deps, {WORKSPACE})):
            if function is not None:
                yield from _faults_of(name, function, most)
        if self.deps is None and (what := self.graph.needs):
            yield f"its nodes need {what}, and nothing makes them: write `def {DEPS}():` beside the graph."
        if self.begin is None:
            try:
                self.graph.first()
            except ConfigurationError as fault:
                yield from (f"{sentence} Or write `def {BEGIN}(message: str):`." for sentence in fault.faults)

    def warnings(self) -> tuple[str, ...]:
        """What may be meant so."""
        return ()

    def make_deps(self, workspace: Path) -> Callable[[], Any]:
        """What makes the dependencies of a run."""
        made = self.deps
        if made is None:
            return lambda: None
        return (lambda: made(workspace=workspace)) if WORKSPACE in inspect.signature(made).parameters else made

    def rule(self, slug: Slug, pubkey: PublicKey) -> MissionRule:
        """What the core goes by, with the key it speaks with."""
        return replace(self.graph.rule(), pubkey=pubkey, about=self.about, begin=Starting(slug, self))


class Starting:
    """Makes of a message where a mission begins; `core.mission_config.Begin`.

    Mentions at the beginning and at the end are left out. Without a `begin` of the author's, a JSON object (the whole
    text, or a block between lines of three backticks) is the fields of the state; any other text goes into its first
    field of that type, one without a default before others.
    """

    def __init__(self, slug: Slug, mission: MissionWorkflow) -> None:
        self._mission = mission
        called = rf"(?:@{re.escape(slug)}(?![\w-])|nostr:n(?:pub|profile)1[0-9a-z]+)"
        self._before = re.compile(rf"\A(?:\s*{called}[\s,:;]*)+", re.IGNORECASE)
        self._called = re.compile(called, re.IGNORECASE)

    def __call__(self, text: str) -> Beginning:
        """Where it begins.

        Raises:
            UsageError: it cannot, with a sentence for who wrote the text; also whatever else `begin` raises.
        """
        plain = self._plain(text)
        try:
            begin = self._mission.begin
            found = begin(plain) if begin is not None else self._state_of(plain)
            node, state = self._parts(found)
            return self._beginning(node, state)
        except ValidationError as fault:
            raise UsageError(f"{_sentence(complaints(fault))} {self._hint()}".strip()) from fault
        except ValueError as fault:
            raise UsageError(_sentence(str(fault) or "the message is not what it takes")) from fault
        except SerializationError as fault:
            raise UsageError(f"{_sentence(str(fault))} The author of its code has to fix that.") from fault

    def _plain(self, text: str) -> str:
        """The text between the mentions; a word at a time, since strangers choose how many there are."""
        rest = self._before.sub("", text).strip()
        words = rest.split()
        count = sum(1 for _ in takewhile(self._called.fullmatch, reversed(words)))
        return "" if count == len(words) else rest.rsplit(maxsplit=count)[0] if count else rest

    def _parts(self, found: Any) -> tuple[BaseNode[Any, Any, Any], Any]:
        match found:
            case (BaseNode() as node, state):
                return node, state
            case BaseNode() as node:
                return node, None
            case state:
                return self._mission.graph.first(), state

    def _beginning(self, node: BaseNode[Any, Any, Any], state: Any) -> Beginning:
        if handed := ", ".join(self._mission.graph.dependencies_of(node)):
            raise SerializationError(f"its `{BEGIN}` hands {handed} to {node.get_node_id()}, which only `{DEPS}` can")
        return self._mission.graph.beginning(node, state)

    def _state_of(self, text: str) -> Any:
        kind = self._mission.graph.state_type
        known = field_names(kind) or frozenset()
        if not known:
            return None if kind is None or kind is type(None) else kind()
        given = _object_in(text)
        if given is None:
            field = _text_field(kind)
            given = {field: text} if field and text else {}
        if strange := ", ".join(sorted(map(str, given.keys() - known))):
            raise UsageError(f"It has no field {strange}. {self._hint()}")
        if MISSION_ID in self._mission.graph.tracked:
            given = {MISSION_ID: "", **given}  # the core puts the mission's own id there
        return TypeAdapter(kind).validate_python(given, by_name=True, by_alias=False)

    def _hint(self) -> str:
        if self._mission.begin is not None:
            return ""
        names = [name for name in _types_of(self._mission.graph.state_type) if name not in TRACKED]
        return f"It takes a JSON object with {', '.join(names)}."


def mission_of(graph: AnyGraph, module: ModuleType | None) -> MissionWorkflow:
    """A graph with the functions of its module."""
    words = inspect.cleandoc((module and module.__doc__) or "").partition("\n")[0]
    return MissionWorkflow(
        graph=graph, begin=getattr(module, BEGIN, None), deps=getattr(module, DEPS, None), about=words
    )


def _faults_of(name: str, function: Any, most: set[str] | None) -> Iterator[str]:
    if not callable(function):
        yield f"`{name}` is a {type(function).__name__}; it must be a function."
        return
    if inspect.iscoroutinefunction(function):
        yield f"`{name}` is async; make it a plain function, and what takes long a step of a node."
    needed = [
        spec.name
        for spec in inspect.signature(function).parameters.values()
        if spec.default is spec.empty and spec.kind not in (spec.VAR_POSITIONAL, spec.VAR_KEYWORD)
    ]
    if most is None and len(needed) != 1:
        yield f"`{name}` takes {len(needed)} parameters; it must take one, the message."
    if most is not None and (other := ", ".join(part for part in needed if part not in most)):
        yield f"`{name}` takes {other}; it may take `{WORKSPACE}`, the folder agents work in, and nothing else."


def _object_in(text: str) -> Mapping[str, Any] | None:
    """The JSON object a text is, or holds in a block; None where it holds none.

    Raises:
        ValueError: it looks like one and cannot be read.
    """
    block = _BLOCK.search(text)
    body = block["body"].strip() if block else text
    if not body.startswith("{"):
        return None
    try:
        found = json.loads(body)
    except RecursionError as fault:
        raise ValueError("The JSON is nested too deep") from fault
    except ValueError as fault:
        raise ValueError(f"The JSON cannot be read: {fault}") from fault
    return found if isinstance(found, dict) else None


def _types_of(kind: Any) -> dict[str, bool]:
    """The fields of a state, each with whether it has to be given."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: spec.is_required() for name, spec in kind.model_fields.items()}
    return {
        spec.name: spec.default is MISSING and spec.default_factory is MISSING for spec in fields(kind) if spec.init
    }


def _text_field(kind: Any) -> str | None:
    hints = get_type_hints(kind)
    texts = {name: needed for name, needed in _types_of(kind).items() if hints[name] is str and name not in TRACKED}
    return next((name for name, needed in texts.items() if needed), next(iter(texts), None))


def _sentence(words: str) -> str:
    short = " ".join(words.split())[:_REASON]
    return short if short.endswith((".", "!", "?")) else f"{short}."
