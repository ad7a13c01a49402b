"""A workflow is read from TOML, JSON, a Python file or a module, with every fault named at once."""

import json
import shutil
from pathlib import Path

import pytest

from tenex.core.errors import ConfigurationError
from tenex.core.workflows import DEFAULTS, Within
from tenex.workflow import AgentTarget, FromSpeaker, Transition, TransitionGraph, Workflow
from tenex.workflow.definitions import find_workflows, read_workflow

SHIPPED = Path(__file__).parents[2] / "config" / "workflows"
GRAPH = TransitionGraph("a", [Transition(FromSpeaker("a"), AgentTarget("b"))])


def written(folder: Path, name: str, text: str) -> Path:
    """A file with that text."""
    path = folder / name
    path.write_text(text)
    return path


def faults_of(source: Path | str) -> str:
    """What is said against a file."""
    with pytest.raises(ConfigurationError) as refused:
        read_workflow(source)
    assert all(str(source) in sentence for sentence in refused.value.faults)
    return " ".join(refused.value.faults)


def test_the_shipped_examples_are_read_without_a_fault_or_a_doubt() -> None:
    faults: list[str] = []
    found = {str(one.slug): one.workflow for one in find_workflows(SHIPPED, [], faults, code_refusal="")}
    assert not faults
    assert {"draft-and-review", "mission", "triage"} <= found.keys()
    assert found["draft-and-review"].everybody == ("planner", "security-expert", "executor")
    assert found["draft-and-review"].doubts() == ()
    assert found["triage"].doubts() == ()


def test_a_graph_that_ag2_wrote_is_a_workflow_of_everybody_it_names(tmp_path: Path) -> None:
    found = read_workflow(written(tmp_path, "two_of_us.json", GRAPH.dumps()))
    assert found is not None
    assert isinstance(found.workflow, Workflow)
    assert (found.slug, found.workflow.everybody, found.workflow.graph) == ("two-of-us", ("a", "b"), GRAPH)
    assert found.workflow.within() == DEFAULTS


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    table = {"participants": ["a", "b", "person"], "context": {"n": 1}, "expectations": {"ttl": 60}, "view": "full"}
    as_json = written(tmp_path, "one.json", json.dumps({**GRAPH.to_dict(), "workflow": table}))
    text = '[workflow]\nparticipants = ["a", "b", "person"]\nview = "full"\ncontext.n = 1\nexpectations.ttl = 60\n'
    as_toml = written(tmp_path, "two.toml", GRAPH.to_toml() + text)
    one, two = read_workflow(as_json), read_workflow(as_toml)
    assert one is not None
    assert two is not None
    assert one.workflow == two.workflow
    assert isinstance(one.workflow, Workflow)
    assert one.workflow.within()["ttl"] == Within(close=60_000)


def test_every_fault_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    table = {"participants": ["a", "a"], "expectations": {"soon": 1, "ttl": -1}, "view": "half"}
    said = faults_of(written(tmp_path, "x.json", json.dumps({**GRAPH.to_dict(), "workflow": table})))
    for part in ("`view` is 'half'", "no expectation 'soon'", "expectations.ttl", "listed twice", "names 'b'"):
        assert part in said


def test_faults_of_the_graph_hide_none_of_the_table_and_the_other_way_round(tmp_path: Path) -> None:
    graph = {**GRAPH.to_dict(), "max_turns": 0}
    said = faults_of(written(tmp_path, "x.json", json.dumps({**graph, "workflow": {"view": "half"}})))
    assert "max_turns is 0" in said
    assert "`view` is 'half'" in said
    said = faults_of(written(tmp_path, "x.json", json.dumps({**graph, "workflow": {"colour": 1}})))
    assert "max_turns is 0" in said
    assert "unknown keys: colour" in said


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"colour": 1}, "unknown keys: colour"),
        ({"participants": "a"}, "must be a list"),
        ({"context": []}, "`workflow.context` must be a table"),
        ({"expectations": 3}, "`workflow.expectations` must be a table"),
        ({"name": 3}, "`name` must be a text"),
        ([], "must be a table"),
    ],
)
def test_a_table_of_another_shape_is_refused(tmp_path: Path, table: object, said: str) -> None:
    assert said in faults_of(written(tmp_path, "x.json", json.dumps({**GRAPH.to_dict(), "workflow": table})))


def test_a_name_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    assert "cannot be the name" in faults_of(written(tmp_path, "person.json", GRAPH.dumps()))
    assert "cannot be the name" in faults_of(written(tmp_path, "a b.json", GRAPH.dumps()))


def test_a_python_file_holds_a_workflow_or_a_graph(tmp_path: Path) -> None:
    head = "from tenex.workflow import TransitionGraph, Workflow\n"
    graph = 'TransitionGraph.sequence(["a", "b"])'
    for name, text in (
        ("graph", f"graph = {graph}"), ("workflow", f"workflow = Workflow(graph={graph})"),
        ("only", f"anything = {graph}"), ("named", f"first = {graph}\ngraph = {graph}"),
    ):  # fmt: skip
        found = read_workflow(written(tmp_path, f"{name}.py", head + text))
        assert found is not None
        assert (found.slug, found.workflow.everybody) == (name, ("a", "b"))
    assert "it does not say which of x, y is meant" in faults_of(
        written(tmp_path, "two.py", head + f"x = {graph}\ny = {graph}")
    )
    assert "broken.py: it failed while it was loaded: line 1: ZeroDivisionError" in faults_of(
        written(tmp_path, "broken.py", "1 / 0")
    )
    assert "empty.py: it holds no workflow; give one to a variable `workflow` or `graph`." in faults_of(
        written(tmp_path, "empty.py", head)
    )
    assert "round_robin needs at least one" in faults_of(
        written(tmp_path, "refused.py", head + "graph = TransitionGraph.round_robin([])")
    )


