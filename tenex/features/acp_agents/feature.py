"""What agents that are programs of others offer."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from tenex.feature import Command, Feature

if TYPE_CHECKING:
    from tenex.app import Application
    from tenex.app.extension import Extension
    from tenex.prompting import AgentDefinition


def _extend(app: "Application") -> "Extension":
    if find_spec("acp") is None:  # an agent that needs it is disabled with the reason
        from tenex.app.extension import Extension

        return Extension()
    from .daemon import extend

    return extend(app)


def _about_agent(agent: "AgentDefinition", models: Sequence[str]) -> Sequence[str]:
    if agent.acp is None:
        return ()
    from tenex.llm.config import OFFLINE

    from .promises import promises

    said = promises([name for name in models if name != OFFLINE], agent.acp.hosts)
    held = [f"- {sentence}" for sentence in said.held]
    not_held = [f"- {sentence}" for sentence in said.not_held]
    return ["It is a program of others. What holds:", *held, "What cannot be promised:", *not_held]


ACP_AGENTS: Final = Feature(
    name="acp_agents",
    commands=[Command("agents test", "tenex.features.acp_agents.cli:test")],
    extend=_extend,
    about_agent=_about_agent,
    tools={
        "acp_call": "tenex.features.acp_agents.tools:call_tool",
        "acp_permission": "tenex.features.acp_agents.tools:permission_tool",
    },
)
