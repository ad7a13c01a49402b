"""A workflow is read from TOML, JSON, a Python file or a module, with every fault named at once and its place."""

import json
import re
import tomllib
from pathlib import Path
from uuid import uuid4

import pytest

from tenex.core.errors import ConfigurationError
from tenex.core.workflow_config import DEFAULTS, Within
from tenex.workflows.speakers import AgentTarget, FromSpeaker, Transition, TransitionGraph, Workflow
from tenex.workflows.speakers.definitions import LoadedWorkflows, find_workflows, read_workflow

SHIPPED = Path(__file__).parents[2] / "config" / "workflows"
GRAPH = TransitionGraph("a", [Transition(FromSpeaker("a"), AgentTarget("b"))])
TOML = """
initial_speaker = "a"
[[transitions]]
when = { name = "from_speaker", args = { agent_id = "a" } }
then = { name = "agent", args = { agent_id = "b" } }
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def faults_of(source: Path | str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        read_workflow(source)
    assert all(str(source) in sentence for sentence in refused.value.faults)
    return " ".join(refused.value.faults)


def test_the_shipped_examples_are_read_without_a_fault_or_a_doubt() -> None:
    read = find_workflows(SHIPPED, [])
    found = {str(one.slug): one.workflow for one in read.found}
    assert read.faults == ()
    assert {"draft-and-review", "mission", "triage"} <= found.keys()
    assert found["draft-and-review"].everybody == ("planner", "security-expert", "executor")
    assert [one.warnings for one in read.found] == [()] * len(found)


def test_a_graph_that_ag2_wrote_is_a_workflow_of_everybody_it_names(tmp_path: Path) -> None:
    found = read_workflow(written(tmp_path, "two_of_us.json", GRAPH.dumps()))
    assert found is not None
    assert isinstance(found.workflow, Workflow)
    assert (found.slug, found.workflow.everybody, found.workflow.graph) == ("two-of-us", ("a", "b"), GRAPH)
    assert found.workflow.within() == DEFAULTS


def workflow_of(source: Path | str) -> Workflow:
    """The workflow of speakers a file holds."""
    found = read_workflow(source)
    assert found is not None
    assert isinstance(found.workflow, Workflow)
    return found.workflow


def test_toml_and_json_have_the_same(tmp_path: Path) -> None:
    table = {"participants": ["a", "b", "person"], "context": {"n": 1}, "expectations": {"ttl": 60}, "view": "full"}
    as_json = written(tmp_path, "one.json", "\ufeff" + json.dumps({**GRAPH.to_dict(), "workflow": table}))
    text = '[workflow]\nparticipants = ["a", "b", "person"]\nview = "full"\ncontext.n = 1\nexpectations.ttl = 60\n'
    one, two = workflow_of(as_json), workflow_of(written(tmp_path, "two.toml", TOML + text))
    assert one == two
    assert one.within()["ttl"] == Within(close=60_000)


def test_every_fault_of_a_file_is_named_at_once(tmp_path: Path) -> None:
    table = {"participants": ["a", "a"], "expectations": {"soon": 1, "ttl": -1}, "view": "half"}
    expected = faults_of(written(tmp_path, "x.json", json.dumps({**GRAPH.to_dict(), "workflow": table})))
    for part in ("`view` is 'half'", "no expectation 'soon'", "expectations.ttl", "two participants or more"):
        assert part in expected
    graph = {**GRAPH.to_dict(), "max_turns": "0"}
    for other, fault in (({"view": "half"}, "`view` is 'half'"), ({"colour": 1}, "unknown keys: colour")):
        expected = faults_of(written(tmp_path, "x.json", json.dumps({**graph, "workflow": other})))
        assert "max_turns is '0'" in expected
        assert fault in expected


def with_table(table: object) -> str:
    return json.dumps({**GRAPH.to_dict(), "workflow": table})


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.toml", 'initial_speaker = "a"\nmax_turns = = 1\n', "This is no TOML: Invalid value (at line 2, column"),
        ("a.toml", "x = " + "9" * 5_000, "This TOML is nested too deeply or holds a number that is too long."),
        ("a.toml", "initial_speaker = 5\n", "initial_speaker must be the name of who speaks first."),
        ("a.json", '{"initial_speaker": "a",\n}', "This is no JSON: "),
        ("a.json", b'{"initial_speaker":\n"\xff"}', "line 2 is not UTF-8; save the file as UTF-8."),
        ("a.json", " " * 1_048_577, "is larger than 1048576 bytes"),
        ("a.json", None, "cannot be read: Is a directory. Check the path and its rights."),
        ("a.json", with_table({"colour": 1}), "unknown keys: colour"),
        ("a.json", with_table({"participants": "a"}), "must be a list"),
        ("a.json", with_table({"context": []}), "`workflow.context` must be a table"),
        ("a.json", with_table({"expectations": 3}), "`workflow.expectations` must be a table"),
        ("a.json", with_table({"name": 3}), "`name` must be a text"),
        ("a.json", with_table([]), "must be a table"),
        ("a.toml", 'round_robin = ["a", "b"]\ninitial_speaker = "a"\n', "there may be max_turns, not initial_speaker"),
        ("a.toml", "round_robin = [1, 2]\n", "participants must be a list of names"),
        ("a.toml", "round_robin = 5\n", "round_robin cannot be made of that"),
        ("a.toml", "[star]\nspokes = ['a']\n", "star cannot be made of that"),
        ("a.toml", "sequence = []\n", "sequence needs at least one of its steps"),
        ("a.toml", 'round_robin = ["a", "b"]\nmax_turns = "x"\n', "max_turns is 'x'"),
        ("person.json", GRAPH.dumps(), "cannot be the name"),
        ("a b.json", GRAPH.dumps(), "cannot be the name"),
    ],
)
def test_a_wrong_file_is_reported_with_its_place(
    tmp_path: Path, name: str, content: str | bytes | None, expected: str
) -> None:
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    assert expected in faults_of(path)


def test_a_python_file_holds_a_workflow_or_a_graph(tmp_path: Path) -> None:
    head = "from tenex.workflows.speakers import TransitionGraph, Workflow\n"
    graph = 'TransitionGraph.sequence(["a", "b"])'
    for name, text in (
        ("graph", f"graph = {graph}"),
        ("workflow", f"workflow = Workflow(graph={graph})"),
        ("only", f"anything = {graph}"),
        ("named", f"first = {graph}\ngraph = {graph}"),
    ):
        found = read_workflow(written(tmp_path, f"{name}.py", head + text))
        assert found is not None
        assert (found.slug, found.workflow.everybody) == (name, ("a", "b"))
    assert "it is ambiguous which of x, y is meant" in faults_of(
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


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package on the path of modules."""
    folder = tmp_path / f"flows_{uuid4().hex}"
    folder.mkdir()
    written(folder, "__init__.py", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_a_module_is_named_with_its_variable(package: Path) -> None:
    text = 'from tenex.workflows.speakers import TransitionGraph\nmine = graph = TransitionGraph.sequence(["a", "b"])\n'
    written(package, "of_mine.py", text)
    module = f"{package.name}.of_mine"
    named, generic = read_workflow(f"{module}:mine"), read_workflow(f"{module}:graph")
    assert named is not None
    assert generic is not None
    assert (named.slug, generic.slug) == ("mine", "of-mine")
    assert "has no other. The graphs there: mine, graph." in faults_of(f"{module}:other")
    assert "is a str and no workflow" in faults_of(f"{module}:__name__")


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        (None, "none:graph", "there is no module"),
        ("import nothing_of_that_name", "one:graph", "one needs nothing_of_that_name, which is not installed."),
        ("raise LookupError('not set up')", "one:graph", "failed while it was imported: LookupError: not set up"),
        ("def :", "one:graph", "failed while it was imported: SyntaxErr"),
        ("x = 1", "one:graph", "has no graph. There is no graph there."),
        ("x = 1", "one:a b", "is not of the form package.module:name"),
        ("x = 1", "o ne", "is neither a module nor of the form"),
    ],
)
def test_a_module_that_is_wrong_is_reported(package: Path, text: str | None, reference: str, expected: str) -> None:
    if text is not None:
        written(package, "one.py", text + "\n")
    assert expected in faults_of(f"{package.name}.{reference}")


