"""Who works next: the rules of the first phase, then the way through the gates.

    chat, brainstorm ─ wait for the person          verification ─ verified ─► chores ─► reflection ─► END
    plan ─► execute ─► verification                 verification ─ issues ─► execute, twice, then the person

What failed is tried once more, then the person is asked. A choice that was rejected is not made again.
"""

import json
from dataclasses import dataclass

from tenex.core.messages import ModelRequest

from .asked import Question, Turn, read_question
from .intent import Intent, intent_of, intent_of_all
from .manners import manner_of
from .moves import NOTHING_DONE, OFFER
from .tasks import short

_REPAIRS = 2  # rounds of repair before the person is asked; more of the same rules would not help
_USUAL = {"chat": "project-manager", "brainstorm": "project-manager", "plan": "planner"}
_EXECUTOR = "executor"


@dataclass(frozen=True, slots=True)
class Choice:
    """A routing decision; END and USER stand alone, without a phase."""

    agents: tuple[str, ...]
    phase: str
    reason: str

    def to_json(self) -> str:
        """The decision as the core reads it."""
        fields = {"agents": list(self.agents), "phase": self.phase, "reason": self.reason}
        return json.dumps({name: value for name, value in fields.items() if value}, ensure_ascii=False)


def answer_route(request: ModelRequest) -> str:
    """Answer the router's question; whatever cannot be read leads to the person."""
    question = read_question(request)
    if question is None:
        return _wait("the routing question could not be read").to_json()
    choices = _distinct([_preferred(question), *_alternatives(question)])
    return choices[min(len(question.rejections), len(choices) - 1)].to_json()


def _wait(reason: str) -> Choice:
    return Choice(("USER",), "", reason)


def _end(reason: str) -> Choice:
    return Choice(("END",), "", reason)


def _preferred(question: Question) -> Choice:
    if not question.turns:
        return _by_text(question) if question.messages else _wait("nobody has written yet")
    last = question.turns[-1]
    is_news = _news(question) > 0
    if not last.is_done and last.phase != "reflection":
        return _after_failure(question, last, is_news)
    match last.phase.strip().lower():
        case "plan":
            if is_news and manner_of(question.messages[-1].text):
                return _go(question, "plan", "small talk; the plan still waits")
            if "execute" not in question.permitted:
                return _by_text(question) if is_news else _wait("the plan waits for the person's approval")
            return _go(question, "execute", "the plan is made")
        case "execute":
            return _after_execute(question, last, is_news)
        case "verification":
            return _after_verification(question, last, is_news)
        case "chores":
            return _on(question, "reflection", "the workspace is tidy; everyone who worked looks back")
        case "reflection":
            return _after_reflection(question)
        case _:
            if not question.messages and _is_offered(last):
                return _go(question, "execute", "what the last cycle left over is understood")
            return _by_text(question) if is_news else _wait("the answer is given; it is the person's turn")


def _by_text(question: Question) -> Choice:
    """Route by the newest message like a first one, into a permitted phase."""
    texts = [message.text for message in question.messages]
    is_small_talk = manner_of(texts[-1]) is not None
    intent = Intent.CHAT if is_small_talk else intent_of_all(texts)
    if intent is Intent.ASSENT:
        last = question.turns[-1].phase if question.turns else ""
        is_offered = bool(question.turns) and _is_offered(question.turns[-1])
        intent = Intent.EXECUTE if _has_request(texts) or is_offered or last == "plan" else Intent.CHAT
        intent = Intent.PLAN if last == "brainstorm" and intent is Intent.CHAT else intent
    reasons = {
        Intent.EXECUTE: "an action and a specific object",
        Intent.PLAN: "it is about architecture",
        Intent.BRAINSTORM: "it explores ideas",
    }
    unclear = "small talk" if is_small_talk else "it is not clear what to make"
    reason = f"{reasons.get(intent, unclear)}: “{short(texts[-1])}”"
    for phase in dict.fromkeys((intent.value, "execute" if intent is Intent.PLAN else "chat", "chat")):
        if phase == question.phase or phase in question.permitted:
            return _go(question, phase, reason)
    return _go(question, question.phase, reason)


