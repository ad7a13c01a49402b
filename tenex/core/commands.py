"""What a person can say besides talk: a word after a slash (PROTOCOL, "What a person can say besides talk")."""

import re
from dataclasses import dataclass, replace

from tenex.core.decide.outgoing import say
from tenex.core.decide.transaction import Transaction
from tenex.core.decide.turns import STOPPED, close_calls, close_turn, end_run, go_on, open_turn

from . import names
from . import records as r
from .config import Role
from .decide import daily_limits, gates, waivers
from .decide import mission as nodes
from .decide import mission_messages as words
from .decide import workflow as conducting
from .ids import Millis, RunId, Slug
from .phases import QUALITY_PHASES, Phase
from .signals import MessageReceived

HELP = """Write what you want in your own words. I also understand these commands:
@NAME  in a message: goes straight to that agent; in a new note: begins that workflow
/status  where we stand
/stop  end what is running
/pause  let a mission finish its step, and wait
/retry  run the last turn again
/continue  go on after a limit, a hold or a refused decision
/quick  skip verification, chores and reflection in this cycle
/skip PHASE  skip one of them
/set NAME=VALUE  set a variable of a workflow; `/set` alone lists them
/new  end this cycle; your next message begins another
/help  this"""


@dataclass(frozen=True, slots=True)
class Command:
    """A word and what follows it."""

    name: str
    argument: str


NAMES = ("stop", "status", "help", "new", "continue", "retry", "pause", "set", "quick", "skip")


UNKNOWN = "unknown"
"""The command of a message that begins with a command or a mention, and names nothing there is."""
_WORD = re.compile(r"/([A-Za-z]+)(?:\s+(.*))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}")
_WORDS = 3
"""Words of a shown name that a mention may have: `@Project Manager`."""


def parse(text: str) -> Command | None:
    """Read a command: a message whose first word is letters after a slash. A path such as `/etc/hosts` is talk."""
    found = _WORD.fullmatch(text.strip())
    if found is None:
        return None
    name = found[1].lower()
    return Command(name, (found[2] or "").strip()) if name in NAMES else Command(UNKNOWN, text.strip())


def read(draft: Transaction, signal: MessageReceived) -> Command | MessageReceived:
    """The command a message is, or the message with whom it begins by naming among those it addresses."""
    text = signal.message.text
    if signal.is_plain:
        return signal
    command = parse(text)
    if command is not None:
        is_answer = command.name == UNKNOWN and any(run.has_parked for run in draft.state.runs.values())
        if not is_answer or names.nearest(_first(text)[1:], NAMES):
            return command
    words = text.split(maxsplit=_WORDS)[:_WORDS]
    first = names.plain(words[0]) if words else ""
    if not first or not (names.is_mention(words[0]) or _HEX.fullmatch(first.lower())):
        return signal
    known = _callable(draft)
    for count in range(len(words), 0, -1):
        if slug := names.find(" ".join(words[:count]), known):
            others = (other for other in signal.addressed if other != slug)
            return replace(signal, addressed=(slug, *others))
    if signal.addressed or not _NAME.fullmatch(first) or _is_ours_or_a_person(draft, signal, first):
        return signal
    return Command(UNKNOWN, text.strip())


def _first(text: str) -> str:
    return text.split(maxsplit=1)[0]


def _callable(draft: Transaction) -> dict[Slug, names.Named | None]:
    """Everybody a message can call: agents, workflows of speakers, missions, also disabled ones."""
    rules = draft.rules
    return {**{Slug(name): None for name in (*rules.missions, *rules.disabled)}, **rules.workflows, **rules.roster}


def _is_ours_or_a_person(draft: Transaction, signal: MessageReceived, name: str) -> bool:
    """Whether a name is the project's, or of a person who writes here: then it is talk."""
    project = draft.rules.project
    people = [signal.name, *(message.name for message in draft.state.recent if message.role is not None)]
    shown = {part.casefold() for person in people for part in (person, *person.split()[:1])}
    return name.casefold() in shown or names.find(name, {project.slug: project}) is not None


def _unknown(draft: Transaction, text: str) -> str:
    """What is said to a message that begins with a command or a name there is not."""
    first = _first(text)
    if first.startswith("/"):
        near = names.nearest(first[1:], NAMES)
        sentence = f"There is no command {first}. "
        sentence += f"Did you mean /{near}?" if near else "`/help` lists them."
    else:
        known = _callable(draft)
        near = names.nearest(first, known)
        sentence = f"There is no agent @{names.plain(first)}. "
        sentence += f"Did you mean @{near}?" if near else f"There are: {', '.join(sorted(known))}."
    return f"{sentence} Nothing was started. To send this as text, put a word before it."


