"""A mission's graph: its nodes and edges, read from the classes and checked, and its values as the journal has them.

The edges are what `run` is annotated to return: `Review | End[str]`, `"Review" | End[str]`, a whole annotation in
quotes or `Annotated[Review, "a draft is there"]`. The graph's own nodes are known in whatever module they were defined.
"""

import inspect
import math
import types
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass
from typing import Annotated, Any, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tenex.core.effects import NodeRun
from tenex.core.errors import ConfigurationError, DeserializationError, SerializationError, UsageError
from tenex.core.graph import END, Edge, TransitionGraph
from tenex.core.mission_config import MISSION_ID, TRACKED, Beginning, MissionRule, NodeRule
from tenex.core.signals import MissionRequested, NodeFailed, NodeReturned
from tenex.workflows.error_text import sentence_of
from tenex.workflows.serialization import Typed, field_names, is_text, restore

from .nodes import BaseNode, Dependency, End, NodeError, injected, specs_of

StateT = TypeVar("StateT")
DepsT = TypeVar("DepsT")
RunEndT = TypeVar("RunEndT")

_UNSET: Any = object()

Node = type[BaseNode[Any, Any, Any]]
Codec = dict[str, Typed[Any]]


@dataclass(frozen=True)
class NodeShape:
    """What was read of one node."""

    node: Node
    name: str
    edges: tuple[Edge, ...]
    result: Any
    """The type in `End[...]`; Any if there is none."""
    fields: Codec
    """The fields that are journaled."""
    dependencies: frozenset[str]
    faults: tuple[str, ...]


def read(node: Node, names: dict[str, Node]) -> NodeShape:
    """Read a node; what is wrong with it is in its faults."""
    name, faults = node.get_node_id(), []
    edges: list[Edge] = []
    result: Any = Any
    try:
        for kind, label in _members(node, names):
            if kind is End or get_origin(kind) is End:
                edges.append(Edge(name, END, label=label))
                result = next(iter(get_args(kind)), Any)
                if isinstance(result, type) and issubclass(result, _Unknown):
                    result = Any  # known to a type checker only
            elif isinstance(kind, type) and issubclass(kind, _Unknown):
                faults.append(f"{name}.run may return {kind.__name__}, which is no node of this graph.")
            elif isinstance(kind, type) and issubclass(kind, BaseNode):
                target = kind.get_node_id()
                edges.append(Edge(name, target, label=label))
                if names.get(target) is not kind:
                    faults.append(f"{name}.run may return {target}, which is no node of this graph.")
            else:
                faults.append(
                    f"{name}.run may return {getattr(kind, '__name__', None) or kind}, which is neither a node nor End."
                )
    except _Unannotated as fault:
        faults.append(str(fault))
    codec, dependencies = _fields(node, faults)
    return NodeShape(node, name, tuple(dict.fromkeys(edges)), result, codec, dependencies, tuple(faults))


def _error_faults(shapes: Sequence[NodeShape]) -> Iterator[str]:
    by_name = {shape.name: shape for shape in shapes}
    for target in dict.fromkeys(shape.node.policy.on_error for shape in shapes):
        if target is None:
            continue
        users = ", ".join(shape.name for shape in shapes if shape.node.policy.on_error == target)
        if target not in by_name:
            yield f"{users}: on_error names {target}, which is no node of this graph."
            continue
        needed = [
            spec.name
            for spec in specs_of(by_name[target].node)
            if spec.name in by_name[target].fields and spec.name != "error" and is_required(spec)
        ]
        if needed:
            yield f"{target} follows failures, so its fields need defaults: {', '.join(needed)}."


def _members(node: Node, names: dict[str, Node]) -> Iterator[tuple[Any, str]]:
    """The types that `run` may return, each with the label of its edge."""
    run: Any = node.run
    if getattr(run, "__isabstractmethod__", False):
        raise _Unannotated(f"{node.get_node_id()} has no `run`.")
    given = getattr(run, "__annotations__", {})
    if given.get("return") is None:
        raise _Unannotated(f"{node.get_node_id()}.run is not annotated with what it returns: its edges are unknown.")

    def only_return() -> None: ...

    only_return.__annotations__ = {"return": given["return"]}
    known: dict[str, Any] = {**names, "End": End, "Annotated": Annotated}
    known.update({key: value for key, value in getattr(run, "__globals__", {}).items() if key not in names})
    while True:
        try:
            hint = get_type_hints(only_return, globalns={}, localns=known, include_extras=True)["return"]
            break
        except NameError as fault:
            if not fault.name or fault.name in known:
                raise _Unannotated(f"{node.get_node_id()}.run: its annotation cannot be read: {fault}") from fault
            known[fault.name] = type(fault.name, (_Unknown,), {})
        except (TypeError, SyntaxError, AttributeError) as fault:
            raise _Unannotated(f"{node.get_node_id()}.run: its annotation cannot be read: {fault}") from fault
    for member in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        if get_origin(member) is Annotated:
            kind, *marks = get_args(member)
            label = next((mark for mark in marks if isinstance(mark, str)), "")
            yield kind, label or next((str(mark.label) for mark in marks if getattr(mark, "label", None)), "")
        else:
            yield member, ""