def _is_offered(turn: Turn) -> bool:
    return turn.phase == "chat" and any(OFFER in (completion.text or "") for completion in turn.completions)


def _left_over(question: Question) -> bool:
    """Whether something was asked for while what came before was tested or tidied, and nobody has built since.

    What comes during the very last turn is none of it where that turn was reflection: END carries it over.
    """
    executed = max((at for at, turn in enumerate(question.turns) if turn.phase == "execute"), default=-1)
    late = {turn.turn for turn in question.turns[executed + 1 :]}
    if question.turns[-1].phase == "reflection":
        late.discard(question.turns[-1].turn)
    return any(m.after_turn in late and intent_of(m.text) is Intent.EXECUTE for m in question.messages)


def _has_request(texts: list[str]) -> bool:
    return any(intent_of(text) is Intent.EXECUTE for text in texts)


def _after_failure(question: Question, last: Turn, is_news: bool) -> Choice:
    if is_news:
        return _again(question, last) if _is_assent(question) else _by_text(question)
    if last.is_stopped:
        return _wait("the work was stopped")
    since = question.turns[-_turns_since_message(question) :]
    failed = [turn for turn in since if not turn.is_done and turn.phase == last.phase]
    if len(failed) > 1:
        how = ", ".join(f"{c.agent} {c.outcome.replace('_', ' ')}" for c in last.completions) or "nobody finished"
        return _wait(f"the work in {last.phase} did not succeed a second time: {how}")
    return _again(question, last)


def _again(question: Question, last: Turn) -> Choice:
    known = {worker.slug for worker in question.roster}
    agents = tuple(agent for agent in last.agents if agent in known)
    if not agents:
        return _go(question, last.phase, "what failed is tried again")
    return Choice(agents, last.phase, "what failed is tried again")


def _after_execute(question: Question, last: Turn, is_news: bool) -> Choice:
    finished = [completion for completion in last.completions if completion.outcome == "finished"]
    has_nothing = all((completion.summary or "").startswith(NOTHING_DONE) for completion in finished)
    if has_nothing:
        # an answer to an `ask` is newer than the turn as well, and was heard in it
        newest = question.messages[-1].text if is_news else ""
        is_wish = is_news and (intent_of(newest) is not Intent.CHAT or manner_of(newest) is not None)
        return _by_text(question) if is_wish else _wait("nothing was made; the person has to say more")
    return _on(question, "verification", "what was made has to be tested")


def _on(question: Question, gate: str, reason: str) -> Choice:
    """On to a gate; to the first open one after it where it is waived, and to the end where all are."""
    if question.can_end:
        return _end("the work is done, and the gates still ahead were waived")
    if gate in question.waived:
        gates = [other for other in question.open_gates if other not in question.waived]
        if later := next((other for other in gates if other in question.permitted), None):
            return _go(question, later, f"{gate} was waived")
    return _go(question, gate, reason)


def _after_verification(question: Question, last: Turn, is_news: bool) -> Choice:
    verdicts = [completion.verdict for completion in last.completions if completion.outcome == "finished"]
    if verdicts and all(verdict == "verified" for verdict in verdicts):
        if _left_over(question):
            return _go(question, "execute", "the person asked for more in the meantime")
        return _on(question, "chores", "it was verified")
    if not any(verdict == "issues" for verdict in verdicts):
        return _wait("verification ended without a verdict")
    since = question.turns[-_turns_since_message(question) :]
    rounds = sum(any(c.verdict == "issues" for c in turn.completions) for turn in since)
    if is_news and rounds > _REPAIRS and not _is_assent(question):
        return _by_text(question)
    if rounds > _REPAIRS and not is_news:
        return _wait(f"verification still finds issues after {_REPAIRS} rounds of repair")
    return _go(question, "execute", "verification found issues")


