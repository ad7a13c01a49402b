"""A workflow is read from TOML, JSON, a Python file or a module, with every fault named at once and its place."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tenex.core.errors import ConfigurationError
from tenex.workflows.definitions import LoadedWorkflows, find_workflows, read_workflow
from tenex.workflows.speakers import AgentTarget, FromSpeaker, Transition, TransitionGraph, Workflow
from tenex.workflows.speakers.config import DEFAULTS, Within

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
    path.write_text(text, errors="surrogateescape")
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


def workflow_of(source: Path | str) -> Workflow:
    """The workflow of speakers a file holds."""
    found = read_workflow(source)
    assert found is not None
    assert isinstance(found.workflow, Workflow)
    return found.workflow


def test_a_graph_that_ag2_wrote_is_a_workflow_of_everybody_it_names(tmp_path: Path) -> None:
    found = workflow_of(written(tmp_path, "two_of_us.json", GRAPH.dumps()))
    assert (found.everybody, found.graph) == (("a", "b"), GRAPH)
    assert found.within() == DEFAULTS


def test_toml_and_json_have_the_same_and_a_number_alone_is_when_it_closes(tmp_path: Path) -> None:
    expectations = {"ttl": 60, "turn_within": {"warn": 1}}
    table = {"participants": ["a", "b", "person"], "context": {"n": 1}, "expectations": expectations, "view": "full"}
    as_json = written(tmp_path, "one.json", "\ufeff" + json.dumps({**GRAPH.to_dict(), "workflow": table}))
    text = '[workflow]\nparticipants = ["a", "b", "person"]\nview = "full"\ncontext.n = 1\nexpectations.ttl = 60\n'
    as_toml = written(tmp_path, "two.toml", f"{TOML}{text}expectations.turn_within.warn = 1\n")
    one, two = workflow_of(as_json), workflow_of(as_toml)
    assert one == two
    assert one.within()["ttl"] == Within(close=60_000)
    assert one.within()["turn_within"] == Within(warn=1_000), "what is set replaces the default whole"


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


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.toml", 'initial_speaker = "a"\nmax_turns = = 1\n', "This is no TOML: Invalid value (at line 2, column"),
        ("a.toml", "x = " + "9" * 5_000, "This TOML is nested too deeply or holds a number that is too long."),
        ("a.toml", "initial_speaker = 5\n", "initial_speaker must be the name of who speaks first."),
        ("a.json", '{"initial_speaker": "a",\n}', "This is no JSON: "),
        ("a.json", '{"initial_speaker":\n"\udcff"}', "line 2 is not UTF-8; save the file as UTF-8."),
        ("a.json", "\udcff\udcfe{\0}\0", "is UTF-16; save the file as UTF-8."),
        ("a.toml", "a\0b", "holds a NUL in line 1; save the file as UTF-8 text."),
        ("a.json", " " * 1_048_577, "is larger than 1048576 bytes"),
        ("a.toml", 'round_robin = ["a", "b"]\ninitial_speaker = "a"\n', "there may be max_turns, not initial_speaker"),
        ("a.toml", "round_robin = [1, 2]\n", "round_robin: participants[0] is an int; it must be a name"),
        ("a.toml", "round_robin = 5\n", "round_robin needs its participants as a list of names"),
        ("a.toml", "[star]\nspokes = ['a']\n", "star takes center, spokes, max_turns, and has spokes"),
        ("a.toml", "sequence = []\n", "sequence needs at least one of its steps"),
        ("a.toml", 'round_robin = ["a", "b"]\nmax_turns = "x"\n', "max_turns is 'x'"),
        ("a.json", {"colour": 1}, "unknown keys: colour"),
        ("a.json", {"participants": "a"}, "must be a list"),
        ("a.json", {"context": []}, "`workflow.context` must be a table"),
        ("a.json", {"expectations": 3}, "`workflow.expectations` must be a table"),
        ("a.json", {"name": 3}, "`name` must be a text"),
        ("a.json", [], "must be a table"),
        ("person.json", GRAPH.dumps(), "cannot be the name"),
        ("a b.json", GRAPH.dumps(), "cannot be the name"),
    ],
)
def test_a_wrong_file_is_reported_with_its_place(tmp_path: Path, name: str, content: object, expected: str) -> None:
    if not isinstance(content, str):
        content = json.dumps({**GRAPH.to_dict(), "workflow": content})
    assert expected in faults_of(written(tmp_path, name, content))


PAIR = 'TransitionGraph.sequence(["a", "b"])'
HEAD = "from tenex.workflows.speakers import *\n"


@pytest.mark.parametrize(
    "text",
    [f"graph = {PAIR}", f"workflow = Workflow(graph={PAIR})", f"anything = {PAIR}", f"x = {PAIR}\ngraph = {PAIR}"],
)
def test_a_python_file_holds_a_workflow_or_a_graph(tmp_path: Path, text: str) -> None:
    assert workflow_of(written(tmp_path, "of_mine.py", HEAD + text)).everybody == ("a", "b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"x = {PAIR}\ny = {PAIR}", "x.py: it is ambiguous which of x, y is meant"),
        ("1 / 0", "x.py: it failed while it was loaded: line 2: ZeroDivisionError"),
        ("", "x.py: it holds no workflow; give one to a variable `workflow` or `graph`."),
        ("graph = TransitionGraph.round_robin([])", "round_robin needs at least one"),
        ("workflow = Workflow(graph='x')", "`graph` is a str; it must be a TransitionGraph"),
        (f"workflow = Workflow(graph={PAIR}, context=5)", "`context` must be a dict"),
        (f"workflow = Workflow(graph={PAIR}, expectations=[1])", "`expectations` must be a dict"),
        (f"workflow = Workflow(graph={PAIR}, participants=5)", "`participants` must be a list"),
        (f"workflow = Workflow(graph={PAIR}, participants={{'a', 'b'}})", "`participants` must be a list"),
        ("graph = TransitionGraph('a', [('a', 'b')])", "transitions[0] is a tuple; it must be a Transition"),
        ("graph = TransitionGraph(None)", "initial_speaker must be the name"),
        ("graph = TransitionGraph('a', [Transition(Always(), AgentTarget(['b']))])", "agent_id is ['b']; it must be"),
        ("graph = TransitionGraph('a', [Transition(Not([Always()]), StayTarget())])", "is no condition but list"),
    ],
)
def test_what_is_wrong_in_a_python_file_is_a_fault_and_no_crash(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in faults_of(written(tmp_path, "x.py", HEAD + text))


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
    (tmp_path / "dir.json").mkdir()
    written(tmp_path, "_not_read.py", "1 / 0")
    written(tmp_path, "notes.md", "nothing")
    read = find_workflows(tmp_path, [str(tmp_path / "one.json"), "no.such:thing", "no.such:thing"])
    expected = "\n".join(read.faults)
    assert [one.slug for one in read.disabled] == ["bad", "dir", "one", "one", "worse", "thing"]
    for part in (
        "bad.toml: This is no TOML",
        "worse.json: This is no JSON",
        "dir.json cannot be read: Is a directory. Check the path and its rights.",
        "is called one too",
        "no module no",
    ):
        assert part in expected
    assert find_workflows(tmp_path / "nowhere", []) == LoadedWorkflows()


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
def test_a_file_of_conditions_serves_the_others_in_any_order_and_is_read_again(tmp_path: Path, name: str) -> None:
    written(tmp_path, "imports.py", f"from {name} import Late\n{USES}")
    written(tmp_path, "names.toml", NAMES_LATE)
    written(tmp_path, "reads.py", READS)
    for verdict in (True, False):  # as at a start, and at a reload
        written(tmp_path, f"{name}.py", CONDITIONS.replace("return True", f"return {verdict}"))
        read = find_workflows(tmp_path, [])
        assert read.faults == ()
        assert [one.slug for one in read.found] == ["imports", "names", "reads"]
        assert read.others == (str(tmp_path / f"{name}.py"),)
        imports: Any = read.found[0].workflow
        assert imports.graph.transitions[0].when.evaluate(None, None) is verdict


@pytest.mark.usefixtures("fresh_default")
def test_two_files_that_register_one_name_are_a_fault_of_the_one_that_lost_it(tmp_path: Path) -> None:
    for name in ("first", "second"):
        written(tmp_path, f"{name}.py", CONDITIONS + USES)
    read = find_workflows(tmp_path, [])
    (expected,) = read.faults
    assert [one.slug for one in read.found] == ["second"]
    assert expected.startswith(f"{tmp_path / 'first.py'}: ")
    assert "registers another class under a name" in expected


@pytest.mark.usefixtures("fresh_default")
def test_conditions_come_from_packages_too(tmp_path: Path, package: Path) -> None:
    written(package, "conditions.py", CONDITIONS)
    written(package, "flows.py", f"from .conditions import Late\n{USES}")
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
    written(tmp_path, "imports.py", f"from conditions import Late\n{USES}")
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
