"""A mission's nodes as a checked graph, and its values as the journal has them."""

import inspect
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin

from tenex.core.effects import NodeRun
from tenex.core.errors import ConfigurationError, DeserializationError, SerializationError, UsageError
from tenex.core.graph import END, Edge, TransitionGraph
from tenex.core.mission_config import MISSION_ID, TRACKED, Beginning, MissionRule, NodeRule
from tenex.core.signals import MissionRequested, NodeFailed, NodeReturned
from tenex.workflows.error_text import sentence_of
from tenex.workflows.serialization import Typed, field_names, is_text, restore

from .edges import Node, NodeShape, error_faults, is_required, read, takes_error
from .nodes import BaseNode, Classify, End, specs_of

StateT = TypeVar("StateT")
DepsT = TypeVar("DepsT")
RunEndT = TypeVar("RunEndT")

_UNSET: Any = object()


class NodeGraph(Generic[StateT, DepsT, RunEndT]):
    """The nodes of a mission, checked when it is built; `graph.Graph` also runs them."""

    def __init__(
        self,
        *,
        nodes: Sequence[type[BaseNode[StateT, DepsT, RunEndT]]],
        state_type: Any = _UNSET,
        name: str = "mission",
        result_type: Any = _UNSET,
        deps_type: Any = None,
        classify: Classify | None = None,
    ) -> None:
        """Read and check the nodes; the first is where a mission usually begins.

        Args:
            nodes: classes, all that `run` may return.
            state_type: a pydantic model or a dataclass, mutable; None for no state. Read from the nodes if not given.
            name: in the journal, and to people.
            result_type: of what is given to `End`; read from the nodes if not given.
            deps_type: where given, it is checked to have what the nodes' dependencies are called.
            classify: whether an exception may be retried; None leaves it to `nodes.may_pass`.

        Raises:
            ConfigurationError: everything that is wrong with the graph, each as a sentence.
        """
        self.name = name
        self.classify = classify
        names: dict[str, Node] = {node.get_node_id(): node for node in nodes}
        shapes = [read(node, names) for node in nodes]
        self._shapes: dict[str, NodeShape] = {shape.name: shape for shape in shapes}
        self.state_type = _argument(nodes, 0, None) if state_type is _UNSET else state_type
        found = [shape.result for shape in shapes if any(edge.target == END for edge in shape.edges)]
        self.result_type = _either(found) if result_type is _UNSET else result_type
        self.deps_type = _argument(nodes, 1, None) if deps_type is None else deps_type
        self._names = field_names(self.state_type) or frozenset()
        self.transitions = _transitions(shapes)
        faults = [*_faults(nodes, shapes, self.state_type, deps_type), *self.transitions.faults()]
        try:
            self._state = Typed[Any](self.state_type, "the state")
            self._result = Typed[Any](self.result_type, "the result")
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
                takes_error=takes_error(shape),
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
    yield from error_faults(shapes)


def _argument(nodes: Sequence[Node], place: int, default: Any) -> Any:
    """What a node gave to `BaseNode[...]`."""
    for node in nodes:
        for base in getattr(node, "__orig_bases__", ()):
            arguments = get_args(base) if get_origin(base) is BaseNode else ()
            if len(arguments) > place and not isinstance(arguments[place], TypeVar):
                return arguments[place]
    return default


def _either(kinds: Sequence[Any]) -> Any:
    if not kinds or Any in kinds:
        return Any
    return Union[tuple(dict.fromkeys(kinds))]  # noqa: UP007 - made of values
