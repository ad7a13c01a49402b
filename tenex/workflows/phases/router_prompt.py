"""The question the router is asked: one JSON document with all it may go by, chosen within a budget."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from tenex.core.config import Policy
from tenex.core.conversation import Conversation
from tenex.core.graph import END
from tenex.core.ids import ConversationId
from tenex.core.inbox.message import Message
from tenex.core.memory.window import BYTES_PER_TOKEN, CONTEXT_TOKENS, FRAME, MESSAGE_CHARACTERS, in_a_line, weight
from tenex.core.messages import Note, cut, with_context
from tenex.core.phases import PHASE_TRANSITIONS, QUALITY_PHASES, Phase
from tenex.core.router.answer import REASON_CHARACTERS
from tenex.core.text.names import short_key
from tenex.core.work.turn import Completion, OrchestratorTurn
from tenex.workflows.phases.state import phases_of

from . import checks, gates

MESSAGES = (MESSAGE_CHARACTERS, 8_000, 2_400, 800, 240)
"""Characters of each message, tried in this order: a pasted log must not push the request out of a model's window."""
COMPLETIONS = (4_000, 400, 0)
"""Characters of each completion, likewise; an old one that is left out keeps its outcome and its verdict."""

WRITTEN = 4 * 2**20
"""Characters of messages that are remembered as JSON, and as many of turns: of a hundred long conversations, or a
thousand short ones. All but the newest are unchanged in the next question of theirs."""
PER_VALUE = 500
"""Characters the value itself counts for, beyond its text."""

FILES = 8
"""Changed files of a turn that are named: which ones they are tells what was done, how many tells how much."""
PROGRAMS = 3
"""Of the programs that a turn ran, the newest: the last word on whether it works."""
COMMAND = 80
"""Characters of each command line."""

LESSONS = 12
LESSON = 500
"""Characters of each: a correction is a sentence or two."""

T = TypeVar("T")
_PLACE: Final = '"history": []'


