"""What users' code imports from `tenex`: every name of the list, and a model by its name."""

import subprocess
import sys
from pathlib import Path

import pytest

import tenex
from tenex import BaseAgent, get_model
from tenex.core.errors import ConfigurationError
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import KEY, model_server


def test_every_public_name_is_there_and_the_documents_names_are_among_them() -> None:
    documented = {
        "ConversationCoordinator",
        "Conversation",
        "Phase",
        "PHASE_TRANSITIONS",
        "PhaseTransition",
        "RoutingDecision",
        "OrchestratorTurn",
        "ExecutionContext",
        "TransitionGraph",
        "BaseNode",
        "End",
        "BaseAgent",
        "AgentState",
    }
    assert documented <= set(tenex.__all__)
    for name in tenex.__all__:
        assert getattr(tenex, name) is not None, name
    with pytest.raises(AttributeError, match="'tenex' has no attribute 'Nothing'"):
        tenex.Nothing  # noqa: B018


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
