"""The class of a Python agent, read once: its fields, methods, links and phases, and every error in them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args, get_origin

from pydantic import TypeAdapter

from tenex.core.agent_phases.program import ALWAYS, Scope
from tenex.core.errors import ConfigurationError, SerializationError, kind_of
from tenex.core.graph import END, Edge, Predicate, TransitionGraph
from tenex.workflows.kit.serialization import Typed
from tenex.workflows.speakers.rounds import OWN

from .fields import MISSING, AgentCondition, Link, State
from .templates import GIVEN, MESSAGE, template_faults
from .tools import MARK, Method, ToolMark, faults_of_condition, read_method, words

TAKEN: Final = frozenset({*OWN, "ask", "complete", "learn", "search_conversation", "set_state", "append_state"})
"""Tools every agent may have already, by their names."""
RESERVED: Final = frozenset({*GIVEN, MESSAGE, "message", "phases", "history", "run", "dump", "load"})
"""What a field of state cannot be called: an agent has it already, or templates do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkShape:
    """A link with the class of whom it calls; None where it names a slug."""

    link: Link[Any]
    target: type | None
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """A class, read and found without fault."""

    name: str
    description: str
    system: str
    input: str
    fields: Mapping[str, Typed[Any]]
    declared: Mapping[str, State[Any]]
    defaults: Mapping[str, Any]
    """As JSON; of a field with a factory what that made when the class was read."""
    schema: Mapping[str, Mapping[str, Any]]
    methods: Mapping[str, Method]
    links: Mapping[str, LinkShape]
    graph: TransitionGraph | None

    @property
    def makes_values(self) -> bool:
        """Whether a factory may make another value each time, as only one that is not built in does."""
        return any(one.default_factory not in (None, list, dict, set) for one in self.declared.values())

    def made(self) -> dict[str, Any]:
        """What the factories make for one more beginning, as JSON; raises what they raise, and `SerializationError`."""
        factories = {name: one for name, one in self.declared.items() if one.default_factory is not None}
        return {name: self.fields[name].dump(one.begin()) for name, one in factories.items()}

    @property
    def scopes(self) -> dict[str, Scope]:
        """Of the methods that are not always there."""
        found = {name: _scope(method.phases, method.condition) for name, method in self.methods.items()}
        return {name: scope for name, scope in found.items() if scope is not ALWAYS}


@dataclass(slots=True)
class _Reading:
    cls: type
    faults: list[str] = field(default_factory=list)
    fields: dict[str, Typed[Any]] = field(default_factory=dict)
    declared: dict[str, State[Any]] = field(default_factory=dict)
    methods: dict[str, Method] = field(default_factory=dict)
    links: dict[str, LinkShape] = field(default_factory=dict)


def read_class(cls: type, root: type) -> Blueprint:
    """Read a class that derives from `root`.

    Raises:
        ConfigurationError: everything that is wrong with it, each as a sentence.
    """
    reading = _Reading(cls)
    graph = _graph(reading)
    nodes = graph.nodes if graph is not None else ()
    for name, value in _members(cls, root).items():
        if isinstance(value, State):
            _read_state(reading, name, value, _annotation(reading, name, State, root))
        elif isinstance(value, Link):
            _read_link(reading, name, value, _annotation(reading, name, Link, root), root)
        else:
            _read_tool(reading, name, value)
    _check_annotations(reading, root)
    for name, scope in _scopes(reading):
        unknown = sorted(scope.phases - set(nodes))
        if unknown:
            there = f"The phases are: {', '.join(nodes)}." if nodes else "It has no phases."
            reading.faults.append(f"{name} names {', '.join(unknown)}, which is no phase of it. {there}")
    texts = _texts(reading)
    defaults = _defaults(reading)
    if reading.faults:
        raise ConfigurationError([f"{cls.__name__}: {fault}" for fault in dict.fromkeys(reading.faults)])
    return Blueprint(
        name=cls.__name__,
        description=texts["__description__"] or inspect.cleandoc(cls.__doc__ or "").split("\n")[0],
        system=texts["__system_message__"],
        input=texts["__input_template__"],
        fields=reading.fields,
        declared=reading.declared,
        defaults=defaults,
        schema=_schemas(reading),
        methods=reading.methods,
        links=reading.links,
        graph=graph,
    )


def check_types(cls: type, root: type) -> None:
    """Check, when a class is made, that every field of its own can be JSON.

    Annotations that cannot be read yet are left to `read_class`.

    Raises:
        ConfigurationError: with every such field.
    """
    reading = _Reading(cls)
    for name, value in vars(cls).items():
        if isinstance(value, State) and (kind := _annotation(reading, name, State, root)) is not None:
            _typed(reading, name, kind)
    if reading.faults and not _annotations_fault(cls):
        raise ConfigurationError([f"{cls.__name__}: {fault}" for fault in reading.faults])


