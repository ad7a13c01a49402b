"""Random graphs as AG2's users write them, and broken ones: each is usable, or disabled with a message."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenex.configuration.workflows import faults_here
from tenex.core.ids import Slug
from tenex.workflows.definitions import find_workflows
from tenex.workflows.speakers.fold import fold
from tenex.workflows.speakers.rounds import Envelope, Refused
from tenex.workflows.speakers.workflow import Workflow

from .sessions import NAMES, STRANGER, graphs

AGENTS = [Slug(name) for name in (*NAMES, STRANGER)]
QUIET = settings(max_examples=300, database=None, deadline=None, suppress_health_check=list(HealthCheck))

VALUES = [None, 0, -1, 2.5, True, "", "x", [], {}, [1], {"name": "always"}, {"name": 3}, "ann", ["ann"]]
JUNK = st.sampled_from([json.dumps(value) for value in VALUES]).map(json.loads)
"""Values of their own each time, since a document is changed in place."""


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A graph as AG2 writes it, with some of its values replaced, removed or added."""
    data: Any = json.loads(draw(graphs).dumps())
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
    folder.mkdir(exist_ok=True)
    (folder / "one.json").write_text(json.dumps(data))
    read = find_workflows(folder, []).without(lambda one: faults_here(one, AGENTS))
    if read.found:
        (usable,) = read.found
        assert isinstance(usable.workflow, Workflow)
        assert not read.disabled
        assert played(usable.workflow) >= 1
    else:
        (disabled,) = read.disabled
        assert disabled.slug == "one"
        assert disabled.faults
        assert all(sentence.startswith(disabled.source) for sentence in disabled.faults)
