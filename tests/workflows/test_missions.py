"""Building a mission's graph: edges from annotations however they are written, and every fault at once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import new_class
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from tenex.core.errors import ConfigurationError, UsageError
from tenex.workflows.missions import BaseNode, Dependency, End, Graph, GraphRunContext, NodeError


class Paper(BaseModel):
    words: int = 0


@dataclass
class Office:
    writer: Any = None


Ctx = GraphRunContext[Paper, Office]
Node = BaseNode[Paper, Office, str]


@dataclass
class Quoted(Node):
    async def run(self, ctx: Ctx) -> "Joined | End[str]":
        return End("no")


@dataclass
class Joined(Node):
    """A text in a union, as the example of AGENT-K has it."""

    async def run(self, ctx: Ctx) -> "Labelled" | End[str]:  # noqa: TC010 - as they write it
        return End("no")


@dataclass
class Labelled(Node):
    """An edge with a label, and one back."""

    async def run(self, ctx: Ctx) -> Annotated["Quoted", "once more"] | Annotated[End[str], "done"]:
        return End("no")


def node(name: str, fields: dict[str, Any], *, returns: str = "End[str]", **policy: Any) -> Any:
    """A node with these fields that does nothing."""

    async def run(self: Any, ctx: Ctx) -> Any:
        return End("")

    run.__annotations__["return"] = returns
    namespace = {"run": run, "__annotations__": fields, "__module__": __name__}
    return dataclass(new_class(name, (Node,), policy, lambda body: body.update(namespace)))


def faults_of(*nodes: Any, state_type: Any = Paper, **more: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Graph(nodes=nodes, state_type=state_type, **more)
    return "\n".join(caught.value.faults)


def test_edges_are_read_however_they_are_written() -> None:
    graph: Graph[Paper, Office, str] = Graph(nodes=(Quoted, Joined, Labelled), state_type=Paper)
    assert graph.mermaid().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Quoted",
        "    Quoted --> Joined",
        "    Quoted --> [*]",
        "    Joined --> Labelled",
        "    Joined --> [*]",
        "    Labelled --> Quoted : once more",
        "    Labelled --> [*] : done",
    ]


def test_nodes_and_types_that_only_a_function_knows_are_found() -> None:
    @dataclass
    class Local(Node):
        async def run(self, ctx: Ctx) -> "Other | End[OnlyForCheckers]":  # type: ignore[name-defined]  # noqa: F821
            return Other()

    @dataclass
    class Other(Node):
        async def run(self, ctx: Ctx) -> End[str]:
            return End("")

    graph: Graph[Paper, Office, Any] = Graph(nodes=(Local, Other), state_type=Paper)
    assert graph.transitions.permitted("Local") == ("Other",)


def test_every_fault_is_reported_at_once() -> None:
    @dataclass
    class Mute(Node):
        async def run(self, ctx: Ctx):  # type: ignore[no-untyped-def]
            return End("")

    class Bare(Node):
        async def run(self, ctx: Ctx) -> End[str]:
            return End("")

    @dataclass
    class Live(Node, timeout=0, retries=-1, on_error="Absent"):
        call: Callable[[], None]
        socket: object = field(default_factory=object)

        async def run(self, ctx: Ctx) -> End[str]:
            return End("")

    reported = faults_of(Mute, node("Lost", {}, returns="Ghost | int"), Bare, Live)
    for sentence in (
        "Mute.run is not annotated with what it returns",
        "Lost.run may return Ghost, which is no node of this graph",
        "Lost.run may return int, which is neither a node nor End",
        "Bare is no dataclass",
        "Live.call cannot be journaled",
        "Mark what is no value as Dependency",
        "timeout is 0",
        "retries is -1",
        "on_error names Absent, which is no node",
        "cannot be reached from Mute",
    ):
        assert sentence in reported, f"{sentence!r} is not in\n{reported}"


def test_other_faults_of_a_graph_are_named() -> None:
    again = node("Again", {})
    again.get_node_id = classmethod(lambda _cls: "Quoted")
    needy = node("Needy", {"error": NodeError, "money": int})
    assert "has no end" in faults_of(node("Round", {}, returns="Round"))
    assert "2 nodes are called Quoted" in faults_of(Quoted, again, Joined, Labelled)
    assert "the state must be a pydantic model" in faults_of(Quoted, Joined, Labelled, state_type=int)
    assert "it has no nodes" in faults_of()
    reported = faults_of(node("Risky", {}, on_error="Needy"), needy)
    assert "Needy follows failures, so its fields need defaults: money." in reported
    reported = faults_of(node("Typist", {"printer": Dependency[Any]}), deps_type=Office)  # type: ignore[misc]  # mypy knows no alias as a value
    assert "Typist.printer is a dependency, but Office has no printer" in reported


def test_a_mission_is_not_begun_with_what_cannot_be_journaled() -> None:
    loose = node("Loose", {"value": Any})
    graph: Graph[Paper, Office, str] = Graph(nodes=(loose,), state_type=Paper)
    with pytest.raises(UsageError, match=r"Loose\.value has no type and is not JSON"):
        graph.asked(loose(value=object()), Paper(), "me")
    with pytest.raises(UsageError, match=r"Loose\.value has no type and would come back .* as something else"):
        graph.asked(loose(value=(1, 2)), Paper(), "me")
    with pytest.raises(UsageError, match="the state is no Paper"):
        graph.asked(loose(value=None), Paper.model_construct(words="many"), "me")  # type: ignore[arg-type]