def _members(cls: type, root: type) -> dict[str, Any]:
    """What the class and those above it declare, the nearest of each name, in the order of declaration."""
    found: dict[str, Any] = {}
    for owner in reversed([one for one in cls.__mro__ if one not in root.__mro__]):
        found.update(vars(owner))
    return {name: value for name, value in found.items() if isinstance(value, State | Link) or _is_marked(value)}


def _is_marked(value: Any) -> bool:
    """Whether a member is a tool, also within a `staticmethod`."""
    return hasattr(value, MARK) or hasattr(getattr(value, "__func__", None), MARK)


def _check_annotations(reading: _Reading, root: type) -> None:
    """Refuse fields that are annotated as `State` or `Link` and hold something else, or nothing."""
    cls = reading.cls
    examples = {State: "State(default=...)", Link: "AgentLink()"}
    for owner in [one for one in cls.__mro__ if one not in root.__mro__]:
        if _annotations_fault(owner):
            continue
        for name, hint in inspect.get_annotations(owner, eval_str=True).items():
            origin: Any = hint if get_origin(hint) is None else get_origin(hint)
            value = getattr(cls, name, MISSING)
            if origin not in (State, Link) or isinstance(value, State | Link):
                continue
            what = "has no value" if value is MISSING else f"is {kind_of(value)}"
            example = f"`{name}: {origin.__name__}[...] = {examples[origin]}`"
            reading.faults.append(f"{name} is annotated as {origin.__name__} and {what}; write {example}.")


def _annotations_fault(cls: type) -> str | None:
    try:
        inspect.get_annotations(cls, eval_str=True)
    except Exception as fault:  # noqa: BLE001 - an annotation is code, and may fail in any way
        return f"{type(fault).__name__}: {fault}"
    return None


def _annotation(reading: _Reading, name: str, kind: type, root: type) -> Any:
    """Return the type in the brackets of a field's annotation, of the nearest class that has one; None is a fault."""
    for owner in reading.cls.__mro__:
        if name not in vars(owner).get("__annotations__", {}):
            continue
        fault = _annotations_fault(owner)
        if fault is not None:
            reading.faults.append(f"the annotations of {owner.__name__} cannot be read: {fault}.")
            return None
        given: Any = inspect.get_annotations(owner, eval_str=True)[name]
        origin: Any = get_origin(given)
        if origin is kind:
            return get_args(given)[0]
        if given is kind:
            return Any if kind is State else root
        break
    reading.faults.append(f"{name} must be annotated as `{name}: {kind.__name__}[...]`.")
    return None


def _read_state(reading: _Reading, name: str, value: State[Any], kind: Any) -> None:
    if name in RESERVED or name.startswith("_"):
        reading.faults.append(f"a field of state cannot be called {name}; choose another name.")
    description: object = value.description
    if not isinstance(description, str):
        reading.faults.append(f"the state's {name}: `description` must be a text.")
    if kind is None:
        return
    typed = _typed(reading, name, kind)
    if typed is not None:
        reading.fields[name] = typed
        reading.declared[name] = value


def _typed(reading: _Reading, name: str, kind: Any) -> Typed[Any] | None:
    try:
        return Typed(kind, f"the state's {name}")
    except SerializationError as fault:
        reading.faults.append(f"{fault}.")
        return None


def _read_link(reading: _Reading, name: str, value: Link[Any], target: Any, root: type) -> None:
    where = f"the link {name}"
    if name in TAKEN or name in RESERVED:
        reading.faults.append(f"{where} cannot be called so: there is a tool of that name already.")
    phases = words(value.phases, where, reading.faults)
    reading.faults += _faults_of_link(where, value)
    if value.condition is not None:
        reading.faults.extend(faults_of_condition(value.condition, where))
    is_agent = isinstance(target, type) and issubclass(target, root) and target is not root
    if target is not None and not is_agent and not value.agent:
        reading.faults.append(f"{where} has no agent: write Link[SomeAgent], or AgentLink('slug').")
    if is_agent and value.agent:
        reading.faults.append(f"{where} names {target.__name__} and {value.agent}; keep one.")
    if is_agent and target is reading.cls:
        reading.faults.append(f"{where} calls the agent itself.")
    scope = _scope(phases, value.condition)
    reading.links[name] = LinkShape(link=value, target=target if is_agent else None, scope=scope)


def _faults_of_link(where: str, link: Link[Any]) -> Iterator[str]:
    """Arguments of the wrong type."""
    agent: object = link.agent
    shared: object = link.shared
    description: object = link.description
    if isinstance(agent, type):
        yield f"{where} is given the class {agent.__name__}; write `Link[{agent.__name__}] = AgentLink()`."
    elif not isinstance(agent, str):
        yield f"{where} is given {kind_of(agent)}; it must be the slug of an agent."
    if not isinstance(shared, bool):
        yield f"{where}: `shared` is {shared!r}; it must be True or False."
    if not isinstance(description, str):
        yield f"{where}: `description` must be a text."


