"""What TENEX's clients ask a project for by ephemeral events: to stop work, and to have an agent use another model.

    24134   stops the work that its `e` tags name; `p` tags may name agents at work
    24020   names an agent by `p`, and by `model` one of those of the project's status (kind 24010)

Relays keep neither, so nothing is asked for while no daemon runs.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tenex.core.answers.pictures import STOP_SIGN
from tenex.core.ids import ConversationId, EventId, PublicKey
from tenex.core.signals import InboundMessage

from .events import Event
from .threading.base import first_value, is_by_machine, is_by_program, received_on, references_of, tags_named

STOP_REQUEST: Final = 24134
AGENT_CHANGE: Final = 24020


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChange:
    """A wish for an agent to use a model from now on."""

    event: EventId
    author: PublicKey
    created_at: int
    """Seconds, by the author's clock."""
    agent: PublicKey
    model: str


def read_stop(event: Event, own_keys: Collection[PublicKey], relay: str) -> InboundMessage | None:
    """Read a person's request to stop as what means the same: a stop sign, to no message in particular.

    None for any other event, for one of a program, and for one that names only agents of others.
    """
    if event.kind != STOP_REQUEST or event.pubkey in own_keys or is_by_machine(event) or is_by_program(event):
        return None
    named = [tag[1] for tag in tags_named(event, "p")]
    references = references_of(event, *(tag[1] for tag in tags_named(event, "e")))
    if not references or (named and not any(key in own_keys for key in named)):
        return None
    return InboundMessage(
        event_id=event.id,
        author=event.pubkey,
        text=STOP_SIGN,
        created_at=event.created_at,
        conversation=ConversationId(references[0]),
        starts=False,
        references=references,
        is_reaction=True,
        origin={"relays": received_on(relay)},
    )


def read_agent_change(event: Event, own_keys: Collection[PublicKey]) -> AgentChange | None:
    """Read a person's wish for another model; None for any other event, or one without a model or a key of ours."""
    if event.kind != AGENT_CHANGE or event.pubkey in own_keys or is_by_machine(event) or is_by_program(event):
        return None
    agent = next((PublicKey(tag[1]) for tag in tags_named(event, "p") if tag[1] in own_keys), None)
    model = first_value(event, "model").strip()
    if agent is None or not model:
        return None
    return AgentChange(event=event.id, author=event.pubkey, created_at=event.created_at, agent=agent, model=model)
