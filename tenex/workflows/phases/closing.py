"""The last word on a cycle that changed something: what the daemon has seen, and what agents say, as their words.

    Done.                      it was checked, and nothing is worse than before
    Done, as AGENT says.       the project has no check, and a command of the verifier failed, as it may have to
    Done, but not checked.     no check of the project came to its end, or somebody left the verification out
    Partly done.               something that was asked for could not be met, or what is worse was accepted
    Nothing was changed.       what calls changed is as it was

Which words of agents are published is decided here too: one message per answer, question and issue, and this one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tenex.core.history.reducers import so_far
from tenex.core.memory.window import in_a_line
from tenex.core.messages import CallResult
from tenex.core.phases import PHASES, QUALITY_PHASES, Phase
from tenex.core.records import Outcome, WorkVerdict
from tenex.core.state import State
from tenex.core.text.amounts import count, dollars, duration
from tenex.core.work.records import Finding
from tenex.core.work.run import Run
from tenex.core.work.tool_names import PROGRAM_CALL
from tenex.core.work.turn import OrchestratorTurn
from tenex.workflows.phases.state import phases_of

from . import checks, fates

FILES: Final = 12
"""Changed files that are named."""

WORDS: Final = 300
"""Characters of an agent's summary."""

COMMANDS: Final = 3
"""Commands of a verifier that are named: those that did not end well and the last one, as a phone shows them."""

COMMAND: Final = 100
"""Characters of one of them: a test command with its options."""

_SCHEME: Final = re.compile(r"\bhttps?://(?=[\w\[])")
"""Of an address in a command: with it clients show a link and a preview, of what is in the sandbox or is no news."""

NOTHING_CHANGED: Final = "Nothing was changed in the end."


def is_published(state: State, run: Run, outcome: Outcome, verdict: WorkVerdict) -> bool:
    """Whether users get an agent's last words as a message; else they are in the conversation's file only.

    What a gate finds right is in the last word on the cycle, and so is what a repair brought that changed something. A
    failure is published where something depends on it, and so is what an agent says after it was shown a message that
    came in its turn.
    """
    turn = state.work.turn
    has_been_addressed = turn is not None and run.shown > turn.seq
    if outcome != "finished":
        return not PHASES[run.phase].may_fail
    if has_been_addressed:
        return True
    if run.phase is Phase.EXECUTE:
        is_in_last_word = turn is not None and turn.has_effect and phases_of(state).executed
        return not (is_in_last_word and is_repair(state))
    return run.phase not in QUALITY_PHASES or verdict == "issues"


def facts_of_turn(state: State) -> str:
    """What users are told beside the words of an agent that ends its part of a turn in execute; "" for nothing.

    Nothing is said beside the answer to what is only a question: that it changed nothing is what was to be expected.
    """
    turn = state.work.turn
    if turn is None or turn.phase is not Phase.EXECUTE:
        return ""
    if turn.has_effect:
        return "" if phases_of(state).executed else NOTHING_CHANGED
    is_answer = phases_of(state).is_question and _newest(state) < turn.seq
    if turn.ran or is_answer:
        return ""
    return "No file was changed." if _has_own_calls(state) else "No file was changed and nothing was run."


def _has_own_calls(state: State) -> bool:
    """Whether an agent has made calls by itself, as a program of others does: what these have run, no one has seen."""
    entries = (entry for run in state.work.runs.values() for entry in run.entries)
    return any(isinstance(entry, CallResult) and entry.tool == PROGRAM_CALL for entry in entries)


def last_word(state: State) -> str:
    """The message at the end of a cycle."""
    facts = [
        _changed(state),
        *_checks(state),
        *_verified(state),
        *_not_met(state),
        *_left_out(state),
        *_tidied(state),
        _taken(state),
    ]
    if state.requests:
        facts.append("What you wrote meanwhile is next.")
    listed = "\n".join(f"- {fact}" for fact in facts if fact)  # clients that draw Markdown would join plain lines
    return "\n\n".join(part for part in (_first_word(state), unpublished_result(state), listed) if part)