def _after_reflection(question: Question) -> Choice:
    if question.can_end and _left_over(question):
        return _go(question, "chat", "the person asked for more in the meantime: a new cycle")
    if question.can_end:
        return _end("everyone has looked back, and no gate is open")
    missing = _to_reflect(question)
    if missing and "reflection" in question.open_gates:
        return Choice(missing, "reflection", "they have not looked back yet")
    return _to_open_gate(question) or _wait("a gate is open that no way leads to")


def _to_open_gate(question: Question) -> Choice | None:
    for gate in question.open_gates:
        if gate in question.permitted:
            return _go(question, gate, f"the gate {gate} is open")
    return None


def _go(question: Question, phase: str, reason: str) -> Choice:
    agents = _agents(question, phase)
    return Choice(agents, phase, reason) if agents else _wait(f"nobody in the roster can work in {phase}")


def _agents(question: Question, phase: str) -> tuple[str, ...]:
    if phase == "reflection" and (waiting := _to_reflect(question)):
        return waiting
    return _able(question, phase)[:1]


def _able(question: Question, phase: str) -> tuple[str, ...]:
    """Workers for a phase, the usual one first, then those who say they work in it, then the rest."""
    usual = _USUAL.get(phase, _EXECUTOR)
    workers = [worker for worker in question.roster if worker.kind == "worker" and worker.slug]
    ordered = sorted(workers, key=lambda worker: (worker.slug != usual, phase not in (worker.phases or ())))
    return tuple(worker.slug for worker in ordered)


def _to_reflect(question: Question) -> tuple[str, ...]:
    """Participants still in the roster who have not looked back, in order; a failed attempt counts."""
    if question.still_to_reflect is not None:
        return tuple(question.still_to_reflect)
    known = {worker.slug for worker in question.roster}
    turns = [turn for turn in question.turns if turn.phase == "reflection"]
    reflected = {completion.agent for turn in turns for completion in turn.completions}
    return tuple(dict.fromkeys(slug for slug in question.participants if slug in known - reflected))


def _news(question: Question) -> int:
    """How many messages are newer than the last turn."""
    last = question.turns[-1].turn if question.turns else None
    return sum(message.after_turn == last for message in question.messages) if last is not None else 0


def _is_assent(question: Question) -> bool:
    return bool(question.messages) and intent_of(question.messages[-1].text) is Intent.ASSENT


def _turns_since_message(question: Question) -> int:
    """How many turns have been opened since the person last wrote."""
    opened = question.messages[-1].after_turn if question.messages else None
    ids = [turn.turn for turn in question.turns]
    return (len(ids) - 1 - ids.index(opened) if opened in ids else len(ids)) or len(ids)


def _alternatives(question: Question) -> list[Choice]:
    """What to try where the first choice was rejected: an open gate, another worker, then the person."""
    first = _preferred(question)
    refused = question.rejections[-1] if question.rejections else ""
    because = f"the first choice was refused: {short(refused, 200)}"
    found: list[Choice] = []
    if first.agents in (("END",), ("USER",)):
        gate = _to_open_gate(question) if first.agents == ("END",) else None
        news = _by_text(question) if _news(question) or (not question.turns and question.messages) else None
        found = [choice for choice in (gate, news) if choice is not None]
    elif first.phase == question.phase or first.phase in question.permitted:
        others = [slug for slug in _able(question, first.phase) if slug not in first.agents]
        found = [Choice((others[0],), first.phase, because)] if others else []
    elif gate := _to_open_gate(question):
        found = [gate]
    return [*found[:1], _wait(because)]


def _distinct(choices: list[Choice]) -> list[Choice]:
    return list({(choice.agents, choice.phase): choice for choice in reversed(choices)}.values())[::-1]
