"""The last word on a cycle that changed something: what was changed, how it was checked, and what it took.

Which words of agents are published is decided here too: one message per answer, question and issue, and this one.
"""

import re
from collections.abc import Iterator
from typing import Final

from tenex.core.amounts import count, dollars, duration
from tenex.core.history.reducers import so_far
from tenex.core.ids import Slug
from tenex.core.memory.window import in_a_line
from tenex.core.names import is_placeholder
from tenex.core.phases import QUALITY_PHASES, Phase
from tenex.core.records import Outcome, WorkVerdict
from tenex.core.state import State
from tenex.core.work.run import Run
from tenex.core.work.turn import OrchestratorTurn, ProgramRun
from tenex.workflows.phases.records import Waived
from tenex.workflows.phases.state import phases_of

from . import evidence, waivers

FILES: Final = 12
"""Changed files that are named."""

WORDS: Final = 300
"""Characters of an agent's summary."""

LONGEST: Final = 4_000
"""Characters of a command that are looked at."""

COMMANDS: Final = 3
"""Commands that are named: the suite, and what was tried by hand."""

COMMAND: Final = 100
"""Characters of one of them: a test command with its options."""

_SCRIPT: Final = re.compile(
    r"""\b((?:python[\d.]*|node|perl|ruby)\b[^'"|;&]{0,40} -[ce] )(?:'[^']{25,}(?:'|$)|"(?:\\.|[^"\\]){25,}(?:"|$))""",
    re.DOTALL,
)
"""A program in an argument, as of `python -c`: no one reads it on a phone, and the verifier says what it showed."""

_ITEM: Final = re.compile(r"[.;,]?\n(?:[-*+•]|\d{1,3}[.)])[ \t]+")

_VERDICT: Final = re.compile(r"\A(\*\*|__|)verified\s*(?:\1\s*[:.–—\n]+|[:.–—\n]+\s*\1)\s*", re.IGNORECASE)
"""How verifiers like to begin, which is said already."""


def is_published(state: State, run: Run, outcome: Outcome, verdict: WorkVerdict) -> bool:
    """Whether users get an agent's last words as a message; else they are in the conversation's file only.

    What a gate finds right is in the last word on the cycle, and so is what a repair brought. A failure is published,
    and so is what an agent says after it was shown a message that came in its turn.
    """
    turn = state.work.turn
    has_been_addressed = turn is not None and run.shown > turn.seq
    if outcome != "finished" or has_been_addressed:
        return True
    if run.phase is Phase.EXECUTE:
        return not _is_repair(state)
    return run.phase not in QUALITY_PHASES or verdict == "issues"


def last_word(state: State) -> str:
    """The message at the end of a cycle that changed something."""
    facts = [_changed(state), *_checks(state), _taken(state)]
    if state.requests:
        facts.append("What you wrote meanwhile is next.")
    listed = "\n".join(f"- {fact}" for fact in facts if fact)  # clients that draw Markdown would join plain lines
    return f"{_result(state) or 'Done.'}\n\n{listed}"


def has_been_answered(state: State) -> bool:
    """Whether users were sent the result of the work, and an answer to what they have written since, if they have.

    Then the last word is about the checks alone. Not so after a failure or an issue: that it was checked is news then.
    """
    place = max((place for place, turn in enumerate(state.cycle.turns) if turn.phase is Phase.EXECUTE), default=None)
    if place is None or _unpublished(state) is not None:
        return False
    built, *later = state.cycle.turns[place:]
    sent = [message for message in state.memory.recent if message.sent_as]
    written = max((message.seq for message in state.cycle.messages), default=0)
    return (
        any(message.turn == built.turn_id for message in sent)
        and sent[-1].seq > written
        and all(done.outcome == "finished" for turn in (built, *later) for done in turn.completions)
        and not any(done.verdict == "issues" for turn in later for done in turn.completions)
    )


def speaker(state: State) -> Slug | None:
    """The agent whose words the last word begins with; None where there is none, or several."""
    built = _unpublished(state)
    done = [done for done in built.completions if done.outcome == "finished"] if built is not None else []
    return done[0].agent if len(done) == 1 else None


def _is_repair(state: State, until: int | None = None) -> bool:
    """Whether work goes on after a verification that found issues, with no new message since, or before a record."""
    newest = max((message.seq for message in state.cycle.messages if until is None or message.seq < until), default=0)
    return any(done.verdict == "issues" for turn in state.cycle.turns if turn.seq > newest for done in turn.completions)


def _result(state: State) -> str:
    """The words of those who built, where they were not published."""
    built = _unpublished(state)
    return "\n\n".join(done.text for done in built.completions if done.outcome == "finished") if built else ""


def _unpublished(state: State) -> OrchestratorTurn | None:
    """The last repair, whose words were not published; None where the last work in execute was none."""
    place = max((place for place, turn in enumerate(state.cycle.turns) if turn.phase is Phase.EXECUTE), default=None)
    if place is None:
        return None
    built, *later = state.cycle.turns[place:]
    return built if _is_repair(state, until=later[0].seq if later else None) else None