def _fields(node: Node, faults: list[str]) -> tuple[Codec, frozenset[str]]:
    name = node.get_node_id()
    if not hasattr(node, "__dataclass_fields__"):
        faults.append(f"{name} is no dataclass: its fields are what a restart goes on with.")
        return {}, frozenset()
    if "__dataclass_fields__" not in vars(node) and getattr(node, "__annotations__", None):
        faults.append(f"{name} has fields of its own but no @dataclass: they would be lost.")
    codec: Codec = {}
    try:
        dependencies = injected(node)
        hints = get_type_hints(node, localns={"Dependency": Dependency})
    except NameError as fault:
        faults.append(f"{name}: the type of a field cannot be found: {fault}.")
        return {}, frozenset()
    for spec in specs_of(node):
        if spec.name in dependencies or not spec.init:
            continue
        try:
            codec[spec.name] = Typed(hints[spec.name], f"{name}.{spec.name}")
        except SerializationError as fault:
            faults.append(f"{fault}. Mark what is no value as Dependency[...].")
    return codec, dependencies


def is_required(spec: "Field[Any]") -> bool:
    """Whether a node cannot be made without this field."""
    return spec.init and spec.default is MISSING and spec.default_factory is MISSING


class _Unknown:
    """Placeholder for a name of an annotation that cannot be resolved."""


class _Unannotated(Exception):
    """Nothing can be read from `run`."""


