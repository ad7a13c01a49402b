"""A module with a mission is a workflow: how it begins of a message, what it needs, and every fault by name."""

import dataclasses
import itertools
import os
import time
from pathlib import Path

import pytest

from tenex.core.errors import ConfigurationError, UsageError
from tenex.core.ids import PublicKey, Slug
from tenex.workflows.definitions import find_workflows, read_workflow
from tenex.workflows.missions.definitions import MissionWorkflow, Starting

from .mission_kit import EXAMPLE, alone, documented, play

HEAD = '''"""Counts things.

More of it.
"""
from dataclasses import dataclass
from pathlib import Path
from pydantic import BaseModel
from tenex.workflows.missions import BaseNode, Dependency, End, Graph, GraphRunContext

class State(BaseModel):
    current_phase: str = ""
    note: str = ""
    topic: str
    many: int = 1

@dataclass
class First(BaseNode[State, None, int]):
    async def run(self, ctx: GraphRunContext[State, None]) -> End[int]:
        return End(1)

@dataclass
class Asked(First):
    number: int

@dataclass
class Needy(First):
    office: Dependency[Path]
'''
PLAIN = f"{HEAD}\ngraph = Graph(nodes=(First,), state_type=State)\n"


def written(folder: Path, text: str, name: str = "counts.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def mission_of(path: Path) -> MissionWorkflow:
    found = read_workflow(path)
    assert found is not None
    assert isinstance(found.workflow, MissionWorkflow)
    return found.workflow


def faults_of(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_workflow(path)
    assert all(fault.startswith(str(path)) for fault in caught.value.faults)
    return "\n".join(caught.value.faults)


def test_a_module_with_a_graph_is_a_workflow_called_after_its_file(tmp_path: Path) -> None:
    written(tmp_path, PLAIN)
    read = find_workflows(tmp_path, [])
    (found,) = read.found
    assert (read.faults, found.slug) == ((), "counts")
    assert isinstance(found.workflow, MissionWorkflow)
    rule = found.workflow.rule(found.slug, PublicKey("a" * 64))
    assert (rule.pubkey, rule.about, list(rule.nodes)) == ("a" * 64, "Counts things.", ["First"])


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("begin = 3\ngraph = Graph(nodes=(Needy,), state_type=State)", "`begin` is a int"),
        ("async def begin(message): ...", "`begin` is async"),
        ("def begin(message, other): ...", "`begin` takes 2 parameters"),
        ("def deps(folder): ...", "`deps` takes folder; it may take `workspace`"),
        ("async def deps(): ...", "`deps` is async"),
        ("graph = Graph(nodes=(Asked,), state_type=State)", "Asked is where it begins, so its fields need defaults"),
        ("graph = Graph(nodes=(Needy,), state_type=State)", "its nodes need office, and nothing makes them"),
        ("graph = Graph(nodes=(First,), state_type=State, deps_type=Path)", "its nodes need Path"),
        ("graph = Graph(nodes=(), state_type=State)", "it has no nodes"),
        ("graph = None\none = two = Graph(nodes=(First,), state_type=State)", "is ambiguous which of one, two"),
    ],
)
def test_what_is_wrong_is_named_with_the_file_and_what_to_do(tmp_path: Path, more: str, expected: str) -> None:
    assert expected in faults_of(written(tmp_path, f"{PLAIN}\n{more}\n"))


def starting(path: Path) -> Starting:
    """What begins the mission of a file."""
    return Starting(Slug("counts"), mission_of(path))


NPUB = "nostr:npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg"


@pytest.mark.parametrize(
    ("text", "topic", "many"),
    [
        ("@counts  apples", "apples", 1),
        (f"{NPUB}: apples", "apples", 1),
        ("apples @counts", "apples", 1),
        ("@Counts, @counts apples and @others", "apples and @others", 1),
        ("@counts-two x", "@counts-two x", 1),
        ('@counts {"topic": "pears", "many": 4}', "pears", 4),
        ('Please, with these:\n```json\n{"topic": "pears", "many": "4"}\n```\nThanks.', "pears", 4),
        ("a {b} c", "a {b} c", 1),
        ("line\n\nline", "line\n\nline", 1),
    ],
)
def test_a_message_becomes_the_state(tmp_path: Path, text: str, topic: str, many: int) -> None:
    found = starting(written(tmp_path, PLAIN))(text)
    assert found.node == "First"
    assert found.state == {"current_phase": "", "note": "", "topic": topic, "many": many}


