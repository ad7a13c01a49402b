"""Reads an agent's output as it streams in, along the graph of its states.

Rules, besides those for where a content ends (`endings`):

* Between states is white space, at most `SPACES` characters in a row; after a fence at least one. Before the first
  state and after the last there may be some too.
* A state begins at its opening delimiter, letter for letter; in the line of an opening fence there may be blanks before
  the name and after it. No opening delimiter begins like another.
* A carriage return before a line feed is dropped, and so is a byte order mark before the first state.
* Text where a state should begin is a fault, once; states are then looked for at the beginnings of lines.
* A JSON value ends where its outermost bracket closes, whatever its strings hold; the delimiter follows it.
* Half of a surrogate pair, which UTF-8 cannot write, is read as U+FFFD.
* How the output is cut into chunks changes nothing.

Nothing is raised. Faults are collected, so that a model receives all of them at once; after eight the rest is not read.
Memory is bounded by the states' limits; time is linear in the input.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from .content import JsonStateMachine, StateMachine, core_of
from .endings import SPACES, WHITE, JsonScanner, text_scanner
from .json_values import MOST_FAULTS
from .machine import DONE, TAKE_ACTION, AgentStateMachine, OutputPlan

BYTE_ORDER_MARK: Final = "\ufeff"
BLANKS: Final = " \t"
_OPENING_FENCE: Final = re.compile(r"(`{3,}|~{3,})[^\n]*\n")

FaultKind = Literal[
    "outside",  # text or too much white space between states
    "order",  # a state that may not begin here
    "limits",  # a content too short or too long
    "content",  # not JSON, not Python, arguments that do not fit
    "unclosed",  # the output ended within a state
    "unfinished",  # the output ended before its action
    "given up",  # too many faults to continue
]


@dataclass(frozen=True, slots=True)
class Piece:
    """More characters of a state's content; all of them together are the text of its segment."""

    state: str
    text: str


@dataclass(frozen=True, slots=True)
class Segment:
    """One state's content, whole, or as much of it as came.

    `role` separates private content (plan) from what is to be done (action). `is_complete`: it was opened where it may
    be, closed, and is within its limits and its rules; nothing else may be acted on.
    """

    state: str
    role: Literal["plan", "action"]
    text: str
    is_complete: bool


@dataclass(frozen=True, slots=True)
class OutputFault:
    """Something wrong with the output; `state` is empty where it is about no state."""

    kind: FaultKind
    message: str
    state: str = ""


ParserEvent = Piece | Segment | OutputFault


def repair_prompt(faults: Sequence[OutputFault]) -> str:
    """Return what a model is asked after its output was refused; empty if nothing is wrong."""
    if not faults:
        return ""
    listed = "\n".join(f"- {fault.message}" for fault in faults)
    return f"Your answer cannot be used, and nothing of it was done:\n{listed}\nWrite the whole answer again, fixed."


