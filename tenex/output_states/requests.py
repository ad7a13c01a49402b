"""What a request to a server holds so that its model can only write what the graph permits.

Each function gives the fields that are added to the body of a request for a chat completion. The limits of free text
are left to the parser unless `limits` asks for them: with them the built-in states make half a megabyte, for which some
engines take half a minute, and without them four kilobytes.
"""

import json
from typing import Any

from .answers import is_strict, without_lengths
from .grammar import grammar
from .machine import AgentStateMachine, Plan


def for_llama_cpp(machine: AgentStateMachine | Plan, *, limits: bool = False) -> dict[str, Any]:
    """A grammar for llama.cpp's server (`grammar`, GBNF)."""
    return {"grammar": grammar(machine, limits=limits).text}


def for_vllm(machine: AgentStateMachine | Plan, *, limits: bool = False) -> dict[str, Any]:
    """A grammar for vLLM 0.12 or newer (`structured_outputs`); both of its engines read it."""
    return {"structured_outputs": {"grammar": grammar(machine, limits=limits).text}}


def for_vllm_before_0_12(machine: AgentStateMachine | Plan, *, limits: bool = False) -> dict[str, Any]:
    """The same under its old name, `guided_grammar`."""
    return {"guided_grammar": grammar(machine, limits=limits).text}


def structural_tag(machine: AgentStateMachine | Plan, *, limits: bool = False) -> dict[str, Any]:
    """The same as a structural tag of xgrammar, as vLLM and SGLang take it (`response_format`)."""
    return {"type": "structural_tag", "format": {"type": "grammar", "grammar": grammar(machine, limits=limits).text}}


def for_vllm_as_structural_tag(machine: AgentStateMachine | Plan, *, limits: bool = False) -> dict[str, Any]:
    """A structural tag for vLLM 0.12 or newer, which takes it as text."""
    return {"structured_outputs": {"structural_tag": json.dumps(structural_tag(machine, limits=limits))}}


def for_openai(machine: AgentStateMachine | Plan) -> dict[str, Any]:
    """A JSON Schema for OpenAI (`response_format`); the answer is read by `answers.read_answer`.

    It is strict where every tool's parameters are such as strict mode takes; limits of free text stand in words.
    """
    schema = without_lengths(machine)
    named = {"name": "agent_output", "strict": is_strict(schema), "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}
