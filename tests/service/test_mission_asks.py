"""A node of a mission asks an agent and a workflow of the daemon by name, over a relay and with models over HTTP."""

import re
import shutil
from pathlib import Path

from tenex.core.records import mission as m
from tenex.workflows.agents.definition import blueprint
from tenex.workflows.agents.loading import find_agents
from tests.fakes.modelprotocol import Answer, Json
from tests.fakes.modelscripts import Asked, calls
from tests.fakes.modelserver import model_server

from .kit import ROOT, of_kind
from .loopback import folder_with_model, serving, settled
from .workflow_kit import delivered_events, put

SHIPPED = ROOT / "config" / "workflows"


def example(begins: str) -> str:
    """The code of the documents with that docstring."""
    text = (ROOT / "docs" / "workflows.md").read_text()
    (code,) = re.findall(rf'```python\n("""{re.escape(begins)}.*?)```', text, re.DOTALL)
    return str(code)


def replies(request: Json) -> Answer:
    """The planner plans, the expert approves, the executor writes a file and reports it."""
    asked = Asked(request)
    match asked.agent:
        case "planner":
            return Answer(text="The plan: hello.py prints hello")
        case "security-expert":
            return (
                Answer(text="Approved.") if asked.steps else calls(("set_context", {"key": "approved", "value": True}))
            )
        case _:
            content = {"path": "hello.py", "content": "print('hello')\n"}
            return Answer(text="It is built.") if asked.steps else calls(("write_file", content))


async def test_a_node_asks_an_agent_and_a_workflow_by_name(tmp_path: Path, relay: str) -> None:
    async with model_server(replies) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        put(folder, "built.py", example("Has an agent plan"))
        shutil.copy(SHIPPED / "draft-and-review.toml", folder.data / "config" / "workflows")
        async with serving(folder, server):
            name = await folder.write("@built hello.py")
            await settled(folder, name)
            sent = [event["content"] for event in await delivered_events(folder, name)]
        delivered = server.delivered()
    assert sent[-1].endswith("Its result: It is built. (built)")
    assert (folder.workspace / "hello.py").read_text() == "print('hello')\n"
    agents = [Asked(exchange.request).agent for exchange in delivered]
    assert agents == ["planner", "planner", "security-expert", "security-expert", "executor", "executor"]
    assert "Plan this: hello.py" in Asked(delivered[0].request).words
    spent = of_kind(folder.records(name), m.MissionUsageRecorded)
    assert sum(one.usage.input_tokens for one in spent) == sum(exchange.input_tokens for exchange in delivered)
    assert len([*(folder.data / "conversations").glob("*/journal.jsonl")]) == 2, "the mission's, and the daemon's own"


def test_the_agent_of_the_documents_is_read_with_its_tools(tmp_path: Path) -> None:
    (tmp_path / "triage.py").write_text(example("Sorts tickets"))
    faults: list[str] = []
    (found,) = find_agents(tmp_path, faults, code_refusal="")
    assert not faults
    assert set(blueprint(type(found.agent)).methods) == {"classify", "dispatch", "close"}