def question_for(
    conversation: Conversation, policy: Policy, budget: int = CONTEXT_TOKENS, lessons: Sequence[str] = ()
) -> Note:
    """The router's question: a JSON document with all it may go by, in `budget` estimated tokens.

    All of the user's messages of the cycle are in it, and all of its turns. Where they are too much, long messages
    are cut, and completions are: those of the oldest turns first. `lessons` are the router's from other conversations.
    """
    empty = _json({**_fixed(conversation, policy), "lessons": _lessons(conversation, lessons)})
    messages = _whole_messages.of(conversation.id, conversation.cycle.messages)
    done = _whole_turns.of(conversation.id, conversation.cycle.turns)
    document = _filled(empty, conversation, messages, done)
    room = budget * BYTES_PER_TOKEN - FRAME
    if weight(document) > room:
        room -= weight(empty) + _sizes(text for _, text in _commands(conversation))
        messages = _shorter_messages(conversation.cycle.messages, max(room // 2, room - _sizes(done)))
        done = _shorter_turns(conversation.cycle.turns, done, room - _sizes(messages))
        document = _filled(empty, conversation, messages, done)
    return Note(title="routing", text=document)


def _filled(empty: str, conversation: Conversation, messages: Sequence[str], done: Sequence[str]) -> str:
    """The question with what was written and done, all of it JSON already, in the order in which it began.

    One list only grows at its end: of two, the second would begin elsewhere in each question, and not be cached.
    """
    texts = [
        *zip((message.seq for message in conversation.cycle.messages), messages, strict=True),
        *zip((turn.seq for turn in conversation.cycle.turns), done, strict=True),
        *_commands(conversation),
    ]
    history = ", ".join(text for _, text in sorted(texts))
    # no one's words can look like the place: in JSON a quote within a text is escaped
    return empty.replace(_PLACE, f'"history": [{history}]', 1)


def _commands(conversation: Conversation) -> list[tuple[int, str]]:
    """What users decided by commands since the cycle's first message, with the seq of each."""
    decisions = (item for item in conversation.memory.user_decisions if item.is_command)
    begin = _begin(conversation)
    return [(item.seq, _json({"decision": item.text})) for item in decisions if item.seq > begin]


def _begin(conversation: Conversation) -> int:
    return min((message.seq for message in conversation.cycle.messages), default=0)


def _earlier(conversation: Conversation) -> list[dict[str, Any]]:
    """The cycles before, each with what users decided by commands until the next one: an undo changes what was done."""
    cycles = conversation.memory.past
    ends = [*(following.since for following in cycles[1:]), _begin(conversation)]
    decisions = [item for item in conversation.memory.user_decisions if item.is_command]
    return [
        {
            "cycle": past.cycle,
            "request": past.request,
            "done": [*past.done, *(item.text for item in decisions if past.since < item.seq < end)],
        }
        for past, end in zip(cycles, ends, strict=False)
    ]


def permitted(conversation: Conversation, policy: Policy) -> list[str]:
    """The phases that the router may choose now, besides staying."""
    direct = [
        phase
        for phase in PHASE_TRANSITIONS.permitted(conversation.cycle.phase)
        if gates.why_not_leave(conversation, phase, policy) is None
    ]
    way = QUALITY_PHASES if gates.closed(conversation, policy) else ()
    beyond = [phase for phase in (*way, Phase.CHAT) if phase not in direct and _beyond(conversation, phase, policy)]
    return [*direct, *beyond]


def _fixed(conversation: Conversation, policy: Policy) -> dict[str, Any]:
    """Everything in the question but what was written and done.

    What never changes comes first, then what only grows, then the rest: so providers cache most of the next question.
    """
    return {
        "roster": [
            {
                "slug": agent.slug,
                "name": agent.name,
                "kind": agent.kind,
                "role": agent.role,
                "use_when": agent.use_when,
                "phases": list(agent.phases),
            }
            for agent in policy.routable.values()
        ],
        "earlier": _earlier(conversation),
        "history": [],
        "cycle": conversation.cycle.number,
        "phase": conversation.cycle.phase,
        "permitted": permitted(conversation, policy),
        "open_gates": list(gates.open_gates(conversation, policy)),
        "can_end": bool(conversation.cycle.turns) and gates.why_not_leave(conversation, END, policy) is None,
        "participants": list(conversation.cycle.participants),
        "still_to_reflect": list(gates.yet_to_reflect(conversation, policy)),
        "waived": sorted(phases_of(conversation).waived),
        **({"checks": seen} if (seen := checks.sentences(conversation)) else {}),
        **({"plan_approved": True} if gates.must_be_carried_out(conversation, policy) else {}),
        "rejections": list(conversation.router.question.rejections if conversation.router.question else ()),
    }


def _lessons(conversation: Conversation, others: Sequence[str]) -> list[str]:
    """The newest lessons, those of this conversation last; it has shared its own with the others."""
    own = conversation.router.lessons
    new = [cut(lesson, LESSON) for lesson in others if not any(lesson.endswith(known) for known in own)]
    return [*dict.fromkeys((*new, *own))][-LESSONS:]


_json: Final = partial(json.dumps, ensure_ascii=False)


def _sizes(parts: Iterable[str]) -> int:
    return sum(weight(part) + 2 for part in parts)


def _shorter_messages(messages: Sequence[Message], room: int) -> list[str]:
    texts: list[str] = []
    for limit in MESSAGES:
        texts = [_message(message, limit) for message in messages]
        if _sizes(texts) <= room:
            break
    return texts


def _shorter_turns(turns: Sequence[OrchestratorTurn], done: list[str], room: int) -> list[str]:
    """The turns with the oldest ones' completions cut, then left out, until they fit; the last one's only after all."""
    sizes = [weight(turn) + 2 for turn in done]
    total = sum(sizes)
    older, last = range(len(turns) - 1), range(len(turns) - 1, len(turns))  # the last is what there is to decide on
    for limit, place in ((limit, place) for places in (older, last) for limit in COMPLETIONS[1:] for place in places):
        if total <= room:
            break
        done[place] = _turn(turns[place], limit, COMPLETIONS[1])
        size = weight(done[place]) + 2
        total = total - sizes[place] + size
        sizes[place] = size
    return done


def _beyond(conversation: Conversation, phase: Phase, policy: Policy) -> bool:
    """Whether a phase is reached only by passing through closed gates."""
    if phase is conversation.cycle.phase:
        return False
    way = gates.path(conversation, phase, policy)
    return way is not None and len(way) > 1


def _message(message: Message, limit: int) -> str:
    return _json(
        {
            "from": message.name,
            "role": message.role,
            "key": short_key(message.author),
            "text": with_context(cut(message.text, limit), message.context),
        }
    )


def _turn(turn: OrchestratorTurn, limit: int, reason: int) -> str:
    return _json(
        {
            "turn": turn.turn_id,
            "phase": turn.phase,
            "agents": list(turn.agents),
            "reason": cut(turn.reason, reason),
            "completions": [_completion(done, limit) for done in turn.completions],
            **_facts(turn),
        }
    )


def _facts(turn: OrchestratorTurn) -> dict[str, Any]:
    """What a turn changed, and the newest programs that it ran, each with its exit status."""
    facts: dict[str, Any] = {}
    if turn.changed:
        more = [f"and {len(turn.changed) - FILES} more"] if len(turn.changed) > FILES else []
        facts["changed"] = [*turn.changed[:FILES], *more]
    elif turn.has_effect:
        facts["changed"] = ["something outside the workspace"]
    if turn.ran:
        facts["ran"] = [
            f"{in_a_line(ran.command, COMMAND)} -> exit status {ran.status}" for ran in turn.ran[-PROGRAMS:]
        ]
    return facts


def _completion(done: Completion, limit: int) -> dict[str, Any]:
    text = done.text or done.error
    handed_over = {"hand_over": done.hand_over.phase} if done.hand_over is not None else {}
    return {
        "agent": done.agent,
        "outcome": done.outcome,
        "text": cut(text, limit) if limit else "[left out]" if text else "",
        "summary": cut(done.summary, limit) if limit else "",
        "verdict": done.verdict,
        **handed_over,
    }


class Written(Generic[T]):
    """What was written of values that never change, by conversation: of those that were in its last question.

    A value is known again by being the same object, not an equal one: to compare a turn costs as much as to write it.
    For one thread.
    """

    def __init__(self, write: Callable[[T], str], room: int = WRITTEN) -> None:
        """Remember what `write` gives, `room` characters of it: of the conversations that asked last."""
        self._write = write
        self._left = room
        self._known: OrderedDict[ConversationId, dict[int, tuple[T, str]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._known.values()))

    def of(self, conversation: ConversationId, values: Sequence[T]) -> list[str]:
        """What is written of each; only these values of the conversation are remembered."""
        known = self._known.pop(conversation, {})
        self._left += _room(known)
        # no one else has that id while the value is held here
        now = {id(value): known.get(id(value)) or (value, self._write(value)) for value in values}
        self._known[conversation] = now
        self._left -= _room(now)
        while self._left < 0:
            self._left += _room(self._known.popitem(last=False)[1])
        return [now[id(value)][1] for value in values]

    def forget(self, conversation: ConversationId) -> None:
        """Remember nothing of a conversation."""
        self._left += _room(self._known.pop(conversation, {}))

    def clear(self) -> None:
        """Remember nothing."""
        for conversation in list(self._known):
            self.forget(conversation)


def _room(known: Mapping[int, tuple[object, str]]) -> int:
    return sum(len(text) + PER_VALUE for _, text in known.values())


_whole_messages: Final = Written[Message](lambda message: _message(message, MESSAGES[0]))
_whole_turns: Final = Written[OrchestratorTurn](lambda turn: _turn(turn, COMPLETIONS[0], REASON_CHARACTERS))


def forget(conversation: ConversationId) -> None:
    """Drop what was written of the questions of a conversation."""
    _whole_messages.forget(conversation)
    _whole_turns.forget(conversation)
