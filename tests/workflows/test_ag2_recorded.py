"""Sessions that AG2 1.2.1's own workflow adapter played go the same in our fold, but for a table of its faults.

Each line of `ag2_sessions.jsonl` is a session and what AG2 made of it: random graphs, rounds, calls and changes of
variables. A `speaker` of null is who is expected, `plain` is a text without calls, `may` is who may send a text then.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tenex.core.errors import ConfigurationError
from tenex.core.work.routes import Finish, Handoff
from tenex.workflows.speakers import TransitionGraph, Workflow
from tenex.workflows.speakers.fold import Folded, change_context, fold, may_speak
from tenex.workflows.speakers.rounds import Called, Envelope, Refused

from .sessions import STRANGER

Step = dict[str, Any]
Session = dict[str, Any]

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "ag2_sessions.jsonl").read_text().splitlines()]
FAULTS: dict[str, Callable[[Session, Step, Step, Step], bool]] = {
    # the channel is stuck: it expects somebody who cannot speak. We refuse the handoff, and the rules decide
    "a handoff to a stranger": lambda session, given, ours, theirs: any(
        call["handoff"] and call["handoff"]["target"] not in session["participants"] for call in given["calls"]
    ),
    # stuck as above; we end it with a reason of its own
    "a rule names a stranger": lambda session, given, ours, theirs: (
        (ours["closed"], theirs["may"], theirs["next"] == STRANGER or theirs["next"] not in session["participants"])
        == ("unknown_speaker", [], True)
    ),
    # a round without text and routing is thrown away, and no one speaks until the time limit; for us it is a turn
    "a silent round": lambda session, given, ours, theirs: bool(theirs["silent"]),
    # where no speaker is expected any may send; nothing but that differs
    "speaking after the end": lambda session, given, ours, theirs: (
        theirs["closed"] is not None and ours["may"] == [] and compared(ours, "may") == compared(theirs, "may")
    ),
}


def play(session: Session) -> dict[str, Any]:
    """What our fold makes of a session."""
    written = TransitionGraph.loads(session["graph"])
    try:
        graph, state = written.begin(session["participants"], session["creator"], session["context"])
    except ConfigurationError as fault:
        return {"error": str(fault)}
    steps = []
    for number, given in enumerate(session["rounds"]):
        for change in given["changes"]:
            changed = change_context(state, change["by"], change["set"], change["delete"])
            state = state if isinstance(changed, Refused) else changed
        speaker = given["speaker"] or state.expected_next_speaker or ""
        made = tuple(map(called, given["calls"]))
        folded = fold(graph, state, Envelope(speaker, given["text"], made, f"e{number}"))
        closed = None
        if isinstance(folded, Folded):
            state = folded.state
            closed = folded.decision.close_reason if folded.decision.next_speaker is None else None
        steps.append(
            {
                "refused": isinstance(folded, Refused),
                "closed": closed,
                "next": state.expected_next_speaker,
                "turns": state.turn_count,
                "context": dict(state.context_vars),
                "may": [name for name in session["participants"] if may_speak(state, name) is None],
            }
        )
        if closed is not None:
            break
    return {"written": written.to_dict(), "steps": steps}


def called(call: dict[str, Any]) -> Called:
    handoff = Handoff(**call["handoff"]) if call["handoff"] else None
    return Called(call["tool"], Finish(**call["finish"]) if call["finish"] else handoff)


def compared(step: Step, *without: str) -> Step:
    """What is compared: after the end, no one is next, whatever an adapter still holds."""
    kept = {key: value for key, value in step.items() if key not in ("silent", *without)}
    return {**kept, "next": None if step["closed"] is not None else step["next"]}


def test_recorded_sessions_go_as_in_ag2_but_for_its_faults() -> None:
    seen: Counter[str] = Counter()
    for recorded in RECORDED:
        session, theirs = recorded["session"], recorded["ag2"]
        ours, graph = play(session), TransitionGraph.from_dict(session["graph"])
        assert ("error" in ours) == ("error" in theirs), (ours, theirs)
        is_usable = not [*Workflow(graph=graph, participants=session["participants"]).faults()]
        assert is_usable == ("error" not in theirs), "what AG2 accepts is usable, and nothing else"
        seen["usable" if is_usable else "refused"] += 1
        assert ours.get("written") == theirs.get("written")
        for given, mine, its in zip(session["rounds"], ours.get("steps", ()), theirs.get("steps", ()), strict=False):
            seen[f"end: {mine['closed']}" if mine["closed"] is not None else "goes on"] += 1
            if compared(mine) == compared(its):
                seen["same"] += 1
                continue
            excuses = [name for name, applies in FAULTS.items() if applies(session, given, mine, its)]
            assert excuses, f"ours {mine}, AG2's {its} in {json.dumps(session)}"
            seen.update(excuses)
            break
        else:
            assert len(ours.get("steps", ())) == len(theirs.get("steps", ())), "one goes on where the other has ended"
    ends = {
        f"end: {reason}" for reason in ("max_turns", "finished", "enough", "workflow_terminated", "unknown_speaker")
    }
    assert {*FAULTS, *ends, "goes on"} <= set(seen)
    assert seen["same"] > 40
    assert min(seen["usable"], seen["refused"]) > 10
