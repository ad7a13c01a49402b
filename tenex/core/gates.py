"""What a phase permits: tools, ways out, and what it takes to waive a quality gate.

(DESIGN section 4, "Quality gates".)

Never: record anything; these are questions with a sentence for an answer.
"""

import re
from collections.abc import Iterable

from .conversation import Conversation
from .graph import END
from .phases import PHASE_ACCESS, PHASE_TRANSITIONS, QUALITY_PHASES, Access, Phase
from .roster import Agent, GateRules, Kind, Role, Rules, ToolRule
from .runs import Message, OrchestratorTurn

_QUOTED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\"[^\"\n]*\"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」|^[ \t]*>.*$",
    re.DOTALL | re.MULTILINE,
)


_NEGATION = re.compile(
    r"n['’]t\b|\b(?:not|never|no|cannot|nicht|nie|niemals|kein\w*|ne|pas|jamais|nunca|jamás|não|nao|mai|non|niet)\b|不|别|勿"
)
_SENTENCE_END = re.compile(r"[.!?;:\n。！？；]")
"""A negation before the words of a waiver, in the same sentence, turns them round. It errs on the side of asking."""


def may_use(tool: ToolRule, phase: Phase, agent: Agent) -> bool:
    """Whether an agent may use a tool in a phase: asked when tools are listed, and again when one is called."""
    if tool.access not in PHASE_ACCESS[phase] or agent.kind is Kind.ORCHESTRATOR:
        return False
    if agent.kind is Kind.EXPERT and tool.access in (Access.CHANGE, Access.RUN):
        return False
    if tool.access is Access.SPEAK:
        return phase is not Phase.REFLECTION or tool.name == "complete"
    return tool.access is Access.LEARN or tool.name in agent.tools


def refusal(name: str, phase: Phase, agent: Agent, rules: Rules) -> str | None:
    """Why a call is not permitted, as a sentence the model can act on; None if it is."""
    tool = rules.tools.get(name)
    if tool is not None and may_use(tool, phase, agent):
        return None
    allowed = sorted(known.name for known in rules.tools.values() if may_use(known, phase, agent))
    offer = f"You may use: {', '.join(allowed)}." if allowed else "You may use no tools now."
    if tool is None:
        return f"There is no tool {name}. {offer}"
    return f"The tool {name} may not be used by {agent.slug} in the {phase} phase; nothing was done. {offer}"


def leaving(conversation: Conversation, target: str, rules: Rules) -> str | None:
    """Why the phase cannot be left for `target` (a phase or END) yet, beyond what the table says; None if it can."""
    here = conversation.phase
    if target == END:
        if conversation.open_gates:
            gates = ", ".join(conversation.open_gates)
            return f"END is refused: this cycle has executed, and these gates are open: {gates}. Go on to the first."
        return None
    if here is Phase.BRAINSTORM and not conversation.wrote_since_entry:
        return "A brainstorm is left only when the person has written since it began; wait for them with USER."
    if here is Phase.PLAN and rules.gates.plan_approval == "person" and not _person_after_plan(conversation):
        return "The plan needs the person's approval before it is left; wait for them with USER."
    if here is Phase.VERIFICATION and target == Phase.CHORES and _is_open(conversation, Phase.VERIFICATION):
        return (
            "Verification is left for chores only with the verdict `verified`; send it back to execute, or let "
            "somebody verify again."
        )
    if here is Phase.CHORES and target == Phase.REFLECTION and _is_open(conversation, Phase.CHORES):
        return "The chores have not been done: no agent has finished a turn in this phase."
    if here is Phase.REFLECTION and target == Phase.CHAT and _is_open(conversation, Phase.REFLECTION):
        return f"Not everybody has reflected; still to do: {', '.join(yet_to_reflect(conversation, rules))}."
    return None


def _is_open(conversation: Conversation, gate: Phase) -> bool:
    return gate in conversation.open_gates


