"""What a conversation with one agent keeps: which agent that is."""

from dataclasses import dataclass
from typing import ClassVar, Final

from tenex.core import records as r
from tenex.core.ids import Slug
from tenex.core.reducers import Reducers
from tenex.core.state import KindState, State

NAME: Final = "single"
"""Of the kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleAgent(KindState):
    """The agent that answers alone, as configured when the conversation began."""

    has_phases: ClassVar[bool] = False
    is_endless: ClassVar[bool] = True

    agent: Slug

    @property
    def only_agent(self) -> Slug:
        """The agent."""
        return self.agent

    @property
    def location_label(self) -> str:
        """The agent."""
        return f"@{self.agent}"


def agent_of(state: State) -> Slug:
    """The agent that answers alone; "" for none."""
    part = state.kinds.get(NAME)
    return part.agent if isinstance(part, SingleAgent) else Slug("")


SINGLE: Final = Reducers[SingleAgent | None](NAME)


@SINGLE.on(r.ConversationStarted, r.ConversationImported)
def _started(
    _part: SingleAgent | None, record: r.ConversationStarted | r.ConversationImported, _: State
) -> SingleAgent | None:
    return SingleAgent(agent=record.agent) if record.agent else None
