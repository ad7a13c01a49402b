"""The fields of a request by which a server is asked to hold its model to the states; the server compiles the grammar.

Lengths of free text are left to the parser: as rules they make half a megabyte, for which engines take half a minute.
"""

import json
from typing import Any

from .answers import is_strict, without_lengths
from .content import JsonStateMachine, StateMachine, core_of
from .machine import AgentStateMachine, OutputPlan

Format = dict[str, Any]


def for_vllm(machine: AgentStateMachine | OutputPlan) -> dict[str, Any]:
    """A structural tag for vLLM 0.12 or newer, which takes it as text."""
    return {"structured_outputs": {"structural_tag": json.dumps(structural_tag(machine))}}


def for_openai(machine: AgentStateMachine | OutputPlan) -> dict[str, Any]:
    """A JSON Schema, as OpenAI and llama.cpp take it; the answer is read by `answers.read_answer`.

    It is strict where every tool's parameters are such as strict mode takes; limits of free text are in descriptions.
    """
    schema = without_lengths(machine)
    named = {"name": "agent_output", "strict": is_strict(schema), "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def structural_tag(machine: AgentStateMachine | OutputPlan) -> Format:
    """The order of the states as a structural tag of xgrammar: planning states, then one action.

    Narrower than the parser: one line feed separates states, and a text never holds its closing delimiter.
    """
    plan = machine.plan() if isinstance(machine, AgentStateMachine) else machine
    planning = _one_of(
        [
            {"type": "sequence", "elements": [_tag(content), {"type": "const_string", "value": "\n"}]}
            for name, content in plan.contents.items()
            if name in plan.planning
        ]
    )
    action = _one_of([_tag(content) for name, content in plan.contents.items() if name not in plan.planning])
    answer = action
    for loops in range(plan.most - 1, -1, -1):
        longer = {"type": "sequence", "elements": [planning, answer]}
        answer = _one_of([longer, action]) if loops >= plan.least else longer
    return {"type": "structural_tag", "format": answer}


def _tag(machine: StateMachine) -> Format:
    core, (opening, closing) = core_of(machine), machine.delimiters
    content = {"type": "json_schema", "json_schema": core.schema} if isinstance(core, JsonStateMachine) else _TEXT
    return {"type": "tag", "begin": opening, "content": content, "end": closing}


_TEXT: Format = {"type": "any_text"}


def _one_of(options: list[Format]) -> Format:
    return options[0] if len(options) == 1 else {"type": "or", "elements": options}
