"""Messages and turns of a conversation's state, made up one by one."""

from typing import Any

from tenex.core.config import Role
from tenex.core.ids import EventId, Millis, Slug, TurnId
from tenex.core.inbox.message import Message
from tenex.core.phases import Phase
from tenex.core.work.turn import OrchestratorTurn
from tests.fakes.scenario import ALICE


def message(seq: int, text: str = "", **more: Any) -> Message:
    """A message of alice in chat, unless stated otherwise."""
    known: dict[str, Any] = {"author": ALICE, "name": "alice", "phase": Phase.CHAT, "role": Role.OWNER, **more}
    return Message(seq=seq, at=Millis(seq), event_id=EventId(f"{seq:064x}"), text=text, **known)


def turn(seq: int, phase: Phase, **more: Any) -> OrchestratorTurn:
    """A turn of the executor that has been opened, unless stated otherwise."""
    known: dict[str, Any] = {"turn_id": TurnId(f"turn-{seq}"), "agents": (Slug("executor"),), "reason": "r", **more}
    return OrchestratorTurn(seq=seq, timestamp=Millis(seq), phase=phase, **known)
