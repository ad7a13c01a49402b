"""Random graphs as AG2's users write them, and broken ones: each is usable, or disabled with a message."""

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.configuration.workflows import load_workflows
from tenex.core.ids import Slug
from tenex.core.workflow.rounds import Envelope, Refused
from tenex.core.workflow.speakers import fold
from tenex.settings import load, resolve_paths
from tenex.workflows.speakers import TransitionGraph
from tenex.workflows.speakers.definitions import LoadedWorkflows
from tenex.workflows.speakers.workflow import Workflow

from .ag2 import AG2
from .sessions import NAMES, STRANGER, case, graphs, round_of

AGENTS = [Slug(name) for name in (*NAMES, STRANGER)]
QUIET = settings(max_examples=300, database=None, deadline=None, suppress_health_check=list(HealthCheck))

VALUES = [None, 0, -1, 2.5, True, "", "x", [], {}, [1], {"name": "always"}, {"name": 3}, "ann", ["ann"]]
JUNK = st.sampled_from([json.dumps(value) for value in VALUES]).map(json.loads)
"""Values of their own each time, since a document is changed in place."""


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A graph as AG2 writes it, with some of its values replaced, removed or added."""
    data: Any = json.loads(draw(graphs()).dumps())
    if draw(st.booleans()):
        data["workflow"] = {"participants": draw(st.lists(st.sampled_from(AGENTS), max_size=5))}
    for _ in range(draw(st.integers(0, 2))):
        part = data
        while isinstance(part, dict | list) and part:
            keys = [*part] if isinstance(part, dict) else [*range(len(part))]
            key = draw(st.sampled_from(keys))
            if not isinstance(part[key], dict | list) or not part[key] or draw(st.booleans()):
                break
            part = part[key]
        else:
            continue
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                part[key] = draw(JUNK)
            case "remove":
                del part[key]
            case _ if isinstance(part, dict):
                part["colour"] = draw(JUNK)
    return data


def read(folder: Path, files: dict[str, str]) -> LoadedWorkflows:
    """What a daemon makes of a folder with these files."""
    chosen = load(None, folder, env={})
    where = resolve_paths(chosen)
    where.workflows.mkdir(parents=True, exist_ok=True)
    for path in where.workflows.iterdir():
        path.unlink()
    for name, text in files.items():
        (where.workflows / name).write_text(text)
    return load_workflows(chosen, where, AGENTS)


def played(workflow: Workflow) -> int:
    """How many rounds a usable workflow takes, up to five."""
    graph, state = workflow.graph.begin(workflow.everybody)
    for number in range(5):
        if state.expected_next_speaker is None:
            return number
        folded = fold(graph, state, Envelope(state.expected_next_speaker, "expected"))
        assert not isinstance(folded, Refused)
        state = folded.state
    return 5


@given(documents())
@QUIET
def test_whatever_a_file_holds_the_workflow_is_usable_or_disabled_with_a_message(
    tmp_path_factory: Any, data: Any
) -> None:
    folder = tmp_path_factory.getbasetemp() / "random"
    found = read(folder, {"one.json": json.dumps(data)})
    if found.found:
        (usable,) = found.found
        assert isinstance(usable.workflow, Workflow)
        assert not found.disabled
        assert played(usable.workflow) >= 1
    else:
        (disabled,) = found.disabled
        assert disabled.slug == "one"
        assert disabled.faults
        assert all(sentence.startswith(disabled.source) for sentence in disabled.faults)


def test_what_ag2_accepts_is_usable(ag2: AG2, tmp_path: Path) -> None:
    seen = {"accepted": 0, "refused": 0}

    @given(graphs(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    @QUIET
    def compare(graph: TransitionGraph, participants: list[str]) -> None:
        theirs = ag2.play(case(graph, participants, [round_of()]))
        data = {**graph.to_dict(), "workflow": {"participants": participants}}
        ours = read(tmp_path, {"one.json": json.dumps(data)})
        seen["refused" if "error" in theirs else "accepted"] += 1
        assert bool(ours.found) == ("error" not in theirs), (ours.faults, theirs)

    compare()
    assert min(seen.values()) > 20, seen
