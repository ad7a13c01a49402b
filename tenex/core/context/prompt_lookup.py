"""The prompt of a run as its records hold it: rendered where it begins, and again when its agent's phase changes."""

import hashlib
from collections.abc import Callable
from dataclasses import replace

from tenex.core.conversation import Conversation
from tenex.core.ports import Prompt
from tenex.core.records.agent import AgentPhaseChanged, PromptRerendered
from tenex.core.records.run import RunStarted
from tenex.core.state.run import Run


def prompted(
    state: Conversation,
    record: RunStarted | AgentPhaseChanged | PromptRerendered,
    render: Callable[[Conversation, Run], Prompt],
) -> RunStarted | AgentPhaseChanged | PromptRerendered:
    """The record of a run that begins, or whose agent changed its phase, with the prompt that holds from then on."""
    ahead = state.fork()
    ahead.apply(record)
    prompt = render(ahead, ahead.runs[record.run])
    digest = hashlib.sha256(prompt.system.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    system = None if digest in state.systems else prompt.system
    record = replace(record, digest=digest, system=system, forgets=state.spare_systems(digest))
    return replace(record, entries=prompt.entries) if isinstance(record, RunStarted) else record