def test_a_folder_is_read_whole_and_its_faults_are_gathered(tmp_path: Path) -> None:
    written(tmp_path, "one.json", GRAPH.dumps())
    written(tmp_path, "one.toml", TOML)
    written(tmp_path, "bad.toml", "initial_speaker =")
    written(tmp_path, "worse.json", "{")
    written(tmp_path, "_not_read.py", "1 / 0")
    written(tmp_path, "notes.md", "nothing")
    read = find_workflows(tmp_path, ["no.such:thing"])
    expected = "\n".join(read.faults)
    assert [one.slug for one in read.disabled] == ["bad", "one", "one", "worse", "thing"]
    for part in ("bad.toml: This is no TOML", "worse.json: This is no JSON", "is called one too", "no module no"):
        assert part in expected
    assert find_workflows(tmp_path / "nowhere", []) == LoadedWorkflows()


def test_a_python_file_without_a_workflow_is_loaded_and_is_none(tmp_path: Path) -> None:
    path = written(tmp_path, "other.py", "def helper(): ...\n")
    assert find_workflows(tmp_path, []) == LoadedWorkflows(others=(str(path),))


def test_a_number_alone_is_when_it_closes() -> None:
    workflow = Workflow(graph=GRAPH, expectations={"max_silence": 2, "turn_within": {"warn": 1}})
    assert workflow.within()["max_silence"] == Within(close=2_000)
    assert workflow.within()["turn_within"] == Within(warn=1_000), "what is set replaces the default whole"


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_what_python_lets_pass_is_a_fault_and_no_crash(tmp_path: Path, text: str, expected: str) -> None:
    head = "from tenex.workflows.speakers import *\nG = TransitionGraph.sequence(['a', 'b'])\n"
    assert expected in faults_of(written(tmp_path, "x.py", f"{head}workflow = {text}\n"))


