"""What an agent in reflection is shown of a cycle in which a turn or its own calls went wrong: both.

Where all went well the messages and the hand-off say what was done. It reads `State.history`, which may be cut or
missing: then the note is shorter, and no rule depends on it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tenex.core.history.state import CallSummary
from tenex.core.memory.window import cut_bytes, in_a_line
from tenex.core.messages import Note
from tenex.core.state import State
from tenex.core.text.amounts import count
from tenex.core.work.run import Run

TURNS: Final = 20
"""Turns that are listed, the newest."""

CALLS: Final = 20
"""Different calls that went wrong which are listed, the newest."""

WORDS: Final = 160
"""Characters of a call's arguments, and of what came of it."""


def reflection_notes(state: State, run: Run, room: int) -> Iterator[Note]:
    """A note on the cycle for a run that begins, in that many bytes."""
    if state.history is None:
        return
    calls = [one for one in state.history.calls if one.cycle == state.cycle.number]
    own = [call for call in calls if call.run.partition(".")[2] == run.agent]
    has_failed = any(
        not done.is_finished or done.verdict == "issues" for t in state.cycle.turns for done in t.completions
    )
    if not has_failed and not any(map(_went_wrong, own)):
        return
    parts = []
    if turns := [*_turns(state, calls)][-TURNS:]:
        parts.append(cut_bytes("\n".join(turns), room // 3))
    if wrong := [*_wrong(own)][-CALLS:]:
        head = "Your own calls that failed, were refused, or ended with an error:"
        parts.append(cut_bytes("\n".join([head, *wrong]), room // 2))
    if parts:
        yield Note(title="What happened", text="\n\n".join(parts))


def _turns(state: State, calls: Sequence[CallSummary]) -> Iterator[str]:
    for turn in state.cycle.turns:
        done = []
        for completion in turn.completions:
            run = f"{turn.turn_id}.{completion.agent}"
            made = [call for call in calls if call.run == run and call.seq > turn.seq]  # not of one that was undone
            wrong = sum(map(_went_wrong, made))
            facts = [completion.verdict or completion.outcome, *([count(len(made), "call")] if made else [])]
            done.append(f"{completion.agent} {', '.join(facts)}" + (f", {wrong} of them went wrong" if wrong else ""))
        yield f"{turn.turn_id}, {turn.phase}: {'; '.join(done)}"


def _went_wrong(call: CallSummary) -> bool:
    return not call.is_broken_off and (call.outcome != "ok" or bool(call.exit_status))


def _wrong(calls: Sequence[CallSummary]) -> Iterator[str]:
    """A line for each call that went wrong; those that read alike are counted."""
    lines = Counter[str]()
    for call in calls:
        if _went_wrong(call):
            given = in_a_line(", ".join(f"{name}={value}" for name, value in call.arguments.items()), WORDS)
            how = call.outcome if call.outcome != "ok" else f"exit status {call.exit_status}"
            lines[f"- {call.tool}({given}): {how}: {in_a_line(call.result, WORDS)}"] += 1
    for line, times in lines.items():
        yield line if times == 1 else f"{line} ({times} times)"
