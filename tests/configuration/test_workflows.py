"""The workflows of a configuration, read again while conversations go by the ones before."""

from pathlib import Path
from typing import Any

from tenex.configuration.workflows import load_workflows
from tenex.core.ids import Slug
from tenex.settings import load, resolve_paths
from tenex.workflows.speakers import TransitionGraph
from tenex.workflows.speakers.rules import compiler

MODULE = """
from dataclasses import dataclass
from typing import ClassVar

from tenex.workflows.speakers import AgentTarget, Transition, TransitionGraph, register_condition


@register_condition
@dataclass(frozen=True, slots=True)
class Late:
    name: ClassVar[str] = "late"

    def evaluate(self, state, envelope):
        return {answer!r}


workflow = TransitionGraph(initial_speaker="planner", transitions=[Transition(Late(), AgentTarget("executor"))])
"""


def read(data: Path, answer: str) -> dict[str, Any]:
    """The graph of a workflow whose condition answers so, as a conversation keeps it."""
    settings = load(None, data, env={})
    where = resolve_paths(settings)
    where.workflows.mkdir(parents=True, exist_ok=True)
    (where.workflows / "late.py").write_text(MODULE.format(answer=answer))
    (found,) = load_workflows(settings, where, [Slug("planner"), Slug("executor")]).found
    assert isinstance(found.workflow.graph, TransitionGraph)
    return dict(found.workflow.graph.to_dict())


def answer(graph: Any) -> Any:
    (edge,) = graph.edges
    return edge.when.condition.evaluate(None, None)


def test_a_condition_that_was_rewritten_holds_from_the_next_reading_on(tmp_path: Path) -> None:
    """The graph as data is the same; what its names mean is the configuration's, also where a later one is refused."""
    data = read(tmp_path, "before")
    before = compiler()
    assert answer(before(data, ("planner", "executor"))) == "before"
    assert read(tmp_path, "afterwards") == data
    assert answer(compiler()(data, ("planner", "executor"))) == "afterwards"
    assert answer(before(data, ("planner",))) == "before"
    assert before(data, ("planner",)) is before(data, ("planner",))
