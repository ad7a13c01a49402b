"""Reports of what an agent's answer has cost, encrypted to its owner (NIP-AM of github.com/block/buzz)."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from tenex.core.port_values import TurnCost, UnsignedEvent

from .direct import nip44_encrypt
from .events import unsigned_event
from .keys import SecretKey

TURN_COST: Final = 44200

_STOP_REASONS: Final = {"": "end_turn", "finished": "end_turn", "stopped": "cancelled"}
"""By the outcome of a run; every other is an error."""


def cost_report(cost: TurnCost, room: str, key: SecretKey, at: int) -> UnsignedEvent:
    """Make the event by the key that gave the answer, which only that key and the owner can read; `at` is in seconds.

    The relay sees no room in it: `p` is the owner, and `agent` the key again.
    """
    text = json.dumps(_content(cost, room), ensure_ascii=False, separators=(",", ":"))
    content = nip44_encrypt(text, key.shared_secret(cost.owner))
    return unsigned_event(key.public, at, TURN_COST, (("p", cost.owner), ("agent", key.public)), content)


def _content(cost: TurnCost, room: str) -> dict[str, Any]:
    usage = cost.usage
    is_counted = not usage.estimated  # what no provider has counted is null
    turn: dict[str, Any] = {
        "inputTokens": usage.input_tokens if is_counted else None,
        "outputTokens": usage.output_tokens if is_counted else None,
        "totalTokens": None,  # a sum of both would not be the provider's
        "costUsd": usage.cost_usd,
    }
    if is_counted and (usage.cache_read_tokens or usage.cache_write_tokens):
        turn |= {"cacheReadTokens": usage.cache_read_tokens, "cacheWriteTokens": usage.cache_write_tokens}
    ended = datetime.fromtimestamp(cost.ended / 1000, UTC).isoformat(timespec="milliseconds")
    return {
        "harness": "tenex",
        "model": cost.model or None,
        "channelId": room or None,
        "sessionId": cost.session,
        "turnId": cost.turn,
        "timestamp": ended.replace("+00:00", "Z"),
        "turn": turn,
        "deltaReliable": True,
        "stopReason": _STOP_REASONS.get(cost.outcome, "error"),
    }
