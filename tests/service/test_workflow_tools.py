"""Tools that a user has written route a workflow: by what they return and by the variables they set."""

import re
from pathlib import Path

from tenex.core import records as r
from tenex.workflows.agents.definition import blueprint
from tenex.workflows.agents.loading import find_agents
from tests.fakes.modelprotocol import Answer, Json
from tests.fakes.modelscripts import Asked, calls
from tests.fakes.modelserver import model_server

from .kit import ROOT, Folder, of_kind
from .loopback import folder_with_model, serving, settled
from .workflow_kit import put

TRIAGE = """
from tenex.workflows.speakers import Finish, Handoff, delete_context, set_context
from tenex.workflows.agents import BaseAgent, tool


class Triage(BaseAgent):
    __system_message__ = "You sort tickets."
    in_phases = ["execute"]

    @tool("Classify what the ticket is about")
    def classify(self, domain: str) -> str:
        delete_context("stale")
        set_context(domain=domain)
        return "Noted."

    @tool("Send it to the specialist")
    async def dispatch(self, name: str) -> Handoff:
        await set_context("sent", True)
        return Handoff(target=name, reason="routed by load")

    @tool("End it")
    def done(self, summary: str) -> Finish:
        return Finish(summary=summary, reason="solved")

    @tool("Fail after setting a variable")
    def broken(self) -> str:
        set_context(domain="legal")
        raise ValueError("no")
"""
SPECIALIST = """
from tenex.workflows.agents import BaseAgent


class {name}(BaseAgent):
    __system_message__ = "You are a specialist."
    in_phases = ["execute"]
"""
SUPPORT = """
initial_speaker = "triage"
default_target = { name = "terminate", args = { reason = "done" } }
max_turns = 8

[[transitions]]
when = { name = "context_equals", args = { key = "domain", value = "security" } }
then = { name = "agent", args = { agent_id = "security" } }
priority = 1

[[transitions]]
when = { name = "tool_called", args = { tool_name = "dispatch" } }
then = { name = "agent", args = { agent_id = "security" } }
priority = 1

[[transitions]]
when = { name = "from_speaker", args = { agent_id = "security" } }
then = { name = "terminate", args = { reason = "security_done" } }

[workflow]
participants = ["triage", "security", "legal"]
context = { stale = true }
"""


def replies(request: Json) -> Answer:
    """Triage calls what the person asks for, one call after the other; everybody else answers in words."""
    asked = Asked(request)
    if "You sort tickets." not in asked.system or asked.results:
        return Answer(text="I have looked at it.")
    match asked.words.split("CALL ")[-1].split():
        case ["classify", domain, *_]:
            return calls(("classify", {"domain": domain}))
        case ["dispatch", name, *_]:
            return calls(("dispatch", {"name": name}))
        case ["done", *_]:
            return calls(("done", {"summary": "It was nothing."}))
        case _:
            return calls(("broken", {}))


def made(folder: Folder) -> None:
    (folder.data / "agents").mkdir(exist_ok=True)
    (folder.data / "agents" / "triage.py").write_text(TRIAGE)
    for name in ("Security", "Legal"):
        (folder.data / "agents" / f"{name.lower()}.py").write_text(SPECIALIST.format(name=name))
    put(folder, "support.toml", SUPPORT)


async def test_a_users_tool_hands_over_ends_the_workflow_and_sets_its_variables(tmp_path: Path, relay: str) -> None:
    async with model_server(replies) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        made(folder)
        async with serving(folder, server) as process:
            names = {}
            for words in ("classify security", "dispatch Legal", "dispatch ghost", "done", "broken"):
                names[words] = await folder.write(f"@support CALL {words}")
            for name in names.values():
                await settled(folder, name)
            assert await process.stop() == 0

    def speakers(words: str) -> list[str]:
        return [record.speaker for record in of_kind(folder.records(names[words]), r.RoundClosed)]

    def context(words: str) -> dict[str, object]:
        return dict(folder.view(names[words])["workflow"]["context"])

    def reason(words: str) -> str:
        return str(folder.view(names[words])["workflow"]["closeReason"])

    assert speakers("classify security") == ["triage", "security"]
    assert context("classify security") == {"domain": "security"}
    assert speakers("dispatch Legal") == ["triage", "legal"], "the handoff shadows the rule of its own tool"
    assert context("dispatch Legal") == {"stale": True, "sent": True}
    assert speakers("dispatch ghost") == ["triage", "security"], "a refused handoff leaves it to the rules"
    (result,) = of_kind(folder.records(names["dispatch ghost"]), r.ToolCallCompleted)
    assert "refused: those who take part are triage, security, legal" in result.content
    assert (speakers("done"), reason("done")) == (["triage"], "solved")
    assert (context("broken"), reason("broken")) == ({"stale": True}, "done"), "a tool that fails changes nothing"


def test_the_agent_of_the_documents_is_read_with_its_tools(tmp_path: Path) -> None:
    (code,) = re.findall(
        r'```python\n("""Sorts tickets.*?)```', (ROOT / "docs" / "workflows.md").read_text(), re.DOTALL
    )
    (tmp_path / "triage.py").write_text(code)
    faults: list[str] = []
    (found,) = find_agents(tmp_path, faults, code_refusal="")
    assert not faults
    assert set(blueprint(type(found.agent)).methods) == {"classify", "dispatch", "close"}