OWN = """
from dataclasses import dataclass
from typing import ClassVar
from tenex.workflows.speakers import *

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
    read = find_workflows(tmp_path, [])
    (expected,) = read.faults
    assert [one.slug for one in read.found] == ["second"]
    assert expected.startswith(f"{tmp_path / 'first.py'}: ")
    assert "registers another class under a name" in expected


CONDITIONS = """
from dataclasses import dataclass
from typing import ClassVar
from tenex.workflows.speakers import register_condition

@register_condition
@dataclass(frozen=True, slots=True)
class Late:
    name: ClassVar[str] = "late_of_test_definitions"
    def evaluate(self, state, envelope): return True
"""
USES = """
from {where} import Late
from tenex.workflows.speakers import AgentTarget, Transition, TransitionGraph
graph = TransitionGraph("a", [Transition(Late(), AgentTarget("b"))])
"""
NAMES_LATE = TOML.replace(
    '{ name = "from_speaker", args = { agent_id = "a" } }', '{ name = "late_of_test_definitions" }'
)
READS = f"""
import tomllib
from tenex.workflows.speakers import TransitionGraph
graph = TransitionGraph.from_dict(tomllib.loads({NAMES_LATE!r}))
"""


@pytest.mark.usefixtures("fresh_default")
@pytest.mark.parametrize("name", ["a_conditions", "z_conditions"])
def test_a_file_that_only_registers_conditions_serves_the_others_in_any_order(tmp_path: Path, name: str) -> None:
    written(tmp_path, f"{name}.py", CONDITIONS)
    written(tmp_path, "imports.py", USES.format(where=name))
    written(tmp_path, "names.toml", NAMES_LATE)
    written(tmp_path, "reads.py", READS)
    for _ in range(2):  # as at a start, and at a reload
        read = find_workflows(tmp_path, [])
        assert read.faults == ()
        assert [one.slug for one in read.found] == ["imports", "names", "reads"]
        assert read.others == (str(tmp_path / f"{name}.py"),)


@pytest.mark.usefixtures("fresh_default")
def test_a_changed_file_of_conditions_is_read_again_by_those_that_import_it(tmp_path: Path) -> None:
    written(tmp_path, "conditions.py", CONDITIONS)
    written(tmp_path, "imports.py", USES.format(where="conditions"))
    find_workflows(tmp_path, [])
    written(tmp_path, "conditions.py", CONDITIONS.replace("return True", "return False"))
    (found,) = find_workflows(tmp_path, []).found
    assert isinstance(found.workflow, Workflow)
    assert not found.workflow.graph.transitions[0].when.evaluate(None, None)  # type: ignore[arg-type]


@pytest.mark.usefixtures("fresh_default")
def test_conditions_come_from_packages_too(tmp_path: Path, package: Path) -> None:
    written(package, "conditions.py", CONDITIONS)
    written(package, "flows.py", USES.format(where=".conditions"))
    folder = tmp_path / "workflows"
    folder.mkdir()
    written(folder, "names.toml", NAMES_LATE)
    read = find_workflows(folder, [f"{package.name}.flows:graph", f"{package.name}.conditions"])
    assert read.faults == ()
    assert [one.slug for one in read.found] == ["names", "flows"]
    (found,) = find_workflows(tmp_path / "none", [f"{package.name}.flows"]).found
    assert found.slug == "flows"


def test_a_fault_in_an_imported_file_is_reported_of_both_files(tmp_path: Path) -> None:
    written(tmp_path, "conditions.py", "1 / 0")
    written(tmp_path, "imports.py", USES.format(where="conditions"))
    read = find_workflows(tmp_path, [])
    assert [one.slug for one in read.disabled] == ["conditions", "imports"]
    assert all("conditions.py: it failed while it was loaded: line 1: ZeroDivision" in one for one in read.faults)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ('round_robin = ["a", "b", "c"]\nmax_turns = 6\n', ("a", "b", "c")),
        ('sequence = ["a", "b", "c"]\n', ("a", "b", "c")),
        ('[star]\ncenter = "a"\nspokes = ["b", "c"]\nmax_turns = 9\n', ("a", "b", "c")),
        ('[feedback_loop]\nworker = "b"\ncritic = "a"\n', ("b", "a")),
        ('[triage]\ntriage = "a"\nroutes = { code = "b" }\n', ("a", "b")),
    ],
)
def test_a_factory_is_written_in_a_line_that_names_everybody_once(
    tmp_path: Path, text: str, order: tuple[str, ...]
) -> None:
    found = workflow_of(written(tmp_path, "one.toml", text))
    assert found.everybody == order
    assert TransitionGraph.from_dict(found.graph.to_dict()) == found.graph
    assert workflow_of(written(tmp_path, "two.json", json.dumps(tomllib.loads(text)))) == found


def test_keys_that_ag2_passes_over_are_doubts(tmp_path: Path) -> None:
    rule = {"when": {"name": "always", "arg": {}}, "then": {"name": "agent", "args": {"agent_id": "b"}}, "note": "x"}
    data = {"initial_speaker": "a", "transitions": [rule], "turns": 3}
    found = read_workflow(written(tmp_path, "one.json", json.dumps(data)))
    assert found is not None
    expected = "\n".join(found.warnings)
    for where, key in (("The graph", "turns"), ("transitions[0]", "note"), ("transitions[0].when", "arg")):
        assert f"{where} has unknown keys, which do nothing: {key}." in expected


def test_the_line_of_the_documents_is_a_round_robin(tmp_path: Path) -> None:
    page = (SHIPPED.parents[1] / "docs" / "workflows.md").read_text()
    (text,) = re.findall(r"```toml\n(round_robin.*?)```", page, re.DOTALL)
    found = workflow_of(written(tmp_path, "one.toml", text))
    assert found.everybody == ("planner", "executor", "security-expert")


def test_a_workflow_that_is_named_twice_is_one(tmp_path: Path) -> None:
    path = written(tmp_path, "one.json", GRAPH.dumps())
    read = find_workflows(tmp_path, [str(path), "no.such:thing", "no.such:thing"])
    assert [one.slug for one in read.found] == ["one"]
    assert [one.slug for one in read.disabled] == ["thing"]
