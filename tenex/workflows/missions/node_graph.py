"""A mission's graph as a value: its nodes read and checked, and its states and nodes as the journal holds them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args

from tenex.core.errors import ConfigurationError, DeserializationError, SerializationError, UsageError, kind_of
from tenex.core.graph import END
from tenex.core.ids import ConversationId
from tenex.workflows.kit.error_text import sentence_of
from tenex.workflows.kit.serialization import Typed, field_names, is_text, restore
from tenex.workflows.missions.config import MISSION_ID, TRACKED, Beginning, MissionRule, NodeRule
from tenex.workflows.missions.effects import NodeRun
from tenex.workflows.missions.signals import MissionRequested, NodeFailed, NodeReturned

from .node_shape import Node, NodeShape, argument, faults_of, faults_of_classes, is_required, read, transitions
from .nodes import BaseNode, DepsT, End, NodeError, RunEndT, StateT, specs_of

Direction = Literal["TB", "BT", "LR", "RL"]
"""Of a diagram, as Mermaid writes it."""

_UNSET: Any = object()


class NodeGraph(Generic[StateT, DepsT, RunEndT]):
    """A mission's graph, checked when it is built; what users make is its subclass `graph.Graph`, which can be run."""

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
        given: object = name  # user code may not check types
        named = [] if isinstance(given, str) and given else ["`name` must be a text that is not empty."]
        if unreadable := [*named, *faults_of_classes(nodes)]:
            raise ConfigurationError([f"workflow {name}: {fault}" for fault in unreadable])
        names: dict[str, Node] = {node.get_node_id(): node for node in nodes}
        shapes = [read(node, names) for node in nodes]
        self._shapes: dict[str, NodeShape] = {shape.name: shape for shape in shapes}
        self.state_type = argument(nodes, 0) if state_type is _UNSET else state_type
        found = [shape.result for shape in shapes if any(edge.target == END for edge in shape.edges)]
        is_any = not found or Any in found
        result = Any if is_any else Union[tuple(dict.fromkeys(found))]  # noqa: UP007 - made of values
        self.deps_type = argument(nodes, 1) if deps_type is None else deps_type
        self._names = field_names(self.state_type) or frozenset()
        self.transitions = transitions(shapes)
        faults = [*faults_of(nodes, shapes, self.state_type, deps_type), *self.transitions.faults()]
        try:
            is_state = field_names(self.state_type) is not None
            self._state = Typed[Any](self.state_type if is_state else None, "the state")
            self._result = Typed[Any](result, "the result")
        except SerializationError as fault:
            faults.append(f"{fault}.")
        if faults:
            raise ConfigurationError([f"workflow {name}: {fault}" for fault in dict.fromkeys(faults)])

    def mermaid(self) -> str:
        """The graph as a Mermaid state diagram."""
        return self.transitions.mermaid()

    def mermaid_code(
        self,
        *,
        start_node: type[BaseNode[StateT, DepsT, Any]] | BaseNode[StateT, DepsT, Any] | str | None = None,
        title: str | None = None,
        direction: Direction | None = None,
    ) -> str:
        """The graph as a Mermaid state diagram, by pydantic-graph's name for it.

        Args:
            start_node: where it is to begin; by default the first node.
            title: above the diagram.
            direction: in which it is drawn.

        Raises:
            UsageError: the node is not of this graph, or there is no such direction.
        """
        name = start_node if isinstance(start_node, str | None) else start_node.get_node_id()
        if name is not None and name not in self._shapes:
            raise UsageError(f"`start_node` is {name}, which is no node of this graph: {', '.join(self._shapes)}.")
        if direction not in (None, *get_args(Direction)):
            raise UsageError(f"`direction` is {direction!r}; it must be one of {', '.join(get_args(Direction))}.")
        drawn = replace(self.transitions, initial=name or self.transitions.initial).mermaid()
        if direction is not None:
            drawn = drawn.replace("\n", f"\n    direction {direction}\n", 1)
        return f"---\ntitle: {json.dumps(title, ensure_ascii=False)}\n---\n{drawn}" if title else drawn

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
        if isinstance(state, type):
            raise SerializationError(f"the state is {kind_of(state)}; give an instance of it")
        name, data = self.dump_node(node)
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

    def update(self, state: StateT, recorded: Mapping[str, Any]) -> None:
        """Give a state, which somebody holds, all recorded values, in place; what is equal stays the same object."""
        try:
            self.restore(state, recorded)
        except SerializationError:  # something is in it that cannot be compared
            restore(state, self.load_state(recorded), self._names)

    def load_result(self, written: Any) -> RunEndT:
        """The value in `End` of a JSON value.

        Raises:
            DeserializationError: its type has changed since.
        """
        result: RunEndT = self._result.load(written)
        return result

    def mission_id(self, mission: str) -> ConversationId:
        """The id of the conversation that holds a mission of that name."""
        return ConversationId(hashlib.sha256(f"{self.name}\n{mission}".encode()).hexdigest())

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
            to = END
            data = {}
            result = self._result.dump(answer.data)
        elif isinstance(answer, BaseNode):
            to = answer.get_node_id()
            data = {}
            result = None
            refusal = self.transitions.check(effect.node, to)
            if refusal is None and type(answer) is not self._shapes[to].node:
                refusal = f"{effect.node} returned a {to} that is not the one of this graph."
            if refusal is not None:
                return NodeFailed(key=effect.key, who="author", kind="UndeclaredEdge", message=refusal)
            to, data = self.dump_node(answer)
        else:
            allowed = ", ".join(dict.fromkeys(str(edge.target) for edge in self.transitions.outgoing(effect.node)))
            sentence = f"{effect.node} returned {kind_of(answer)}; it may return an instance of: {allowed}."
            return NodeFailed(key=effect.key, who="author", kind="NoNode", message=sentence)
        return NodeReturned(key=effect.key, to=to, data=data, result=result, state=self.dump_state(state))

    def dump_node(self, node: Any) -> tuple[str, dict[str, Any]]:
        """The name of a node and its fields as JSON.

        Raises:
            SerializationError: it is not of this graph, or a field cannot be journaled.
        """
        if not isinstance(node, BaseNode):
            example = f"{self.transitions.initial}(...)"
            raise SerializationError(f"{kind_of(node)} is no node; give an instance of one, such as {example}")
        name = node.get_node_id()
        shape = self._shapes.get(name)
        if shape is None or type(node) is not shape.node:
            raise SerializationError(f"{name} is no node of the workflow {self.name}")
        try:
            return name, {field: typed.dump(getattr(node, field)) for field, typed in shape.fields.items()}
        except SerializationError as fault:
            raise SerializationError(f"{fault}. Mark what is no value as Dependency[...]") from fault
