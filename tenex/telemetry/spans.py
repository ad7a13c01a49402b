"""Names and attributes of spans, by the OpenTelemetry semantic conventions for generative AI."""

import json
from itertools import takewhile
from typing import Any, Final

from tenex.core import records as r
from tenex.core.messages import Entry, ModelStep
from tenex.core.totals.costs import model_of
from tenex.core.work.run import Run

from .durations import Interval

CONTENT: Final = 8_000
"""Characters of a text attribute: collectors refuse spans of some MB."""

Attributes = dict[str, Any]

FAILED: Final = frozenset({"failed", "refused", "rejected", "unavailable", "timed_out", "stopped", "over_limit"})


def _turn(interval: Interval) -> tuple[str, Attributes]:
    return f"turn {interval.phase}", {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": str(interval.phase),
        "tenex.turn": interval.key,
        "tenex.outcome": interval.outcome,
    }


def _run(interval: Interval) -> tuple[str, Attributes]:
    return f"invoke_agent {interval.agent}", {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": interval.agent,
        "tenex.outcome": interval.outcome,
    }


def _chat(interval: Interval) -> tuple[str, Attributes]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": interval.agent or "orchestrator",
        "tenex.outcome": interval.outcome,
    }
    model = "" if interval.ending is None else model_of(interval.ending)
    if model:
        provider, _, name = model.rpartition(":")
        attributes |= {"gen_ai.response.model": name, "gen_ai.provider.name": provider or name}
    return f"chat {model}".rstrip(), attributes


def _tool(interval: Interval) -> tuple[str, Attributes]:
    return f"execute_tool {interval.tool}", {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": interval.tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": str(getattr(interval.ending, "call", "")),
        "gen_ai.agent.name": interval.agent,
    }


DESCRIBE: Final = {"turn": _turn, "run": _run, "model": _chat, "route": _chat, "tool": _tool, "ask": _tool}


def usage(interval: Interval) -> Attributes:
    """Tokens and cost, where models were called."""
    if not interval.usage.calls:
        return {}
    found: Attributes = {
        "gen_ai.usage.input_tokens": interval.usage.input_tokens,
        "gen_ai.usage.output_tokens": interval.usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": interval.usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": interval.usage.cache_write_tokens,
    }
    return found if interval.usage.cost_usd is None else {**found, "tenex.cost_usd": interval.usage.cost_usd}


# ---- content of messages, only with traces.content ----


def content(interval: Interval) -> Attributes:
    """The prompt, the messages, arguments and results of an interval."""
    found: Attributes = {}
    if interval.stage == "run" and interval.run is not None:
        found = _prompt(interval.run)
    match interval.ending:
        case r.ModelResponded(step=step) if interval.stage == "model":
            found["gen_ai.output.messages"] = _json([_message(step)])
        case r.ToolCallCompleted(content=text) | r.QuestionAnswered(text=text) if interval.call is not None:
            found["gen_ai.tool.call.arguments"] = _cut(_json(dict(interval.call.request.arguments)))
            found["gen_ai.tool.call.result"] = _cut(text)
        case r.RunEnded(text=text) | r.RouteRejected(answer=text) if text:
            found["gen_ai.output.messages"] = _json([{"role": "assistant", "parts": [_part(text)]}])
        case r.Routed(agents=agents, reason=reason):
            found["tenex.decision"] = _cut(f"{', '.join(agents)}: {reason}")
    return found


def why(record: r.Record | None) -> str:
    """The error text of a record."""
    text = getattr(record, "error", "") or getattr(record, "message", "") or getattr(record, "sentence", "")
    return _cut(str(text))


def _prompt(run: Run) -> Attributes:
    entries = takewhile(lambda entry: not isinstance(entry, ModelStep), run.entries)
    return {
        "gen_ai.system_instructions": _json([_part(run.system)]),
        "gen_ai.input.messages": _json([_message(entry) for entry in entries]),
    }


def _message(entry: Entry) -> Attributes:
    text = str(getattr(entry, "text", "") or getattr(entry, "content", ""))
    if not isinstance(entry, ModelStep):
        return {"role": "user", "parts": [_part(text)]}
    calls = [{"type": "tool_call", "id": call.id, "name": call.tool} for call in entry.calls]
    return {"role": "assistant", "parts": [*([_part(text)] if text else []), *calls]}


def _part(text: str) -> Attributes:
    return {"type": "text", "content": _cut(text)}


def _cut(text: str) -> str:
    cut = text if len(text) <= CONTENT else f"{text[:CONTENT]}…"
    return cut.encode("utf-8", "replace").decode()  # half a surrogate pair would lose the whole batch


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