def _person_after_plan(conversation: Conversation) -> bool:
    return any(m.role is not None and m.seq > _last_turn_seq(conversation) for m in conversation.messages)


def _last_turn_seq(conversation: Conversation) -> int:
    return conversation.turns[-1].seq if conversation.turns else 0


def met(conversation: Conversation, turn: OrchestratorTurn, rules: Rules) -> Phase | None:
    """The quality gate that a turn meets by closing, if it does."""
    finished = {done.verdict for done in turn.completions if done.outcome == "finished"}
    if not conversation.executed or turn.phase not in QUALITY_PHASES:
        return None
    if turn.phase is Phase.REFLECTION:
        return None if yet_to_reflect(conversation, rules) else turn.phase
    if turn.phase is Phase.VERIFICATION:
        return turn.phase if "verified" in finished and "issues" not in finished else None
    return turn.phase if finished else None


def yet_to_reflect(conversation: Conversation, rules: Rules) -> tuple[str, ...]:
    """The participants of this cycle, still in the roster, who have not reflected."""
    return tuple(a for a in conversation.participants if a in rules.roster and a not in conversation.reflected)


def path(conversation: Conversation, target: Phase) -> tuple[Phase, ...] | None:
    """The phases entered on the way to `target`: itself, after those that are waived; None if there is no way."""
    here, waived = conversation.phase, conversation.waived
    if PHASE_TRANSITIONS.permits(here, target):
        return (target,)
    way: list[Phase] = []
    for gate in QUALITY_PHASES:
        if gate in waived and PHASE_TRANSITIONS.permits(way[-1] if way else here, gate):
            way.append(gate)
            if PHASE_TRANSITIONS.permits(gate, target):
                return (*way, target)
    return None


def waived_to_the_end(conversation: Conversation) -> tuple[Phase, ...]:
    """The waived phases that are passed through before END, in order."""
    way: list[Phase] = []
    here = conversation.phase
    for gate in QUALITY_PHASES:
        if gate in conversation.waived and PHASE_TRANSITIONS.permits(here, gate):
            way.append(gate)
            here = gate
    return tuple(way)


def may_waive(role: Role | None, gates: GateRules) -> bool:
    """Whether somebody of that role may give up a gate."""
    return role is Role.OWNER or (role is Role.MEMBER and gates.members_may_waive)


def proof_of_waiver(messages: Iterable[Message], quote: str, message_id: str, gates: GateRules) -> Message | str:
    """The message in which a person waived, or a sentence that says why the quote proves nothing.

    The quote must stand letter for letter, outside quoted text, in a message of this cycle written by someone who
    may waive, and hold one of the configured phrases.
    """
    message = next((m for m in messages if m.event_id == message_id), None)
    if message is None:
        return f"A waiver must name a message of this cycle; {message_id!r} is none."
    if not may_waive(message.role, gates):
        return f"{message.name} may not waive a quality gate."
    own_words = _QUOTED.sub("\0", message.text)
    if len(quote.strip()) < 4 or quote not in own_words:  # a shorter quote says nothing
        return "The quote does not stand, letter for letter, in the person's own words of that message."
    lowered = quote.lower()
    said = next((phrase for phrase in gates.waiver_phrases if _holds(lowered, phrase.lower())), None)
    if said is None:
        return "The quote does not say that a check may be left out."
    before = own_words[: own_words.index(quote)].lower() + lowered[: lowered.index(said.lower())]
    if _NEGATION.search(_SENTENCE_END.split(before)[-1]):
        return "In its sentence the quote is negated: it says the contrary."
    return message


def _holds(text: str, phrase: str) -> bool:
    """Whether the phrase stands in the text, not as a part of other words where it begins and ends with letters."""
    start = r"(?<!\w)" if phrase[:1].isascii() and phrase[:1].isalnum() else ""
    end = r"(?!\w)" if phrase[-1:].isascii() and phrase[-1:].isalnum() else ""
    return re.search(start + re.escape(phrase) + end, text) is not None