@pytest.mark.parametrize(
    ("body", "text", "expected"),
    [
        ("", "@counts", "`topic`: field required. It takes a JSON object with note, topic, many."),
        ("", '{"topic": "x", "many": "few"}', "`many`: input should be a valid integer"),
        ("", '{"topic": "x", "colour": 1}', "It has no field colour."),
        ("", '{"topic": ', "The JSON cannot be read: Expecting value: line 1"),
        ("", '{"topic": "\\ud800"}', "half a character"),
        ("", '{"topic":' + "[" * 100_000, "The JSON is nested too deep"),
        ("", '{"topic": "x", "many": ' + "9" * 5_000 + "}", "The JSON cannot be read"),
        ("raise ValueError('say how many')", "x", "say how many."),
        ("return State(many='few')", "x", "field required"),
        ("return 3", "x", "The author of its code has to fix that."),
        ("return None", "x", "The author of its code has to fix that."),
        ("return Asked(number='one'), State(topic=message)", "x", "is no node of the workflow"),
    ],
)
def test_what_a_mission_cannot_begin_with_is_refused_with_a_sentence(
    tmp_path: Path, body: str, text: str, expected: str
) -> None:
    """By what it makes of a message itself, or by its author's `begin`."""
    begin = f"def begin(message):\n    {body}\n" if body else ""
    with pytest.raises(UsageError) as caught:
        starting(written(tmp_path, f"{PLAIN}\n{begin}"))(text)
    assert expected in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("text", [f"apples {'@counts ' * 40}x", f"apples{' ' * 60_000}x"], ids=["mentions", "spaces"])
def test_no_message_holds_up_the_daemon(tmp_path: Path, text: str) -> None:
    """It is read where all conversations are; one that took minutes would be received again after each restart."""
    begin = starting(written(tmp_path, PLAIN))
    began = time.monotonic()
    assert begin(text).state["topic"] == text
    assert time.monotonic() - began < 10


def test_it_may_begin_at_another_node_with_fields(tmp_path: Path) -> None:
    graph = "graph = Graph(nodes=(Asked,), state_type=State)"
    begin = "def begin(message):\n    return Asked(number=len(message)), State(topic=message)"
    found = starting(written(tmp_path, f"{HEAD}\n{graph}\n{begin}\n"))("@counts four")
    assert (found.node, found.data, found.state["topic"]) == ("Asked", {"number": 4}, "four")


def test_a_file_is_read_again_though_it_is_as_old_and_as_long_as_before(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    os.utime(path, (1, 1))
    assert list(mission_of(path).graph.rule().nodes) == ["First"]
    written(tmp_path, PLAIN.replace("First", "Other"))
    os.utime(path, (1, 1))
    assert list(mission_of(path).graph.rule().nodes) == ["Other"]


@dataclasses.dataclass
class Same:
    many: int
    words: str = ""


def test_a_dataclass_is_a_state_like_any_other_and_none_begins_of_any_text() -> None:
    assert Starting(Slug("m"), MissionWorkflow(graph=alone()))("@m whatever").state == {}
    begins = Starting(Slug("m"), MissionWorkflow(graph=alone(state_type=Same)))
    assert begins('{"many": 2}').state == {"many": 2, "words": ""}
    with pytest.raises(UsageError, match="many"):
        begins("words alone")


def test_dependencies_are_made_again_each_time_with_the_workspace_where_they_want_it(tmp_path: Path) -> None:
    made = itertools.count(1)
    make = MissionWorkflow(graph=alone(), deps=lambda: next(made)).make_deps(tmp_path)
    assert [make(), make()] == [1, 2]
    assert MissionWorkflow(graph=alone(), deps=lambda workspace: workspace).make_deps(tmp_path)() == tmp_path
    assert MissionWorkflow(graph=alone()).make_deps(tmp_path)() is None


def test_the_shipped_mission_begins_of_its_topic(tmp_path: Path) -> None:
    begins = Starting(Slug("mission"), mission_of(EXAMPLE))
    assert begins("@mission curve fitting").state["topic"] == "curve fitting"
    with pytest.raises(UsageError, match="Say what the competition shall be about"):
        begins("@mission")


def test_the_example_of_the_documents_runs(tmp_path: Path) -> None:
    mission = mission_of(written(tmp_path, documented("Finds"), "digest.py"))
    (tmp_path / "a.md").write_text("of apples")
    state = mission.graph.load_state(Starting(Slug("digest"), mission)("@digest apples").state)
    result = play(mission.graph, state=state, deps=mission.make_deps(tmp_path)())
    assert result.output == "1 notes are in digest.md"
    assert result.state.phases_completed == ["find", "write"]
    assert (tmp_path / "digest.md").read_text() == "a.md"