def unpublished_answer(state: State) -> str:
    """What turns have said since users wrote last, where users were sent nothing of it; "" for nothing.

    A gate's words are left to the last word on the cycle, and a cycle in which nothing was changed has none.
    """
    newest = _newest(state)
    turns = [turn for turn in state.cycle.turns if turn.seq > newest]
    names = {turn.turn_id for turn in turns}
    if any(message.sent_as and message.turn in names for message in state.memory.recent):
        return ""
    said = [
        f"{done.agent} says: {done.text or done.summary}"
        for turn in turns
        for done in turn.completions
        if done.outcome == "finished" and (done.text or done.summary)
    ]
    return "\n\n".join([*said, "Nothing was changed."]) if said else ""


def is_news(state: State) -> bool:
    """Whether the last word says more or other than what users were sent before: then it rings.

    Not so where they were sent the result of the work, and an answer to what they have written since.
    """
    if _first_word(state) != _DONE or checks.has_fewer_tests(state) or fates.are_unclear(state):
        return True
    place = max((place for place, turn in enumerate(state.cycle.turns) if turn.phase is Phase.EXECUTE), default=None)
    if place is None or _unpublished(state) is not None:
        return True
    built, *later = state.cycle.turns[place:]
    sent = [message for message in state.memory.recent if message.sent_as]
    written = max((message.seq for message in state.cycle.messages), default=0)
    is_sent = any(message.turn == built.turn_id for message in sent) and sent[-1].seq > written
    has_failed = any(
        done.outcome != "finished" and not PHASES[turn.phase].may_fail
        for turn in (built, *later)
        for done in turn.completions
    )
    has_issues = any(done.verdict == "issues" for turn in later for done in turn.completions)
    return not is_sent or has_failed or has_issues


def is_repair(state: State) -> bool:
    """Whether work goes on after a verification, with no new message since."""
    return _follows_verification(state.cycle.turns, _newest(state))


def _follows_verification(turns: Sequence[OrchestratorTurn], newest: int) -> bool:
    """Whether one of the turns was a verification, after the newest message of users."""
    return any(turn.phase is Phase.VERIFICATION for turn in turns if turn.seq > newest)


def _newest(state: State, until: int | None = None) -> int:
    """The seq of the newest message, or of the newest before a record; 0 for none."""
    return max((message.seq for message in state.cycle.messages if until is None or message.seq < until), default=0)


_DONE: Final = "Done."


def _first_word(state: State) -> str:
    if not phases_of(state).executed:
        return NOTHING_CHANGED
    if checks.worse(state) or _unmet(state):
        return "Partly done."
    if Phase.VERIFICATION in phases_of(state).gates_met and not checks.not_run(state):
        if checks.has_ended_any(state):
            return _DONE
        turn = _verification(state)
        if turn is not None and not checks.results(state):
            return _by_verifier(turn)
    return "Done, but not checked."


def _by_verifier(turn: OrchestratorTurn) -> str:
    """The first word where only the verifier has looked: whether a command had to fail, only it can say."""
    latest = {program.command: program.status for program in turn.ran}
    if not any(latest.values()):
        return _DONE
    names = [done.agent for done in turn.completions if done.verdict == "verified"]
    return f"Done, as {' and '.join(names)} {'says' if len(names) == 1 else 'say'}."


def _verification(state: State) -> OrchestratorTurn | None:
    """The newest one of the cycle."""
    return next((turn for turn in reversed(state.cycle.turns) if turn.phase is Phase.VERIFICATION), None)


def unpublished_result(state: State) -> str:
    """The words of those who built, where they were not published: after a repair; "" for none."""
    built = _unpublished(state)
    done = [done for done in built.completions if done.outcome == "finished"] if built is not None else []
    return "\n\n".join(f"{completion.agent} says: {completion.text}" for completion in done)


def was_repaired_in_vain(state: State) -> bool:
    """Whether the last turn was a repair that changed nothing, of which users read what its agents say."""
    last = state.cycle.turns[-1] if state.cycle.turns else None
    if last is None or last.phase is not Phase.EXECUTE or last.has_effect:
        return False
    return _follows_verification(state.cycle.turns[:-1], _newest(state, until=last.seq))


def _unpublished(state: State) -> OrchestratorTurn | None:
    """The last repair, whose words were not published; None where the last work in execute was none."""
    place = max((place for place, turn in enumerate(state.cycle.turns) if turn.phase is Phase.EXECUTE), default=None)
    if place is None:
        return None
    built, *later = state.cycle.turns[place:]
    newest = _newest(state, until=later[0].seq if later else None)
    is_repaired = _follows_verification(state.cycle.turns[:place], newest)
    return built if built.has_effect and is_repaired else None


