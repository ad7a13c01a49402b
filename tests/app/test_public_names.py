"""What users' code imports from `tenex`: every name of the list, and a model by its name."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tenex
from tenex import BaseAgent, get_model
from tenex.core.errors import ConfigurationError
from tenex.workflows import agents, missions, speakers
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import KEY, model_server
from tests.service.kit import ROOT

DOCUMENTED = {
    "TENEX": "ConversationCoordinator Conversation Phase PHASE_TRANSITIONS PhaseTransition RoutingDecision "
    "OrchestratorTurn ExecutionContext",
    "AG2": "TransitionGraph Transition TransitionCondition TransitionTarget AgentTarget RoundRobinTarget StayTarget "
    "RevertToInitiatorTarget TerminateTarget Always FromSpeaker ToolCalled ContextEquals AllOf AnyOf ContextIn "
    "ContextThreshold TransitionDecision WorkflowState Envelope Handoff register_condition register_target set_context",
    "Proxy Base Agent": "AgentState StateMachine FencedFreeformStateMachine JsonStateMachine EncapsulatedStateMachine "
    "PythonStateMachine AgentStateMachine Thinking Scratchpad InnerMonologue ToolCallState Python",
    "pyagentic": "BaseAgent tool spec Link State AgentLink",
    "pydantic-graph": "BaseNode End Graph GraphRunContext",
}
"""Names that the documents of other systems use, and that this program has under the same name."""


@pytest.mark.parametrize("system", DOCUMENTED)
def test_names_of_other_systems_documents_are_imported_from_the_package(system: str) -> None:
    taken: dict[str, object] = {}
    exec(f"from tenex import {', '.join(DOCUMENTED[system].split())}", taken)  # as a user's file does
    for name in DOCUMENTED[system].split():
        assert getattr(taken[name], "__name__", name).rpartition(".")[2] in (name, "Link"), name  # AgentLink is Link


def test_every_public_name_is_there_once_and_in_the_documents_list() -> None:
    for name in tenex.__all__:
        assert getattr(tenex, name) is not None, name
    section = (ROOT / "docs/workflows.md").read_text().partition("## Names in Python\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .* \| `(.*)` \|$", section, re.MULTILINE)
    assert sorted(", ".join(rows).split(", ")) == sorted(tenex.__all__)
    with pytest.raises(AttributeError, match="'tenex' has no attribute 'Nothing'"):
        tenex.Nothing  # noqa: B018


def test_the_names_of_packages_are_those_of_the_whole() -> None:
    for package in (agents, missions, speakers):
        for name in package.__all__:
            assert getattr(tenex, name) is getattr(package, name)


def test_importing_the_package_loads_none_of_them() -> None:
    loaded = "import sys, tenex; print(*(name for name in sys.modules if name.startswith('tenex.')))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


class Greeter(BaseAgent):
    __system_message__ = "You greet."


async def test_an_agent_is_run_with_a_model_by_its_name(tmp_path: Path) -> None:
    async with model_server(lambda request: Answer(text="hello there")) as server:
        (tmp_path / "tenex.toml").write_text(
            f'[models.providers.local]\nkind = "openai"\nbase_url = "{server.url}"\napi_key_file = "local.key"\n'
        )
        (tmp_path / "local.key").write_text(KEY)
        model = get_model("local:test", data=tmp_path)
        result = await Greeter(model=model).run("Greet me")
        await model.close()
    assert result.final_output == "hello there"
    assert [exchange.request["model"] for exchange in server.exchanges] == ["test"]


def test_a_name_that_is_not_a_models_is_refused_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match='"gpt-5" names no model; write <provider>:<model>'):
        get_model("gpt-5", data=tmp_path)