def _read_tool(reading: _Reading, name: str, function: Any) -> None:
    if name in TAKEN or name in RESERVED:
        reading.faults.append(f"the tool {name} cannot be called so: there is a tool of that name already.")
    if isinstance(function, staticmethod | classmethod):
        reading.faults.append(f"the tool {name} is a {type(function).__name__}; it must be a method of the agent.")
        return
    mark: ToolMark = getattr(function, MARK)
    method = read_method(name, function, mark, reading.faults)
    if method is not None:
        reading.methods[name] = method


def _scope(phases: frozenset[str], condition: AgentCondition | None) -> Scope:
    if not phases and condition is None:
        return ALWAYS
    return Scope(phases=phases, when=None if condition is None else Predicate(condition))


def _scopes(reading: _Reading) -> list[tuple[str, Scope]]:
    tools = [(f"the tool {name}", _scope(one.phases, one.condition)) for name, one in reading.methods.items()]
    return [*tools, *((f"the link {name}", shape.scope) for name, shape in reading.links.items())]


def _graph(reading: _Reading) -> TransitionGraph | None:
    """The phases; None where there are none, or where they cannot be read."""
    given = getattr(reading.cls, "phases", ())
    if not isinstance(given, list | tuple):
        reading.faults.append("`phases` must be a list of (source, destination, condition).")
        return None
    edges: dict[str, Edge] = {}
    for number, one in enumerate(given, 1):
        if not (isinstance(one, list | tuple) and len(one) == 3 and all(isinstance(n, str) and n for n in one[:2])):
            reading.faults.append(f"`phases`, entry {number}: it must be (source, destination, condition).")
            continue
        source, target, condition = one
        pair = f"{source}_to_{target}"
        reading.faults.extend(faults_of_condition(condition, f"{source} -> {target}"))
        if END in (source, target):
            reading.faults.append(f"{source} -> {target}: {END} is no phase; an agent ends by answering.")
        if source == target:
            reading.faults.append(f"{source} -> {target}: it leads to where it begins.")
        if (other := edges.get(pair)) is not None and other.source != source:
            reading.faults.append(
                f"{other.source} -> {other.target} and {source} -> {target} would both be the trigger {pair}; "
                "rename a phase."
            )
        elif other is not None:
            reading.faults.append(f"{source} -> {target} is listed twice; join the conditions by `or`.")
        elif hasattr(reading.cls, pair):
            reading.faults.append(f"{pair} is the name of a trigger, and of something else in the class; rename that.")
        edges.setdefault(pair, Edge(source, target, Predicate(condition), label=_label(condition)))
    if not edges:
        return None
    nodes = tuple(dict.fromkeys(str(name) for edge in edges.values() for name in (edge.source, edge.target)))
    graph = TransitionGraph(nodes=nodes, initial=nodes[0], edges=tuple(edges.values()), terminal=frozenset(nodes))
    reading.faults.extend(graph.dead_ends(by_rules=True))
    return graph


def _label(condition: Callable[..., Any]) -> str:
    name = getattr(condition, "__name__", "")
    return "" if name == "<lambda>" else name.strip("_")


def _texts(reading: _Reading) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name in ("__system_message__", "__input_template__", "__description__"):
        given = getattr(reading.cls, name, "")
        if not isinstance(given, str):
            reading.faults.append(f"`{name}` must be a text.")
        texts[name] = inspect.cleandoc(given) if isinstance(given, str) else ""
        if name != "__description__":
            more = (MESSAGE,) if name == "__input_template__" else ()
            reading.faults.extend(template_faults(texts[name], name, (*reading.fields, *more)))
    if not texts["__system_message__"]:
        reading.faults.append("`__system_message__` is missing; describe who the agent is.")
    return texts


def _defaults(reading: _Reading) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, state in reading.declared.items():
        if state.default is not MISSING and state.default_factory is not None:
            reading.faults.append(f"the state's {name} has a default and a factory; keep one.")
            continue
        try:
            value = state.begin()
            if value is MISSING:
                reading.faults.append(f"the state's {name} has no default; give State(default=...).")
            else:
                values[name] = reading.fields[name].dump(value)
        except SerializationError as fault:
            reading.faults.append(f"the default of {fault}.")
        except Exception as fault:  # noqa: BLE001 - user code may fail in any way
            reading.faults.append(f"the factory of the state's {name} failed: {type(fault).__name__}: {fault}.")
    return values


def _schemas(reading: _Reading) -> dict[str, Mapping[str, Any]]:
    schemas: dict[str, Mapping[str, Any]] = {}
    for name, typed in reading.fields.items():
        schema = TypeAdapter(typed.kind).json_schema(mode="serialization")
        about = reading.declared[name].description
        schemas[name] = {**schema, "description": about} if about else schema
    return schemas