def _changed(state: State) -> str:
    paths = sorted(checks.differing(state))
    if not paths:
        return ""
    more = f" and {count(len(paths) - FILES, 'other')}" if len(paths) > FILES else ""
    return f"Changed: {', '.join(_with_lines(state, path) for path in paths[:FILES])}{more}."


def _with_lines(state: State, path: str) -> str:
    inspection = phases_of(state).inspection
    if inspection is not None and any(file.path == path and file.kind == "deleted" for file in inspection.changed):
        return f"{path} (deleted)"
    added, removed = state.cycle.lines.get(path, (0, 0))
    return " ".join([path, *([f"+{added:,}"] if added else []), *([f"−{removed:,}"] if removed else [])])


def _checks(state: State) -> Iterator[str]:
    """How each check of the project ended, here and before."""
    for result in checks.results(state):
        yield checks.statement(state, result)
    for name in checks.not_run(state):
        yield f"{name[:1].upper()}{name[1:]}: not run on these files."


def _verified(state: State) -> Iterator[str]:
    """What the newest verification ran, and what its agents said."""
    turn = _verification(state)
    if turn is None or not phases_of(state).executed:
        return
    latest: dict[str, int] = {}
    for program in turn.ran:
        latest.pop(program.command, None)  # to the end, as the newest
        latest[program.command] = program.status
    names = ", ".join(dict.fromkeys(program.agent for program in turn.ran))
    if latest:
        yield f"{names} ran {_commands(latest)}."
    elif turn.looked_at:
        yield f"{', '.join(turn.agents)} read what was changed, and ran nothing."
    published = {message.text for message in state.memory.recent if message.sent_as and message.turn == turn.turn_id}
    for done in turn.completions:
        words = done.text or done.summary
        if done.verdict in ("verified", "untried") and words and words not in published:  # each is said once
            yield f"{done.agent} says: “{in_a_line(words, WORDS)}”"


def _commands(statuses: Mapping[str, int]) -> str:
    """The last command and those before it that failed, with their statuses, and how many others there were."""
    *others, last = statuses
    failed = [command for command in others if statuses[command]][1 - COMMANDS :]
    parts = [
        f"`{in_a_line(_SCHEME.sub('', command), COMMAND)}`: {_status(statuses[command])}" for command in (*failed, last)
    ]
    left = [statuses[command] for command in others if command not in failed]
    if left:
        parts.append(f"{count(len(left), 'other command')}{'' if any(left) else ': exit status 0'}")
    return "; ".join(parts)


def _status(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"ended by signal {-status}"


def _unmet(state: State) -> list[Finding]:
    """What the newest verification says cannot be met."""
    turn = _verification(state)
    done = turn.completions if turn is not None else ()
    return [finding for completion in done for finding in completion.findings if finding.result != "met"]


def _not_met(state: State) -> Iterator[str]:
    for finding in _unmet(state):
        yield f"{finding.result[:1].upper()}{finding.result[1:]}: {finding.what}" + (
            f" ({finding.how})." if finding.how else "."
        )


def _left_out(state: State) -> Iterator[str]:
    """What was not checked or left out, and on whose words."""
    for waiver in phases_of(state).waivers:
        if waiver.untried:
            who = fates.who_waived(state, waiver, "You")
            accepted = f"{who} accepted it" if who else "It was accepted"
            why = "" if checks.worse(state) else f"Not verified: {in_a_line(waiver.untried, WORDS).rstrip(' .')}. "
            yield f"{why}{accepted} so."
        elif Phase.VERIFICATION in waiver.phases and Phase.VERIFICATION not in phases_of(state).gates_met:
            who = fates.who_waived(state, waiver, "you")
            missing = "Not verified" if checks.has_ended_any(state) else "Not checked"
            yield f"{missing}: {f'{who} left the verification' if who else 'the verification was left'} out."
    yield from fates.settled_words(state)


def _tidied(state: State) -> Iterator[str]:
    tidied = [turn for turn in state.cycle.turns if turn.phase is Phase.CHORES and turn.has_effect]
    for turn in tidied[-1:]:
        said = (in_a_line(done.text or done.summary, WORDS).rstrip(" .") for done in turn.completions)
        yield "Tidied: " + " ".join(f"{words}." for words in said)


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
