"""The router's question as tests read it."""

import json
from typing import Any


def read_question(text: str) -> dict[str, Any]:
    """The document of the router's question, with `messages`, each `after_turn`, and `turns` beside its `history`."""
    question: dict[str, Any] = json.loads(text)
    turns: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for item in question["history"]:
        if "turn" in item:
            turns.append(item)
        elif "decision" not in item:
            messages.append({**item, "after_turn": turns[-1]["turn"] if turns else None})
    return {**question, "turns": turns, "messages": messages}
