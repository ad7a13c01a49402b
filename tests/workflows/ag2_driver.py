"""Runs in the interpreter that has AG2: plays sessions through AG2's own workflow adapter, one JSON line each.

In: {"graph", "participants", "creator", "context", "rounds": [{"speaker", "changes": [{"by", "set", "delete"}],
"calls": [{"tool", "handoff", "finish"}], "text", "plain"}]}; a `speaker` of null is who is expected, `plain` is a
text and no packet.
Out: {"written", "steps": [{"refused", "silent", "next", "closed", "turns", "context", "may"}]}, or {"error"}.
"""

import json
import sys
from types import SimpleNamespace
from typing import Any

from ag2.events import ToolCallEvent, ToolResultEvent  # type: ignore[import-not-found]
from ag2.network.adapters.workflow import WorkflowAdapter  # type: ignore[import-not-found]
from ag2.network.channel import (  # type: ignore[import-not-found]
    ChannelMetadata,
    ChannelState,
    Participant,
    ParticipantRole,
)
from ag2.network.envelope import EV_CONTEXT_SET, EV_PACKET, EV_TEXT, Envelope  # type: ignore[import-not-found]
from ag2.network.errors import ProtocolError  # type: ignore[import-not-found]
from ag2.network.handoff import Finish, Handoff  # type: ignore[import-not-found]
from ag2.network.transitions import (  # type: ignore[import-not-found]
    TransitionGraph,
)


def play(case: dict[str, Any]) -> dict[str, Any]:
    adapter = WorkflowAdapter()
    channel = ChannelMetadata(
        channel_id="c",
        manifest=adapter.manifest,
        creator_id=case["creator"],
        participants=[
            Participant(agent_id=name, role=next(iter(ParticipantRole)), order=order)
            for order, name in enumerate(case["participants"])
        ],
        state=ChannelState.ACTIVE,
        created_at="2026-01-01T00:00:00Z",
        knobs={"graph": case["graph"], "context_vars": case["context"]},
    )
    try:
        adapter.validate_create(channel)
        state = adapter.initial_state(channel)
    except ProtocolError as fault:
        return {"error": str(fault)}
    steps = []
    for number, given in enumerate(case["rounds"]):
        step, state = turn(adapter, channel, state, given, f"e{number}")
        steps.append(
            {**step, "may": [name for name in case["participants"] if may_send(adapter, channel, state, name)]}
        )
        if step["closed"] is not None:
            break
    return {"written": TransitionGraph.loads(case["graph"]).to_dict(), "steps": steps}


def may_send(adapter: Any, channel: Any, state: Any, name: str) -> bool:
    try:
        adapter.validate_send(channel, Envelope("c", name, None, EV_TEXT, {"text": "?"}), state)
    except ProtocolError:
        return False
    return True


def turn(adapter: Any, channel: Any, state: Any, given: dict[str, Any], name: str) -> tuple[dict[str, Any], Any]:
    for change in given["changes"]:
        envelope = Envelope("c", change["by"], None, EV_CONTEXT_SET, {"set": change["set"], "delete": change["delete"]})
        try:
            adapter.validate_send(channel, envelope, state)
        except ProtocolError:
            continue
        state = adapter.fold(envelope, state)
    speaker = given["speaker"] or state.expected_next_speaker
    envelope = envelope_of(adapter, channel, state, given, speaker)
    step: dict[str, Any] = {"refused": False, "silent": envelope is None, "closed": None}
    if envelope is not None:
        envelope.envelope_id = name
        try:
            adapter.validate_send(channel, envelope, state)
        except ProtocolError:
            step["refused"] = True
        else:
            state = adapter.fold(envelope, state)
            result = adapter.on_accepted(channel, envelope, state)
            if result.next_state is not None:
                step["closed"] = result.auto_close_reason
    expected = adapter.expected_next(channel, state)
    return {
        **step,
        "next": expected.agent_id if expected is not None else None,
        "turns": state.turn_count,
        "context": state.context_vars,
    }, state


def envelope_of(adapter: Any, channel: Any, state: Any, given: dict[str, Any], speaker: str) -> Any:
    """The round as AG2 makes it of an agent's events: a packet, or nothing."""
    if given.get("plain"):
        return Envelope("c", speaker, None, EV_TEXT, {"text": given["text"]})
    events: list[Any] = []
    for number, call in enumerate(given["calls"]):
        event = ToolCallEvent(call["tool"], id=f"call{number}")
        events.append(event)
        result: Any = "done"
        if call["handoff"] is not None:
            result = Handoff(**call["handoff"])
        if call["finish"] is not None:
            result = Finish(**call["finish"])
        events.append(ToolResultEvent.from_call(event, result))
    envelope = adapter.build_round_envelope(
        metadata=channel,
        sender_id=speaker,
        reply=SimpleNamespace(body=given["text"]),
        events=events,
        state=state,
        hub=SimpleNamespace(name_to_id_map=dict),
    )
    assert envelope is None or envelope.event_type == EV_PACKET
    return envelope


for line in sys.stdin:
    print(json.dumps(play(json.loads(line))), flush=True)
