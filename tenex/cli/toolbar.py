"""The line at the bottom of the terminal: who works on a conversation, or whose turn it is, and what it has cost."""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
YOUR_TURN: Final = "it is your turn"
HAS_ENDED: Final = "■ this cycle has ended"
NEXT_CYCLE: Final = "write to begin the next"


def spinner() -> str:
    """A mark that turns while something goes on."""
    return SPINNER[int(time.monotonic() * 10) % len(SPINNER)]


def toolbar(status: Mapping[str, Any], age: float = 0.0) -> str:
    """Draw a conversation's status, as `conversation_status` gives it with its `usage`, `age` seconds later."""
    if status["status"] == "ended":
        return f"{HAS_ENDED} · {_used(status['usage'])} · {NEXT_CYCLE}"
    parts = [f"{run['agent']} {_doing(run)}" for run in status.get("runs", ())]
    if "turn" in status:
        return f"{spinner()} {status['phase']} · {' · '.join(parts)} · {int(status['turn']['seconds'] + age)} s"
    if "router" in status:
        return f"{spinner()} {status['phase']} · the orchestrator {_routing(status['router'])}"
    if status["status"] == "active":
        return f"{spinner()} {' · '.join(_others(status)) or status['phase']}"
    return f"{status['phase']} · {YOUR_TURN} · {_used(status['usage'])}"


def _doing(run: Mapping[str, Any]) -> str:
    match run["state"]:
        case "parked":
            return "waits for your answer"
        case "tools":
            return ", ".join(run["tools"])
        case "calling":
            return f"waits for {', '.join(run['sub_agents'])}"
        case "limited":
            return f"is on hold: {run['why']}"
        case "held" | "retrying":
            return f"cannot reach its model: {run['why']}"
        case _:
            return "thinks"


def _routing(router: Mapping[str, Any]) -> str:
    return "decides who is next" if router["state"] == "model" else _doing(router)


def _others(status: Mapping[str, Any]) -> Iterator[str]:
    mission = status.get("mission")
    if mission:
        yield f"{mission['workflow']}: {mission['node']}"


def _used(usage: Mapping[str, Any]) -> str:
    tokens, cost = usage["inputTokens"] + usage["outputTokens"], usage["costUsd"]
    spent = [*([f"{tokens:,} tokens"] if tokens else []), *([f"${cost:.4f}"] if cost else [])]
    return ", ".join([f"{usage['calls']} model calls", *spent])