def _changed(state: State) -> str:
    paths = sorted(state.cycle.touched)
    if not paths:
        return ""
    more = f" and {count(len(paths) - FILES, 'other')}" if len(paths) > FILES else ""
    return f"Changed: {', '.join(_with_lines(state, path) for path in paths[:FILES])}{more}."


def _with_lines(state: State, path: str) -> str:
    added, removed = state.cycle.lines.get(path, (0, 0))
    return " ".join([path, *([f"+{added:,}"] if added else []), *([f"−{removed:,}"] if removed else [])])


def _checks(state: State) -> Iterator[str]:
    """How it was checked, what was left out, and what was tidied."""
    for waiver in phases_of(state).waivers:
        if waiver.untried:
            who = _name(state, waiver, "You")
            yield f"Not tried: {_line(waiver.untried)}. {f'{who} accepted it' if who else 'It was accepted'} so."
        elif Phase.VERIFICATION in waiver.phases and Phase.VERIFICATION not in phases_of(state).gates_met:
            who = _name(state, waiver, "you")
            yield f"Not checked: {f'{who} left the verification' if who else 'the verification was left'} out."
    if Phase.VERIFICATION in phases_of(state).gates_met:
        turn = next(turn for turn in reversed(state.cycle.turns) if turn.phase is Phase.VERIFICATION)
        yield _checked(state, turn)
    for waiver in phases_of(state).waivers:
        if waiver.unasked:
            who = _name(state, waiver, "you")
            yield f"Left out{f', as {who} wished' if who else ''}: {waivers.listed(waiver.phases)}."
    tidied = [turn for turn in state.cycle.turns if turn.phase is Phase.CHORES and turn.has_effect]
    for turn in tidied[-1:]:
        yield "Tidied: " + " ".join(_line(done.text or done.summary) + "." for done in turn.completions)


def _name(state: State, waiver: Waived, you: str) -> str:
    """The name of who waived, by their newest message; `you` for who is answered, "" for another without a name."""
    written = [
        message.name for message in state.memory.recent if message.author == waiver.author and message.role is not None
    ]
    names = [name for name in (*written[::-1], waiver.name) if not is_placeholder(name)]
    return names[0] if names else you if waiver.author == state.on_behalf_of else ""


def _checked(state: State, turn: OrchestratorTurn) -> str:
    verified = [done for done in turn.completions if done.verdict == "verified"]
    published = {message.text for message in state.memory.recent if message.sent_as and message.turn == turn.turn_id}
    words = [_line(done.text or done.summary) for done in verified if done.text not in published]  # each is said once
    latest: dict[str, int | None] = {}
    for program in turn.ran:
        if program.is_trial:
            command = _command(program)
            latest.pop(command, None)  # to the end, as the newest
            latest[command] = program.status
    passed = [command for command, status in latest.items() if status == 0][-COMMANDS:]
    hidden = [f"how {_command(program)} ended is not known" for program in evidence.hidden_trials(turn)]
    how = [f"{', '.join(passed)} ended without an error"] if passed else []
    how += hidden[-COMMANDS:]
    said = "; ".join(words)
    if not said:
        return f"Checked: {'; '.join(how) or 'it was read'}."
    if not how:
        return f"Checked by reading: {said}."
    if len(passed) == 1 and not hidden and passed[0] in said:
        return f"Checked: {said}."
    return f"Checked: {said} ({'; '.join(how)})."


def _command(program: ProgramRun) -> str:
    command = _SCRIPT.sub(r"\1…", program.command[:LONGEST])
    return f"`{in_a_line(command, COMMAND)}`"


def _taken(state: State) -> str:
    """The time of the work, without that in which somebody was waited for, and what the models used."""
    milliseconds = sum(turn.working or 0 for turn in state.cycle.turns)
    usage = state.cycle.usage
    if state.history is not None and state.history.open_cycle is not None:  # with what came between the turns
        cycle = so_far(state, state.history.open_cycle)
        milliseconds = cycle.working
        usage = cycle.usage
    tokens = usage.input_tokens + usage.output_tokens
    parts = [duration(milliseconds / 1000) if milliseconds >= 1_000 else "less than a second"]
    if tokens:
        parts.append(count(tokens, "token"))
    if cost := dollars(usage.cost_usd):
        parts.append(cost)
    return f"It took {', '.join(parts)}."


def _line(text: str) -> str:
    """An agent's words within a sentence: the name of the verdict only once, and a list as its items."""
    words = _VERDICT.sub("", text[:LONGEST].strip())
    lines = "".join(f"\n{line.strip()}" for line in words.splitlines() if line.strip())
    listed = _ITEM.sub("; ", lines).replace(":; ", ": ").lstrip("; \n")
    return in_a_line(listed or text, WORDS).rstrip(" .")