def obey(draft: Transaction, command: Command, signal: MessageReceived) -> None:
    """Carry a command out, or say who may give it."""
    if command.name == UNKNOWN:
        say(draft, _unknown(draft, command.argument))
        return
    left = "" if command.name in ("skip", "set") else command.argument
    if left:  # words that would be lost without a sign
        say(draft, f"/{command.name} takes nothing after it; please send the rest as a message of its own.")
    if command.name == "help":
        say(draft, HELP)
    elif command.name == "status":
        say(draft, status(draft))
    elif command.name in ("quick", "skip"):
        _waive(draft, command, signal)
    elif signal.role is not Role.OWNER and not (
        signal.role is Role.MEMBER and signal.message.author == draft.state.starter
    ):
        say(draft, f"/{command.name} is for an owner, or the member who began this conversation.")
    elif command.name == "stop":
        stop(draft, signal.name)
    elif command.name == "pause":
        nodes.pause(draft, signal.name)
    elif command.name == "set":
        conducting.set_variables(draft, command.argument)
    elif command.name == "new":
        _new(draft, signal.name)
    elif command.name == "continue":
        _continue(draft, signal.name)
    else:
        _retry(draft, signal.name)


def stop(draft: Transaction, name: str, *, quiet: bool = False) -> None:
    """End everything that runs, and wait for the person."""
    running = list(dict.fromkeys(run.name for run in draft.state.runs.values()))
    asked = draft.state.question is not None
    if draft.state.mission is not None and draft.state.has_mission and not draft.state.mission.is_paused:
        running.append(f"the mission {draft.state.mission.workflow}")
    draft.add(r.Stopped, name=name)
    for run in draft.state.own_runs:
        close_calls(draft, run, STOPPED)
        end_run(draft, draft.state.runs[run.id], "stopped", error=f"stopped by {name}", announce=False)
    if draft.state.turn is not None:
        close_turn(draft)
    nodes.halt(draft, name, f"stopped by {name}.")
    if not quiet:
        what = ", ".join(running) or ("the orchestrator" if asked else "")
        then = "`/continue` goes on, `/new` ends it." if draft.state.has_mission else "Write to go on, or `/retry`."
        say(draft, f"Stopped: {what}. {then}" if what else "Nothing is running.")
    if draft.state.status == "active":
        draft.add(r.Waiting, reason="stopped")


def _new(draft: Transaction, name: str) -> None:
    mission = draft.state.mission
    if sentence := _without_mission(draft):
        say(draft, sentence)
        return
    stop(draft, name, quiet=True)
    nodes.drop(draft, name)
    if mission is not None and mission.is_alone:
        return
    if (session := draft.state.workflow) is not None:
        if session.is_closed:
            say(draft, conducting.over(session))
        conducting.close(draft, conducting.CLOSED, f"{name} closed it.", by=name)
        return
    if draft.state.status != "ended":
        draft.add(r.Ended, reason=f"{name} asked to begin anew")
    say(draft, "Done. Your next message begins a new cycle.")


def _without_mission(draft: Transaction) -> str:
    """What is said to an order in a mission's own conversation while there is none to order; "" elsewhere."""
    mission, unbegun = draft.state.mission, conducting.unbegun(draft)
    if mission is not None and mission.is_alone and not mission.is_open:
        return words.over(mission)
    return words.unbegun(unbegun) if unbegun else ""


def _continue(draft: Transaction, name: str) -> None:
    state = draft.state
    if state.workflow is not None and state.workflow.is_closed:
        say(draft, conducting.over(state.workflow))
        return
    if sentence := _without_mission(draft) or daily_limits.refusal(state):
        say(draft, sentence)
        return
    held: list[RunId | None] = [run.id for run in state.runs.values() if run.retry is not None]
    if state.question is not None and state.question.retry is not None:
        held.append(None)
    if nodes.go_on(draft, name):
        if (mission := draft.state.mission) is not None and not mission.is_paused:  # else it has said why
            say(draft, "The mission goes on.")
    elif state.mission is not None and state.has_mission:
        say(draft, words.standing(state.mission))
    elif held:
        for subject in held:
            warn_at = Millis(draft.now + draft.rules.limits.router_warn_after) if subject is None else Millis(0)
            draft.add(r.RetryDue, run=subject, by=name, warn_at=warn_at)
        say(draft, "I try again now.")
    elif state.turn is not None or state.status == "ended":
        say(draft, "I am at work." if state.turn is not None else "This cycle is over; just write what is next.")
    elif not state.messages and not state.turns:
        say(draft, "There is nothing to go on with yet; write what you want.")
    else:
        draft.add(r.Continued, name=name)
        before = state.next_seq
        go_on(draft)
        is_silent = not any(isinstance(record, r.MessageSent) and record.seq >= before for record in draft.records)
        if state.workflow is not None and state.waiting_for == "user" and is_silent:  # which would look like a fault
            say(draft, "It is your turn: write what you have to say.")


