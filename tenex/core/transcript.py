"""What the router and the agents are shown of a conversation, chosen within bounds.

Each message is shown once. What is chosen costs the same however long the history is: the state keeps the newest
messages and the turns of the cycle.

Never: prose about how to behave; prompts are `prompting`'s.
"""

import json
from typing import Any

from . import gates
from .conversation import Conversation
from .graph import END
from .phases import PHASE_TRANSITIONS, QUALITY_PHASES, Phase
from .roster import Rules
from .runs import Completion, Message, OrchestratorTurn, Run
from .steps import Entry, Note, Shown, cut

MESSAGE_CHARACTERS = 24_000
"""Of one message, as an agent is shown it: a pasted log must not push the request out of a model's window."""
TOTAL_CHARACTERS = 120_000
"""Of all earlier messages together: about 30,000 tokens, which the smallest current models take."""
COMPLETION_CHARACTERS = 4_000
"""Of one completion, as the router is shown it."""


def entries_for(conversation: Conversation, run: Run) -> tuple[Entry | Shown, ...]:
    """What an agent is shown when its run begins: what was said, the hand-off, what it is asked to do.

    Messages are named by their record, not repeated: the fold of `RunStarted` puts their words in.
    """
    entries = _messages(conversation)
    turn = conversation.turn
    if turn is None:
        return tuple(entries)
    if turn.handoff is not None and (turn.handoff.summary or turn.handoff.message):
        hand = turn.handoff
        done = f"\n\nWhat has been done:\n{cut(hand.summary, COMPLETION_CHARACTERS)}" if hand.summary else ""
        entries.append(Note(title="Hand-off", text=f"From {hand.from_} to {hand.to}: {hand.reason}{done}"))
    others = [agent for agent in turn.agents if agent != run.agent]
    beside = f" {', '.join(others)} work on it at the same time." if others else ""
    files = f"\nFiles changed in this cycle: {', '.join(sorted(conversation.touched))}" if conversation.touched else ""
    entries.append(Note(title="Your part", text=f"{turn.reason}.{beside}{files}"))
    return tuple(entries)


def _messages(conversation: Conversation) -> list[Entry | Shown]:
    """The request that began the cycle, then the newest messages that fit, oldest first."""
    recent = list(conversation.recent)
    request = conversation.messages[0] if conversation.messages else None
    room, chosen = TOTAL_CHARACTERS, list[Message]()
    for message in reversed(recent):
        room -= min(len(message.text), MESSAGE_CHARACTERS)
        if room < 0:
            break
        chosen.append(message)
    chosen.reverse()
    if request is not None and all(message.seq != request.seq for message in chosen):
        chosen.insert(0, request)
    shown: list[Entry | Shown] = []
    if chosen and len(chosen) < len(recent):
        shown.append(Note(title="Earlier", text=f"{len(recent) - len(chosen)} older messages are not shown."))
    for place, message in enumerate(chosen):
        if request is not None and message.seq == request.seq and place:
            shown.append(Note(title="A new request", text="What stands above belongs to earlier work, which is done."))
        shown.append(Shown(seq=message.seq, limit=MESSAGE_CHARACTERS))
    return shown


def question_for(conversation: Conversation, rules: Rules) -> Note:
    """The router's question: a JSON document with all it may go by."""
    permitted = [
        phase
        for phase in PHASE_TRANSITIONS.permitted(conversation.phase)
        if gates.leaving(conversation, phase, rules) is None
    ]
    way = QUALITY_PHASES if conversation.waived else ()
    beyond = [p for p in (*way, Phase.CHAT) if p not in permitted and _beyond(conversation, p)]
    question = {
        "phase": conversation.phase,
        "permitted": [*permitted, *beyond],
        "cycle": conversation.cycle,
        "messages": [_message(message) for message in conversation.messages],
        "turns": [_turn(turn) for turn in conversation.turns],
        "open_gates": list(gates.open_gates(conversation, rules)),
        "can_end": bool(conversation.turns) and gates.leaving(conversation, END, rules) is None,
        "participants": list(conversation.participants),
        "still_to_reflect": list(gates.yet_to_reflect(conversation, rules)),
        "waived": sorted(conversation.waived),
        "roster": [
            {
                "slug": agent.slug,
                "name": agent.name,
                "kind": agent.kind,
                "role": agent.role,
                "use_when": agent.use_when,
                "phases": list(agent.phases),
            }
            for agent in rules.roster.values()
        ],
        "rejections": list(conversation.question.rejections if conversation.question else ()),
        "lessons": list(conversation.router_lessons),
    }
    return Note(title="routing", text=json.dumps(question, ensure_ascii=False))


def _beyond(conversation: Conversation, phase: Phase) -> bool:
    """Whether a phase is reached only by passing through waived ones."""
    if phase is conversation.phase:
        return False
    way = gates.path(conversation, phase)
    return way is not None and len(way) > 1


def _message(message: Message) -> dict[str, Any]:
    return {
        "id": message.event_id,
        "from": message.name,
        "text": cut(message.text, MESSAGE_CHARACTERS),
        "after_turn": message.after_turn,
    }


def _turn(turn: OrchestratorTurn) -> dict[str, Any]:
    return {
        "turn": turn.turn_id,
        "phase": turn.phase,
        "agents": list(turn.agents),
        "reason": turn.reason,
        "completions": [_completion(done) for done in turn.completions],
    }


def _completion(done: Completion) -> dict[str, Any]:
    return {
        "agent": done.agent,
        "outcome": done.outcome,
        "text": cut(done.text or done.error, COMPLETION_CHARACTERS),
        "summary": cut(done.summary, COMPLETION_CHARACTERS),
        "verdict": done.verdict,
    }