class NodeGraph(Generic[StateT, DepsT, RunEndT]):
    """The nodes of a mission, checked when it is built; `graph.Graph` also runs them."""

    def __init__(
        self,
        *,
        nodes: Sequence[type[BaseNode[StateT, DepsT, RunEndT]]],
        state_type: Any = _UNSET,
        name: str = "mission",
        deps_type: Any = None,
    ) -> None:
        """Read and check the nodes; the first is where a mission usually begins.

        Args:
            nodes: classes, all that `run` may return.
            state_type: a pydantic model or a dataclass, mutable; None for no state. Read from the nodes if not given.
            name: in the journal, and to people.
            deps_type: where given, it is checked to have what the nodes' dependencies are called.

        Raises:
            ConfigurationError: everything that is wrong with the graph, each as a sentence.
        """
        self.name = name
        names: dict[str, Node] = {node.get_node_id(): node for node in nodes}
        shapes = [read(node, names) for node in nodes]
        self._shapes: dict[str, NodeShape] = {shape.name: shape for shape in shapes}
        self.state_type = _argument(nodes, 0, None) if state_type is _UNSET else state_type
        found = [shape.result for shape in shapes if any(edge.target == END for edge in shape.edges)]
        is_any = not found or Any in found
        result = Any if is_any else Union[tuple(dict.fromkeys(found))]  # noqa: UP007 - made of values
        self.deps_type = _argument(nodes, 1, None) if deps_type is None else deps_type
        self._names = field_names(self.state_type) or frozenset()
        self.transitions = _transitions(shapes)
        faults = [*_faults(nodes, shapes, self.state_type, deps_type), *self.transitions.faults()]
        try:
            self._state = Typed[Any](self.state_type, "the state")
            self._result = Typed[Any](result, "the result")
        except SerializationError as fault:
            faults.append(f"{fault}.")
        if faults:
            raise ConfigurationError([f"workflow {name}: {fault}" for fault in dict.fromkeys(faults)])

    def mermaid(self) -> str:
        """The graph as a Mermaid state diagram."""
        return self.transitions.mermaid()

    def rule(self) -> MissionRule:
        """What the core goes by."""
        nodes = {
            shape.name: NodeRule(
                phase=shape.node.phase_name(),
                on_error=shape.node.policy.on_error,
                retries=shape.node.policy.retries,
                timeout=None if shape.node.policy.timeout is None else round(shape.node.policy.timeout * 1000),
                takes_error="error" in shape.fields and shape.fields["error"].kind in (NodeError, NodeError | None),
            )
            for shape in self._shapes.values()
        }
        return MissionRule(graph=self.transitions, nodes=nodes, tracked=self.tracked)

    @property
    def tracked(self) -> frozenset[str]:
        """The fields of the state that are kept for it; `mission_id` only where it is a text."""
        names = TRACKED & self._names
        return names if is_text(self.state_type, MISSION_ID) else names - {MISSION_ID}

    def asked(self, node: BaseNode[StateT, DepsT, RunEndT], state: StateT, by: str) -> MissionRequested:
        """The signal that begins a mission at a node.

        Raises:
            UsageError: the node or the state is not of this graph, or cannot be journaled.
        """
        try:
            found = self.beginning(node, state)
        except SerializationError as fault:
            raise UsageError(f"The mission {self.name} cannot begin: {fault}.") from fault
        return MissionRequested(workflow=self.name, node=found.node, data=found.data, state=found.state, by=by)

    def beginning(self, node: BaseNode[StateT, DepsT, RunEndT], state: StateT) -> Beginning:
        """A node and a state as the core takes them.

        Raises:
            SerializationError: one is not of this graph, or cannot be journaled.
        """
        name, data = self._dump_node(node)
        return Beginning(node=name, data=data, state=self.dump_state(state))

    def first(self) -> BaseNode[StateT, DepsT, RunEndT]:
        """The first node, made of its defaults; its dependencies are given when it runs.

        Raises:
            ConfigurationError: it has fields without one.
        """
        shape = self._shapes[self.transitions.initial]
        try:
            return shape.node(**dict.fromkeys(shape.dependencies))
        except TypeError as fault:
            raise ConfigurationError([f"{shape.name} is where it begins, so its fields need defaults."]) from fault

    @property
    def needs(self) -> str:
        """What a run has to be given besides the state, in words; "" for nothing."""
        named = sorted({name for shape in self._shapes.values() for name in shape.dependencies})
        kind = self.deps_type
        is_given = kind not in (None, type(None), Any, object) and not isinstance(kind, TypeVar)
        return ", ".join(named) or (getattr(kind, "__name__", str(kind)) if is_given else "")

    def dump_state(self, state: StateT) -> dict[str, Any]:
        """The state as a JSON object.

        Raises:
            SerializationError: it is not of its type.
        """
        if not self._names:
            return {}
        written: dict[str, Any] = self._state.dump(state)
        return written

    def load_state(self, written: Mapping[str, Any]) -> StateT:
        """Return the state of a JSON object.

        Raises:
            DeserializationError: the type has changed since.
        """
        return cast("StateT", self._state.load(dict(written)) if self._names else None)

    def restore(self, state: StateT, changed: Mapping[str, Any]) -> None:
        """Give the state what a step that has returned changed in it, where running the code again has not."""
        if not changed:
            return
        now = self.dump_state(state)
        differing = {name: value for name, value in changed.items() if now.get(name, _UNSET) != value}
        if differing:
            restore(state, self.load_state({**now, **differing}), frozenset(differing) & self._names)

    def dependencies_of(self, node: Any) -> dict[str, Any]:
        """The dependencies that a node was made with; none of what is no node."""
        shape = self._shapes.get(node.get_node_id()) if isinstance(node, BaseNode) else None
        named = ((name, getattr(node, name, None)) for name in (shape.dependencies if shape else ()))
        return {name: value for name, value in named if value is not None}

    def load_node(
        self, name: str, data: Mapping[str, Any], deps: DepsT, handed: Mapping[str, Any] | None = None
    ) -> BaseNode[StateT, DepsT, RunEndT]:
        """A node with its journaled fields and its dependencies: those it was handed, else those of the run.

        Raises:
            DeserializationError: there is no such node any more, or its fields have changed.
        """
        shape = self._shapes.get(name)
        if shape is None:
            raise DeserializationError(f"the workflow {self.name} has no node {name} any more")
        strange = data.keys() - shape.fields.keys()
        if strange:
            raise DeserializationError(f"{name} has no field {', '.join(sorted(strange))} any more")
        values = {field: shape.fields[field].load(value) for field, value in data.items()}
        values |= handed or {}
        for field in shape.dependencies - values.keys():
            if not hasattr(deps, field):
                raise DeserializationError(f"{name}.{field}: the dependencies of this run have no {field}")
            values[field] = getattr(deps, field)
        try:
            return shape.node(**values)
        except TypeError as fault:
            missing = [spec.name for spec in specs_of(shape.node) if is_required(spec) and spec.name not in values]
            why = f"it has no {', '.join(missing)}" if missing else sentence_of(fault)
            raise DeserializationError(f"{name} cannot be made of what is journaled: {why}") from fault

    def read_answer(self, effect: NodeRun, answer: Any, state: StateT) -> NodeReturned | NodeFailed:
        """What a node's return value means.

        Raises:
            SerializationError: it cannot be journaled.
        """
        data: dict[str, Any]
        if isinstance(answer, End):
            to, data, result = END, {}, self._result.dump(answer.data)
        elif isinstance(answer, BaseNode):
            to, data, result = answer.get_node_id(), {}, None
            refusal = self.transitions.check(effect.node, to)
            if refusal is None and type(answer) is not self._shapes[to].node:
                refusal = f"{effect.node} returned a {to} that is not the one of this graph."
            if refusal is not None:
                return NodeFailed(key=effect.key, who="author", kind="UndeclaredEdge", message=refusal)
            to, data = self._dump_node(answer)
        else:
            allowed = ", ".join(dict.fromkeys(str(edge.target) for edge in self.transitions.outgoing(effect.node)))
            what = f"the class {answer.__name__}" if isinstance(answer, type) else f"a {type(answer).__name__}"
            sentence = f"{effect.node} returned {what}; it may return an instance of: {allowed}."
            return NodeFailed(key=effect.key, who="author", kind="NoNode", message=sentence)
        return NodeReturned(key=effect.key, to=to, data=data, result=result, state=self.dump_state(state))

    def _dump_node(self, node: Any) -> tuple[str, dict[str, Any]]:
        name = node.get_node_id() if isinstance(node, BaseNode) else type(node).__name__
        shape = self._shapes.get(name)
        if shape is None or type(node) is not shape.node:
            raise SerializationError(f"{name} is no node of the workflow {self.name}")
        try:
            return name, {field: typed.dump(getattr(node, field)) for field, typed in shape.fields.items()}
        except SerializationError as fault:
            raise SerializationError(f"{fault}. Mark what is no value as Dependency[...]") from fault


