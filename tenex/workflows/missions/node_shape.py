"""Node classes as a graph reads them: edges from annotations, journaled fields, dependencies, and everything wrong.

The edges are what `run` is annotated to return: `Review | End[str]`, `"Review" | End[str]`, a whole annotation in
quotes or `Annotated[Review, "a draft is there"]`. The graph's own nodes are known in whatever module they were defined.
"""

import inspect
import math
import types
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tenex.core.errors import SerializationError, kind_of
from tenex.core.graph import END, Edge, TransitionGraph
from tenex.workflows.kit.serialization import Typed, field_names

from .nodes import BaseNode, Dependency, End, injected, specs_of

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


def faults_of_classes(nodes: object) -> Iterator[str]:
    """What of the nodes is no class of a node, so that nothing can be read of it, each as a sentence."""
    if not isinstance(nodes, list | tuple):
        yield f"`nodes` is {kind_of(nodes)}; it must be a list of classes, such as nodes=[Draft, Review]."
        return
    if not nodes:
        yield "it has no nodes."
    for number, node in enumerate(nodes):
        if isinstance(node, BaseNode):
            yield f"nodes[{number}] is an instance; give the class {type(node).__name__} itself."
        elif not isinstance(node, type) or not issubclass(node, BaseNode) or node is BaseNode:
            yield f"nodes[{number}] is {kind_of(node)}; it must be a class that derives from BaseNode."
        else:
            yield from _faults_of_name(node)


def _faults_of_name(node: Node) -> Iterator[str]:
    try:
        name: object = node.get_node_id()
    except Exception as fault:  # noqa: BLE001 - user code may fail in any way
        yield f"{node.__name__}.get_node_id failed: {fault}; it must be a classmethod that returns a text."
        return
    if not isinstance(name, str) or not name:
        yield f"{node.__name__}.get_node_id returns {name!r}; it must return a text."


def read(node: Node, names: dict[str, Node]) -> NodeShape:
    """Read a node; what is wrong with it is in its faults."""
    name = node.get_node_id()
    faults = []
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
    targets = [shape.node.policy.on_error for shape in shapes]
    for target in dict.fromkeys(one for one in targets if isinstance(one, str)):
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


def transitions(shapes: Sequence[NodeShape]) -> TransitionGraph:
    """The edges of all nodes, also those that failures take."""
    edges: list[Edge] = []
    for shape in shapes:
        edges += shape.edges
        target = shape.node.policy.on_error
        if isinstance(target, str) and not any(edge.target == target for edge in shape.edges):
            edges.append(Edge(shape.name, target, label="failed"))
    initial = shapes[0].name if shapes else ""
    return TransitionGraph(nodes=tuple(shape.name for shape in shapes), initial=initial, edges=tuple(edges))


def faults_of(nodes: Sequence[Node], shapes: Sequence[NodeShape], state_type: Any, deps_type: Any) -> Iterator[str]:
    """Everything wrong with the nodes of a graph and what they are given, each as a sentence."""
    for name, times in Counter(node.get_node_id() for node in nodes).items():
        if times > 1:
            yield f"{times} nodes are called {name}; give one of them a get_node_id of its own."
    if field_names(state_type) is None:
        what = kind_of(state_type) if get_origin(state_type) is None else state_type
        yield f"the state must be a pydantic model, a dataclass or None, not {what}."
    if not (deps_type is None or isinstance(deps_type, type | TypeVar) or get_origin(deps_type) is not None):
        yield f"`deps_type` is {kind_of(deps_type)}; it must be a class."
    for shape in shapes:
        yield from shape.faults
        if not inspect.iscoroutinefunction(shape.node.run):
            yield f"{shape.name}.run must be an async function."
        elif not _takes_context(shape.node.run):
            yield f"{shape.name}.run must take the context and nothing else: `async def run(self, ctx)`."
        yield from _faults_of_policy(shape)
        known: Any = getattr(deps_type, "__dataclass_fields__", None) or getattr(deps_type, "model_fields", None)
        for field in sorted(shape.dependencies) if known else ():
            if field not in known and not hasattr(deps_type, field):
                yield f"{shape.name}.{field} is a dependency, but {deps_type.__name__} has no {field}."
    yield from _error_faults(shapes)


def _takes_context(run: Any) -> bool:
    try:
        inspect.signature(run).bind(None, None)
    except TypeError:
        return False
    return True


def _faults_of_policy(shape: NodeShape) -> Iterator[str]:
    """What is wrong with the arguments of a node's class, whatever their types are."""
    policy: Any = shape.node.policy
    name = shape.name
    timeout = policy.timeout
    retries = policy.retries
    target = policy.on_error
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < timeout < math.inf):
        yield f"{name}: timeout is {timeout!r}; it must be above 0 seconds, or leave it out for no bound."
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        yield f"{name}: retries is {retries!r}; it must be a whole number, 0 or more."
    if target is not None and not isinstance(target, str):
        yield f"{name}: on_error is {kind_of(target)}; it must be the class of a node, or its name."
    if target == name:
        yield f"{name} follows its own failure: it would fail for ever."
    if policy.phase is not None and (not isinstance(policy.phase, str) or not policy.phase):
        yield f"{name}: phase is {policy.phase!r}; it must be a text, or left out."


def argument(nodes: Sequence[Node], place: int) -> Any:
    """What a node gave to `BaseNode[...]`; None where all left it out, or gave None."""
    for node in nodes:
        for base in getattr(node, "__orig_bases__", ()):
            arguments = get_args(base) if get_origin(base) is BaseNode else ()
            named = arguments[place] if len(arguments) > place else None
            if named not in (None, type(None)) and not isinstance(named, TypeVar):
                return named
    return None
