"""An agent that answers in states of output, one of them from a file beside it."""

import json

from tests.service.kit import ROOT, Folder

SECRET = "not-to-be-read-4711"
STATES = '''"""A state of an operator, as people of Proxy Base Agent write one."""
from tenex.output_states import AgentState, FencedFreeformStateMachine, StateMachine


class Critique(AgentState):
    def __init__(self):
        super().__init__(
            identifier="critique",
            readable_name="Critique",
            delimiters=("<critique>", "</critique>"),
            color="dim red",
            emoji="🔍",
        )

    @property
    def state_machine(self) -> StateMachine:
        sm = FencedFreeformStateMachine(delimiters=self.delimiters, char_min=10, char_max=200)
        sm.identifier = self.identifier
        return sm

    @property
    def state_prompt(self) -> str:
        return f"Name what may go wrong, between {self.delimiters[0]} and {self.delimiters[1]}."
'''
OUTPUT = "output: {plan: ['states.py:Critique'], act: [tool_call, python], min: 1, max: 2}"


def critique(words: str) -> str:
    return f"<critique>{SECRET}: {words}</critique>\n"


def call(tool: str, **arguments: str) -> str:
    return f"```tool\n{json.dumps({'name': tool, 'arguments': arguments})}\n```"


def put(folder: Folder, output: str = OUTPUT) -> None:
    """Give the executor states, one of them from a file beside it."""
    agents = folder.data / "agents"
    shipped = (ROOT / "prompts" / "agents" / "executor.md").read_text()
    (agents / "executor.md").write_text(shipped.replace("---\n", f"---\n{output}\n", 1))
    (agents / "states.py").write_text(STATES)