def _retry(draft: Transaction, name: str) -> None:
    state = draft.state
    last = state.last_turn
    if daily_limits.on_hold(state) or (state.mission is not None and (state.has_mission or state.mission.is_alone)):
        _continue(draft, name)
    elif state.turn is not None:
        say(draft, "I am at work; `/stop` first.")
    elif (
        state.workflow is not None
        or last is None
        or state.status == "ended"
        or last.phase is not state.phase
        or not state.turns
    ):
        _continue(draft, name)
    else:
        agents = tuple(slug for slug in last.agents if slug in draft.rules.roster)
        if state.phase is Phase.REFLECTION:  # each reflects once, and an attempt that failed was one
            agents = tuple(slug for slug in agents if not gates.strangers(state, (slug,), draft.rules))
        if not agents:
            _continue(draft, name)
            return
        draft.add(r.Continued, name=name)
        draft.add(r.Routed, agents=agents, phase=None, reason=f"{name} asked for another try", by=name)
        open_turn(draft, agents, f"{name} asked for another try")


def _waive(draft: Transaction, command: Command, signal: MessageReceived) -> None:
    if not gates.may_waive(signal.role, draft.rules.gates):
        say(draft, "Only an owner may skip a quality gate.")
        return
    if draft.state.workflow is not None or (draft.state.mission is not None and draft.state.mission.is_alone):
        say(draft, "A workflow has no quality gates; there is nothing to skip.")
        return
    phases: tuple[Phase, ...] = QUALITY_PHASES
    if command.name == "skip":
        phase = Phase.parse(command.argument)
        if phase is None or phase not in QUALITY_PHASES:
            say(draft, f"/skip takes one of: {', '.join(QUALITY_PHASES)}.")
            return
        phases = (phase,)
    if draft.state.status == "ended":
        sent = f"/skip {phases[0]}" if command.name == "skip" else "/quick"
        say(draft, f"This cycle has ended: there is nothing to skip. Write a request, then send `{sent}` again.")
        return
    waivers.waive(draft, phases, signal)
    if draft.state.status == "waiting" and draft.state.messages:
        go_on(draft)


def status(draft: Transaction) -> str:
    """Where the conversation stands, in a few lines."""
    state = draft.state
    session = state.workflow
    lines = [f"Phase: {state.phase} (cycle {state.cycle})" if session is None else conducting.standing(session)]
    if state.mission is not None and (state.has_mission or state.mission.is_alone):
        lines = [words.standing(state.mission)]
    elif state.turn is not None:
        for run in state.runs.values():
            minutes = round((draft.now - state.turn.timestamp) / 60_000)
            doing = f"at work for {minutes} min, {run.steps} steps"
            if run.is_parked:
                doing = "waits for your answer"
            elif run.is_waiting:
                doing = f"waits for {', '.join(called.name for called in state.called_by(run.id))}"
            elif run.retry is not None and run.retry.limit:
                doing = "on hold"
            elif run.is_held and run.retry is not None:
                seconds = max(0, round((run.retry.due - draft.now) / 1000))
                doing = f"its model cannot be reached; the next try is in {seconds} s"
            lines.append(f"{run.name}: {doing}")
    elif state.question is not None:
        retry = state.question.retry
        if retry is not None and retry.limit:
            lines.append("The orchestrator is on hold.")
        else:
            held = retry is not None and retry.on_hold
            lines.append("The orchestrator's model cannot be reached." if held else "The orchestrator is deciding.")
    else:
        over = "This cycle has ended." if session is None else "It has ended."
        lines.append(over if state.status == "ended" else "I wait for you.")
    if (sentence := daily_limits.on_hold(state)) and not state.has_mission:  # a mission's line says it
        lines.append(sentence)
    if state.open_gates:
        lines.append(f"Open gates: {', '.join(state.open_gates)}")
    tokens = state.usage.input_tokens + state.usage.output_tokens
    cost = f", ${state.usage.cost_usd:.4f}" if state.usage.cost_usd is not None else ""
    lines.append(f"Used so far: {tokens:,} tokens{cost}")
    return "\n".join(lines)