class OutputParser:
    """Takes one output in chunks. The machine is asked once, at the start: tools that change do not change it."""

    def __init__(self, machine: AgentStateMachine | OutputPlan) -> None:
        self.plan = machine.plan() if isinstance(machine, AgentStateMachine) else machine
        self.segments: tuple[Segment, ...] = ()
        self.faults: tuple[OutputFault, ...] = ()
        self.loops = 0
        """Planning states written so far."""
        self._node = self.plan.graph.initial
        self._state = ""
        self._content: _Content | None = None
        self._gap = _Gap(self.plan)
        self._is_closed = False
        self._is_at_start = True
        self._holds_return = False
        """Whether the last character was a carriage return: it is not known yet whether a line feed follows."""
        self._events: list[ParserEvent] = []

    @property
    def is_valid(self) -> bool:
        """Whether the output is whole and nothing is wrong with it; only then may its action be taken."""
        return self._is_closed and not self.faults

    def feed(self, chunk: str) -> tuple[ParserEvent, ...]:
        """Return the events of this chunk; none once the output is closed or given up."""
        for character in chunk:
            if self._is_given_up or self._is_closed:
                break
            if self._is_at_start and character == BYTE_ORDER_MARK:
                continue
            self._is_at_start = False
            if self._holds_return:
                self._holds_return = False
                if character != "\n":
                    self._step("\r")
            if character == "\r":
                self._holds_return = True
                continue
            self._step("\ufffd" if "\ud800" <= character <= "\udfff" else character)
        return self._drain()

    def close(self) -> tuple[ParserEvent, ...]:
        """End the output and return its events; a second call returns none."""
        if self._is_closed or self._is_given_up:
            self._is_closed = True
            return self._drain()
        if self._holds_return:
            self._holds_return = False
            self._step("\r")
        if self._content is not None:
            content = self._content
            self._pass(content.take(content.scanner.finish()))
            if content.scanner.closed:
                self._leave(content)
            else:
                closing = content.machine.delimiters[1]
                self._keep(content, is_complete=False)
                self._complain(
                    "unclosed", f"{content.state} was opened and never closed with {closing!r}.", content.state
                )
        else:
            self._complain("outside", self._gap.finish())
        if self._node != DONE and not any(fault.kind == "unclosed" for fault in self.faults):
            self._complain("unfinished", _unfinished(self.plan, self.loops))
        self._is_closed = True
        return self._drain()

    @property
    def _is_given_up(self) -> bool:
        return len(self.faults) >= MOST_FAULTS

    def _drain(self) -> tuple[ParserEvent, ...]:
        """Return the events since the last call, with neighbouring pieces of one state as one."""
        events = self._events
        self._events = []
        return tuple(one for key, group in groupby(events, _neighbours) for one in _joined(key, group))

    def _step(self, character: str) -> None:
        if self._content is not None:
            content = self._content
            self._pass(content.take(content.scanner.step(character)))
            if not content.scanner.closed:
                return
            self._leave(content)
            if not content.scanner.gives_back:
                return
        found, fault = self._gap.step(character)
        self._complain("outside", fault)
        if found:
            self._enter(found)

    def _enter(self, state: str) -> None:
        fault = "" if self.plan.permits(self._node, state, self.loops) else _misplaced(self.plan, self._node, state)
        self._state = state
        self._content = _Content(state, self.plan.contents[state], is_misplaced=bool(fault))
        self._complain("order", fault, state)

    def _pass(self, text: str) -> None:
        if text:
            self._events.append(Piece(self._state, text))

    def _leave(self, content: "_Content") -> None:
        found = content.faults()
        self._keep(content, is_complete=not found and not content.is_misplaced)
        for kind, message in found:
            self._complain(kind, message, content.state)
        if content.state in self.plan.planning:
            self.loops += 1
        if self._node != DONE:
            self._node = self.plan.after(content.state)
        self._gap = _Gap(self.plan)

    def _keep(self, content: "_Content", *, is_complete: bool) -> None:
        segment = Segment(content.state, self.plan.role(content.state), content.text, is_complete)
        self.segments += (segment,)
        self._events.append(segment)
        self._content = None
        self._state = ""

    def _complain(self, kind: FaultKind, message: str, state: str = "") -> None:
        if not message or self._is_given_up:
            return
        fault = OutputFault(kind, message, state)
        if len(self.faults) == MOST_FAULTS - 1:
            fault = OutputFault("given up", f"{message} Then too much else is wrong; the rest was not read.", state)
        self.faults += (fault,)
        self._events.append(fault)


class _Content:
    """The content being read: counted, and kept as far as its limit."""

    def __init__(self, state: str, machine: StateMachine, *, is_misplaced: bool) -> None:
        self.state = state
        self.machine = machine
        self.is_misplaced = is_misplaced
        is_json = isinstance(core_of(machine), JsonStateMachine)
        self.scanner = JsonScanner(machine.delimiters) if is_json else text_scanner(machine.delimiters)
        self._kept: list[str] = []
        self._count = 0

    @property
    def text(self) -> str:
        return "".join(self._kept)

    def take(self, text: str) -> str:
        """What of the text is within the limit."""
        if not text:
            return ""
        room = max(self.machine.char_max - self._count, 0)
        self._count += len(text)
        if room:
            self._kept.append(text[:room])
        return text[:room]

    def faults(self) -> list[tuple[FaultKind, str]]:
        least = self.machine.char_min
        most = self.machine.char_max
        limits = f"; it takes {least} to {most}."
        if self._count > most:
            return [("limits", f"{self.state} is too long: {self._count} characters{limits}")]
        if self.scanner.fault:
            return [("content", f"{self.state}: {self.scanner.fault}")]
        if self._count < least:
            return [("limits", f"{self.state} is too short: {self._count} characters{limits}")]
        return [("content", f"{self.state}: {message}") for message in self.machine.check(self.text)]


