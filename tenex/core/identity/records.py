"""The record that begins a conversation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenex.core.ids import ConversationId, PublicKey, Slug
from tenex.core.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationStarted(Record):
    """The first record: whose conversation it is and where it lives."""

    id: ConversationId
    title: str
    starter: PublicKey
    address: Mapping[str, Any]
    agent: Slug = Slug("")
    """The agent that answers alone; "" where the phases, or rules, choose who works."""