def _transitions(shapes: Sequence[NodeShape]) -> TransitionGraph:
    edges: list[Edge] = []
    for shape in shapes:
        edges += shape.edges
        target = shape.node.policy.on_error
        if target is not None and not any(edge.target == target for edge in shape.edges):
            edges.append(Edge(shape.name, target, label="failed"))
    initial = shapes[0].name if shapes else ""
    return TransitionGraph(nodes=tuple(shape.name for shape in shapes), initial=initial, edges=tuple(edges))


def _faults(nodes: Sequence[Node], shapes: Sequence[NodeShape], state_type: Any, deps_type: Any) -> Iterator[str]:
    if not nodes:
        yield "it has no nodes."
    for name, times in Counter(node.get_node_id() for node in nodes).items():
        if times > 1:
            yield f"{times} nodes are called {name}; give one of them a get_node_id of its own."
    if field_names(state_type) is None:
        yield f"the state must be a pydantic model, a dataclass or None, not {state_type}."
    for shape in shapes:
        yield from shape.faults
        policy = shape.node.policy
        if not inspect.iscoroutinefunction(shape.node.run):
            yield f"{shape.name}.run must be an async function."
        timeout: object = policy.timeout
        if timeout is not None and not (isinstance(timeout, int | float) and 0 < timeout < math.inf):
            yield f"{shape.name}: timeout is {timeout!r}; it must be above 0 seconds, or leave it out for no bound."
        if policy.retries < 0:
            yield f"{shape.name}: retries is {policy.retries}; it must be 0 or more."
        if policy.on_error == shape.name:
            yield f"{shape.name} follows its own failure: it would fail for ever."
        known: Any = getattr(deps_type, "__dataclass_fields__", None) or getattr(deps_type, "model_fields", None)
        for field in sorted(shape.dependencies) if known else ():
            if field not in known and not hasattr(deps_type, field):
                yield f"{shape.name}.{field} is a dependency, but {deps_type.__name__} has no {field}."
    yield from _error_faults(shapes)


def _argument(nodes: Sequence[Node], place: int, default: Any) -> Any:
    """What a node gave to `BaseNode[...]`."""
    for node in nodes:
        for base in getattr(node, "__orig_bases__", ()):
            arguments = get_args(base) if get_origin(base) is BaseNode else ()
            if len(arguments) > place and not isinstance(arguments[place], TypeVar):
                return arguments[place]
    return default