def test_a_module_is_named_with_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'from tenex.workflow import TransitionGraph\nmine = graph = TransitionGraph.sequence(["a", "b"])\n'
    written(tmp_path, "workflows_of_mine.py", text)
    monkeypatch.syspath_prepend(str(tmp_path))
    named, generic = read_workflow("workflows_of_mine:mine"), read_workflow("workflows_of_mine:graph")
    assert named is not None
    assert generic is not None
    assert (named.slug, generic.slug) == ("mine", "workflows-of-mine")
    assert "has no other" in faults_of("workflows_of_mine:other")
    assert "is a str and no workflow" in faults_of("workflows_of_mine:__name__")


def test_a_folder_is_read_whole_and_its_faults_are_gathered(tmp_path: Path) -> None:
    written(tmp_path, "one.json", GRAPH.dumps())
    written(tmp_path, "one.toml", GRAPH.to_toml())
    written(tmp_path, "bad.toml", "initial_speaker =")
    written(tmp_path, "worse.json", "{")
    written(tmp_path, "_not_read.py", "1 / 0")
    written(tmp_path, "notes.md", "nothing")
    faults: list[str] = []
    find_workflows(tmp_path, ["no.such:thing"], faults, code_refusal="")
    said = "\n".join(faults)
    assert len(faults) == 4
    for part in ("bad.toml: This is no TOML", "worse.json: This is no JSON", "is called one too", "no module no"):
        assert part in said
    assert find_workflows(tmp_path / "nowhere", [], faults, code_refusal="") == []


def test_a_python_file_with_another_kind_of_graph_is_left_to_others(tmp_path: Path) -> None:
    written(tmp_path, "other.py", 'class Phases:\n    __module__ = "tenex.workflow.agents"\n')
    faults: list[str] = []
    assert find_workflows(tmp_path, [], faults, code_refusal="") == []
    assert not faults


def test_a_condition_of_ones_own_is_found_again_after_the_file_is_read_again(tmp_path: Path) -> None:
    shutil.copy(SHIPPED / "triage.py", tmp_path)
    first, second = read_workflow(tmp_path / "triage.py"), read_workflow(tmp_path / "triage.py")
    assert first is not None
    assert second is not None
    assert isinstance(second.workflow, Workflow)
    again = TransitionGraph.from_dict(second.workflow.graph.to_dict())
    assert again == second.workflow.graph


def test_a_number_alone_is_when_it_closes() -> None:
    workflow = Workflow(graph=GRAPH, expectations={"max_silence": 2, "turn_within": {"warn": 1}})
    assert workflow.within()["max_silence"] == Within(close=2_000)
    assert workflow.within()["turn_within"] == Within(warn=1_000), "what is set replaces the default whole"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Workflow(graph='x')", "`graph` is a str; it must be a TransitionGraph"),
        ("Workflow(graph=G, context=5)", "`context` must be a dict"),
        ("Workflow(graph=G, expectations=[1])", "`expectations` must be a dict"),
        ("Workflow(graph=G, participants=5)", "`participants` must be a list"),
        ("Workflow(graph=G, participants={'a', 'b'})", "`participants` must be a list"),
        ("TransitionGraph('a', [('a', 'b')])", "transitions[0] is a tuple; it must be a Transition"),
        ("TransitionGraph(None, G.transitions)", "initial_speaker must be the name"),
        ("TransitionGraph('a', [Transition(FromSpeaker(['a']), AgentTarget(['b']))])", "agent_id is ['b']; it must be"),
        ("TransitionGraph('a', [Transition(Not([FromSpeaker('a')]), AgentTarget('b'))])", "is no condition but list"),
    ],
)
def test_what_python_lets_pass_is_a_fault_and_no_crash(tmp_path: Path, text: str, said: str) -> None:
    head = "from tenex.workflow import *\nG = TransitionGraph.sequence(['a', 'b'])\n"
    assert said in faults_of(written(tmp_path, "x.py", f"{head}workflow = {text}\n"))


OWN = """
from dataclasses import dataclass
from typing import ClassVar
from tenex.workflow import *

@register_condition
@dataclass(frozen=True, slots=True)
class Mentions:
    name: ClassVar[str] = "own_of_test_definitions"
    def evaluate(self, state, envelope): return True

workflow = TransitionGraph("a", [Transition(Mentions(), AgentTarget("b"))])
"""


def test_two_files_that_register_one_name_are_a_fault_of_the_one_that_lost_it(tmp_path: Path) -> None:
    written(tmp_path, "first.py", OWN)
    written(tmp_path, "second.py", OWN)
    faults: list[str] = []
    find_workflows(tmp_path, [], faults, code_refusal="")
    (said,) = faults
    assert said.startswith(f"{tmp_path / 'first.py'}: ")
    assert "registers another class under a name" in said
