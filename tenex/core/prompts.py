"""The prompt of a run as its records hold it: rendered where it begins, and again where its agent stands elsewhere.

Never: the words of one; a `Prompter` has them.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace

from .agency_records import AgentMoved, PromptRenewed
from .conversation import Conversation
from .ports import Prompt
from .run_records import RunStarted
from .runs import Run


def prompted(
    state: Conversation, record: RunStarted | AgentMoved | PromptRenewed, render: Callable[[Conversation, Run], Prompt]
) -> RunStarted | AgentMoved | PromptRenewed:
    """The record of a run that begins, or whose agent stands elsewhere, with the prompt that holds from then on."""
    ahead = state.fork()
    ahead.apply(record)
    prompt = render(ahead, ahead.runs[record.run])
    digest = hashlib.sha256(prompt.system.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    system = None if digest in state.systems else prompt.system
    told = replace(record, digest=digest, system=system, forgets=state.spare_systems(digest))
    return replace(told, entries=prompt.entries) if isinstance(told, RunStarted) else told