class _Gap:
    """The input between states: white space, then an opening delimiter; or text that should not be there."""

    def __init__(self, plan: OutputPlan) -> None:
        self._openings = {machine.delimiters[0]: state for state, machine in plan.contents.items()}
        fences = [found for opening in self._openings if (found := _OPENING_FENCE.fullmatch(opening))]
        self._may_have_blanks = {part for fence in fences for part in (fence[1], fence[0].removesuffix("\n"))}
        """What of the opening fences may be followed by blanks."""
        self._spaces = 0
        self._lead = ""
        self._is_astray = False
        self._at_line_start = True

    def step(self, character: str) -> tuple[str, str]:
        """The state that opens with this character, and a fault; each is empty if there is none."""
        if not self._lead and self._is_astray and not self._at_line_start:  # openings are looked for where lines begin
            self._at_line_start = character == "\n"
            return "", ""
        if not self._lead and not self._is_astray and character in WHITE:
            self._spaces += 1
            wide = f"More than {SPACES} characters of white space follow in a row between states."
            return "", wide if self._spaces == SPACES + 1 else ""
        if self._lead in self._may_have_blanks and character in BLANKS and self._spaces <= SPACES:
            self._spaces += 1
            return "", ""
        lead = self._lead + character
        if lead in self._openings:
            return self._openings[lead], ""
        if self._begins(lead):
            self._lead = lead
            return "", ""
        fault = "" if self._is_astray else self.outside()
        self._is_astray = True
        return self._fall_back(lead), fault

    def finish(self) -> str:
        """The fault of an output that ends here."""
        return self.outside() if self._lead and not self._is_astray else ""

    def outside(self) -> str:
        """The sentence about text where a state should begin."""
        openings = ", ".join(repr(opening) for opening in self._openings)
        return f"Text is outside of every state. A state opens with one of: {openings}."

    def _fall_back(self, lead: str) -> str:
        """The state that opens within a delimiter that was none: any line of it may be another, or begin one."""
        self._at_line_start = lead.endswith("\n")
        while lead and not self._begins(lead):
            lead = lead.partition("\n")[2]
        self._lead = lead
        return self._openings.get(lead, "")

    def _begins(self, lead: str) -> bool:
        return any(opening.startswith(lead) for opening in self._openings)


def _neighbours(event: ParserEvent) -> str:
    return event.state if isinstance(event, Piece) else ""


def _joined(state: str, group: Iterable[ParserEvent]) -> Iterable[ParserEvent]:
    return [Piece(state, "".join(one.text for one in group if isinstance(one, Piece)))] if state else group


def _misplaced(plan: OutputPlan, node: str, state: str) -> str:
    if node == DONE:
        return f"{state} comes after the action; the action is the last state of an answer."
    if state in plan.planning:
        return f"{state} is one planning state too many; an answer has at most {plan.most}. Take an action."
    return f"{state} comes too early; an answer plans first, in at least {plan.least} of: {_named(plan.planning)}."


def _unfinished(plan: OutputPlan, loops: int) -> str:
    acting = tuple(state for state in plan.contents if plan.graph.permits(TAKE_ACTION, state))
    if not acting:
        return "No action can be taken now, because there is no tool to call."
    plans = f" after {plan.least} or more of {_named(plan.planning)}" if loops < plan.least else ""
    return f"The answer has no action; it must end with one of: {', '.join(acting)}{plans}."


def _named(states: frozenset[str]) -> str:
    return ", ".join(sorted(states))
