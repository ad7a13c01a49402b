"""Lines of the log for what an agent's own phases do, and for events that a relay refused for good."""

from collections.abc import Sequence

import structlog

from tenex.core import records as r
from tenex.core.ids import ConversationId

log = structlog.get_logger(__name__)


def remark(conversation: ConversationId, records: Sequence[r.Record]) -> None:
    """Log what has become durable of agents' own phases and of refused events."""
    for record in records:
        match record:
            case r.AgentPhaseChanged(agent=agent, source=source, target=target):
                log.info("agent.moved", conversation=conversation, agent=agent, source=source, target=target)
            case r.Delivered(accepted=False, relay=relay, detail=reason):
                log.warning("event.refused", conversation=conversation, relay=relay, reason=reason)
            case r.ConditionFailed(agent=agent, source=source, target=target, error=error):
                log.warning(
                    "condition.failed",
                    conversation=conversation,
                    agent=agent,
                    source=source,
                    target=target,
                    error=error.partition(":")[0],
                )
