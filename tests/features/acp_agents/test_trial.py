"""`tenex agents test`: what it says of a program that is an agent; of real ones with the examples that ship."""

import shutil
from pathlib import Path

import pytest

from tenex.settings import example_folder
from tests.fakes.modelscripts import Team
from tests.fakes.modelserver import model_server
from tests.features.acp_agents.kit import agent_file, folder_of, put_agent
from tests.features.acp_agents.real_agents import CLAUDE, CODEX, OPENCODE, RealAgent
from tests.features.acp_agents.scripted_vendors import vendors
from tests.programs import needs_bubblewrap
from tests.service.kit import Folder, tenex

pytestmark = needs_bubblewrap

ASKS = ("ask", "touch tenex-agents-test")
RUNS = ("run", "touch tenex-agents-test")
NEEDED = {"LOCAL_KEY": "none", "TENEX_MODELS__DEFAULT": "local:test"}


@pytest.mark.parametrize(
    ("action", "more", "env", "code", "sentences"),
    [
        (
            ASKS,
            "",
            {},
            0,
            ["scripted 1.2.3", "before it ran `touch", "with its question open", "yes, resumed in another"],
        ),
        (ASKS, "  mode: ask\n", {}, 0, ["mode           ask (of auto, ask)"]),
        (RUNS, "", {}, 1, ["no: it began a command without asking", "asks no one before it runs commands"]),
        (("say", "I would rather not."), "", {}, 0, ["its model has run no command", "I would rather not."]),
        (ASKS, "  mode: ask\n", {"KEEPS_MODE": "1"}, 1, ["mode ask was set and cannot be read back"]),
        (ASKS, '  version: "1.3"\n', {}, 1, ["has version 1.2.3, and its file asks for 1.3"]),
    ],
)
async def test_what_is_seen_of_an_agent_is_said(
    action: tuple[str, str], more: str, env: dict[str, str], code: int, sentences: list[str], tmp_path: Path
) -> None:
    async with model_server(Team()) as server:
        folder = folder_of(tmp_path, "ws://127.0.0.1:9", server)
        put_agent(folder, agent_file([[action]], more=more, env=env))
        status, printed, said = await tenex("--data", folder.data, "agents", "test", "executor", **NEEDED)
    assert status == code, said
    for sentence in sentences:
        assert sentence in said
    assert ("executor can be used." in printed) == (code == 0)
    assert list(folder.workspace.iterdir()) == [], "the workspace is read-only, whatever it runs"
    assert list((folder.data / "acp").iterdir()) == [], "its HOME is gone"


async def test_an_agent_that_is_no_program_or_is_not_installed(tmp_path: Path) -> None:
    async with model_server(Team()) as server:
        folder = folder_of(tmp_path, "ws://127.0.0.1:9", server)
        status, _, said = await tenex("--data", folder.data, "agents", "test", "executor", **NEEDED)
        assert (status, "no agent with `acp:`" in said) == (2, True)
        put_agent(folder, agent_file([[ASKS]]))
        shutil.rmtree(tmp_path / "programs")
        status, _, said = await tenex("--data", folder.data, "agents", "test", "executor", **NEEDED)
        assert (status, "there is no program scripted-agent; install it" in said) == (1, True)


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(CLAUDE, id="claude"),
        pytest.param(OPENCODE, id="opencode"),
        pytest.param(CODEX, id="codex", marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(600)
async def test_a_real_agent_is_tried_with_its_example(agent: RealAgent, tmp_path: Path) -> None:
    agent.install()
    async with vendors(agent.script) as served:
        providers = "".join(
            f'[models.providers.{kind}]\nkind = "{kind}"\nbase_url = "{served.url}{path}"\napi_key_env = "LOCAL_KEY"\n'
            for kind, path in (("anthropic", ""), ("openai", "/v1"))
        )
        folder = Folder(tmp_path / "data", "ws://127.0.0.1:9", f'{providers}[workspace]\npath = ["{agent.folder}"]\n')
        (folder.data / "agents").mkdir(exist_ok=True)
        shutil.copy(example_folder("agents") / f"{agent.name}.md", folder.data / "agents")
        status, _, said = await tenex("--data", folder.data, "agents", "test", agent.name, LOCAL_KEY="none")
    assert status == 0, said
    assert "before it ran `touch tenex-agents-test`" in said
    assert "yes, with its question open" in said
    assert f"yes, resumed in another process, mode {agent.mode}" in said
    assert len(served.turns) in (1, 2), "its models are asked through the daemon's proxy, for work alone"
