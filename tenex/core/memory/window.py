"""How much a model is sent, what is left out where that is too much, and what stays of cycles that are over.

A size here is an estimate, and everything is a pure function of what is in the journal: the same run gives the same
bytes after a restart.

The window of a run. Each request holds the run's entries from the first on, and vendors charge little for a beginning
that they have seen. So nothing is left out until the budget is full; then much at once (`RELIEF`), and nothing more
until it is full again: between two cuts each request begins with the one before it. What goes, until there is room:

1. results of calls before the newest step, the oldest first, each for a line that names it: they can be read again;
2. of those steps the long arguments, the end of long texts, and what only their vendor reads;
3. where that is not enough, the newest results, cut in the middle to one height, and then their step's arguments.

What users and the daemon have written stays, answers to `ask` included, and so does what is before the first step. No
entry goes as a whole, since vendors refuse a call without its result. The state holds the entries uncut, so `fitted`
plays the run through request by request: what one request leaves out may not depend on those after it. Only a model
whose window is smaller than the budget is sent less than that (`squeezed`): then users' words are cut too.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import is_
from typing import Any, Final

from tenex.core.inbox.message import Message
from tenex.core.messages import CallRequest, CallResult, Entry, ModelStep, Note, ToolSpec, cut
from tenex.core.phases import Phase
from tenex.core.work.turn import OrchestratorTurn

BYTES_PER_TOKEN = 4
"""UTF-8 bytes to an estimated token: prose has a few more, code a few less, and every vendor counts with tables of its
own. An estimate that is a quarter wrong is what a budget below the model's window is for."""
UNCERTAIN = 2
"""How many times its estimate a request may hold: scripts with three bytes to a character have one token for each."""
LONG_ANSWER = 16_000
"""Tokens of an answer at most, where no setting bounds it."""
CONTEXT_TOKENS = 100_000
"""Default limit of one request: half the window of the common large models."""
RELIEF = 0.6
"""What is left of a full budget: so deep a cut lasts many steps, in which the prefix and a vendor's cache stay."""
FRAME = 24
"""Bytes around an entry or a call: its role, its name, its brackets."""
NAMED = 80
"""Characters of what a call was about, where its result is left out."""
OLD_ARGUMENT = 400
"""Characters of a text an old call was given, such as the file it wrote, once results alone give too little room."""
OLD_TEXT = 4_000
"""Characters of an old step's text, likewise."""
MESSAGE_CHARACTERS = 24_000
"""Of one message, as a model is shown it: a pasted log must not push the request out of a model's window."""
LEAST = 1_000
"""Bytes that stay of each newest result, however little room there is: less could not be worked with."""

REQUESTS = 16
"""Requests whose bytes are remembered, the newest: those of the conversations that are at work."""
TOOLS = 256
"""Tools whose bytes are remembered: those of some agents, who are offered the same ones in each request."""

LEAST_WORDS = 200
"""Bytes that stay of an entry in a window that is too small for all: enough to see what it was about."""

PAST_CYCLES = 12
"""Cycles that are remembered after they have ended."""
PAST_CHARACTERS = 300
"""Of the request of such a cycle, and of the last word on each of its phases."""


# ---- size ---------------------------------------------------------------------------------------------------------


def tokens(text: str) -> int:
    """The estimated tokens of a text, rounded up."""
    return -(-weight(text) // BYTES_PER_TOKEN)


def weight(value: Any) -> int:
    """The bytes of a text in UTF-8, or about the bytes of a JSON value."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return 2 + sum(weight(name) + weight(inner) + 6 for name, inner in value.items())
    if isinstance(value, list | tuple):
        return 2 + sum(weight(inner) + 2 for inner in value)
    return len(str(value))


def entry_weight(entry: Entry) -> int:
    """The bytes an entry is sent with; thinking goes with its vendor's blob, which repeats none of the step's text."""
    match entry:
        case ModelStep():
            calls = sum(weight(call.id) + weight(call.tool) + weight(call.arguments) + FRAME for call in entry.calls)
            own = weight(entry.vendor) + weight(entry.thinking) if entry.vendor is not None else 0
            return FRAME + weight(entry.text) + calls + own
        case CallResult():
            return FRAME + weight(entry.id) + weight(entry.tool) + weight(entry.content)
        case Note():
            return FRAME + weight(entry.title) + weight(entry.text)
        case _:
            return FRAME + weight(entry.author) + weight(entry.text)


class _Sums:
    """The bytes of the entries of the newest requests, up to each entry.

    A request begins with the entries of the one before it, the same objects: only what is new is looked at.
    """

    def __init__(self) -> None:
        self._recent: OrderedDict[int, tuple[Sequence[Entry], list[int]]] = OrderedDict()

    def of(self, entries: Sequence[Entry]) -> int:
        """The bytes of all of these together."""
        if not entries:
            return 0
        before, sums = self._recent.pop(id(entries[0]), ((), []))
        same = min(len(before), len(entries))
        if not all(map(is_, before, entries)):
            same = next(at for at in range(same) if before[at] is not entries[at])
        sums = sums[:same]
        sums += [*accumulate(map(entry_weight, entries[same:]), initial=sums[-1] if sums else 0)][1:]
        self._recent[id(entries[0])] = (entries, sums)  # the entry is held here, so its id is no other's
        if len(self._recent) > REQUESTS:
            self._recent.popitem(last=False)
        return sums[-1]


_sums: Final = _Sums()


def request_tokens(system: str, entries: Sequence[Entry], tools: Sequence[ToolSpec]) -> int:
    """The estimated tokens of a whole request."""
    return -(-(_overhead(system, tools) + _sums.of(entries)) // BYTES_PER_TOKEN)


def _overhead(system: str, tools: Sequence[ToolSpec]) -> int:
    return weight(system) + sum(map(_tool_weight, tools))


_schema_weights: Final[dict[int, tuple[Mapping[str, Any], int]]] = {}
"""By id of the schema, which is held here, so that its id is no other's; copies of a tool share one schema."""


def _tool_weight(tool: ToolSpec) -> int:
    remembered = _schema_weights.get(id(tool.parameters))
    if remembered is None:
        if len(_schema_weights) >= TOOLS:
            _schema_weights.clear()
        remembered = (tool.parameters, weight(tool.parameters))
        _schema_weights[id(tool.parameters)] = remembered
    return FRAME + weight(tool.name) + weight(tool.description) + remembered[1]


# ---- within a run -------------------------------------------------------------------------------------------------


def fitted(system: str, entries: Sequence[Entry], tools: Sequence[ToolSpec], budget: int) -> tuple[Entry, ...]:
    """A run's entries as they are sent: shortened where the whole would be more than `budget` estimated tokens.

    What goes first is the results of old calls, the oldest before the others, each for a line that names it; then, of
    old steps, the long arguments, what a vendor added and the end of long texts. The results of the newest calls stay,
    cut in the middle where they alone are too much, and then their arguments likewise. What is before the first
    step stays as it is, and so do words of users and of the daemon: if those alone are more than the budget, so is
    the result.

    The entries keep their number, their order and their ids. What was left out of a request is left out of all later
    ones of the run, and nothing more until the budget is full again.
    """
    fitting = _Fitting(budget * BYTES_PER_TOKEN - _overhead(system, tools))
    if _sums.of(entries) <= fitting.room:
        return tuple(entries)
    for entry in entries:
        if isinstance(entry, ModelStep):
            fitting.relieve()  # as it was when this step was asked for
        fitting.add(entry, entry_weight(entry))
    fitting.relieve()
    return tuple(fitting.shown)


def squeezed(system: str, entries: Sequence[Entry], tools: Sequence[ToolSpec], budget: int) -> tuple[Entry, ...]:
    """The entries as `fitted` shortens them; if those are still too large, the longest texts are cut to one length.

    For a model whose window is smaller than what it is sent: there, words of users and of the daemon are cut too.
    """
    shown = list(fitted(system, entries, tools, budget))
    room = budget * BYTES_PER_TOKEN - _overhead(system, tools)
    sizes = {place: entry_weight(entry) for place, entry in enumerate(shown)}
    if sum(sizes.values()) <= room:
        return tuple(shown)
    left = room
    for done, place in enumerate(sorted(sizes, key=sizes.__getitem__)):
        share = max(LEAST_WORDS, left // (len(shown) - done))
        shown[place] = _with_text(shown[place], share)
        left -= entry_weight(shown[place])
    return tuple(shown)


def _with_text(entry: Entry, size: int) -> Entry:
    """The entry in that many bytes, as far as its text can give them."""
    text = entry.content if isinstance(entry, CallResult) else entry.text
    shorter = cut_bytes(text, max(0, size - (entry_weight(entry) - weight(text))))
    return replace(entry, content=shorter) if isinstance(entry, CallResult) else replace(entry, text=shorter)


class _Fitting:
    """A run played through again, request by request: so what one leaves out does not depend on those after it."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.shown: list[Entry] = []
        self.weights: list[int] = []
        self.total = 0
        self.newest = 0
        """Where the newest step with calls is; what comes after it holds their results."""
        self.left_out = 0
        """Up to where results have been left out."""
        self.shortened = 0
        """Up to where steps have been shortened."""
        self.calls: dict[str, CallRequest] = {}
        self.lengths: dict[str, int] = {}
        """Of the results, before anything was cut."""

    def add(self, entry: Entry, size: int) -> None:
        if isinstance(entry, ModelStep) and entry.calls:
            self.newest = len(self.shown)
            self.calls.update((call.id, call) for call in entry.calls)
        elif isinstance(entry, CallResult):
            self.lengths[entry.id] = len(entry.content)
        self.shown.append(entry)
        self.weights.append(size)
        self.total += size

    def relieve(self) -> None:
        """Make room, if this is more than may be sent."""
        if self.total <= self.room:
            return
        target = int(self.room * RELIEF)
        while self.total > target and self.left_out < self.newest:
            entry = self.shown[self.left_out]
            if isinstance(entry, CallResult) and entry.tool != "ask":  # an answer is a user's text
                self._put(self.left_out, replace(entry, content=self._line(entry)))
            self.left_out += 1
        while self.total > target and self.shortened < self.newest:
            entry = self.shown[self.shortened]
            if isinstance(entry, ModelStep):
                self._put(self.shortened, _short(entry))
            self.shortened += 1
        if self.total > self.room:
            self._cut_newest()

    def _put(self, place: int, entry: Entry) -> None:
        """Show another entry there, if it is smaller."""
        size = entry_weight(entry)
        if size < self.weights[place]:
            self.total += size - self.weights[place]
            self.shown[place] = entry
            self.weights[place] = size

    def _line(self, result: CallResult) -> str:
        call = self.calls.get(result.id)
        about = next((text for text in call.arguments.values() if isinstance(text, str)), "") if call else ""
        name = cut(" ".join(f"{result.tool} {about}".split()), NAMED).replace("\n", " ")
        size = f"{self.lengths[result.id]} characters of {name}"
        return f"[left out: {size}; call it again if you need them and that does no harm]"

    def _cut_newest(self) -> None:
        """Cut the newest results to one height, below which each stays whole, so that all together fit."""
        places = [
            place
            for place in range(self.newest, len(self.shown))
            if isinstance(entry := self.shown[place], CallResult) and entry.tool != "ask"
        ]
        sizes = {place: self.weights[place] for place in places}
        left = self.room - self.total + sum(sizes.values())
        for done, place in enumerate(sorted(places, key=sizes.__getitem__)):
            share = max(LEAST, left // (len(places) - done))
            entry = self.shown[place]
            if sizes[place] > share and isinstance(entry, CallResult):
                around = sizes[place] - weight(entry.content)
                self._put(place, replace(entry, content=cut_bytes(entry.content, share - around)))
            left -= self.weights[place]
        newest = self.shown[self.newest]
        if self.total > self.room and isinstance(newest, ModelStep):  # a file of many pages, written in one call
            calls = tuple(replace(call, arguments=_cut_texts(call.arguments)) for call in newest.calls)
            self._put(self.newest, replace(newest, calls=calls))


def _short(step: ModelStep) -> ModelStep:
    """An old step without what only its vendor reads, its long arguments cut."""
    calls = tuple(replace(call, arguments=_cut_texts(call.arguments)) for call in step.calls)
    return replace(step, text=cut(step.text, OLD_TEXT), calls=calls, thinking="", vendor=None)


def _cut_texts(value: Any) -> Any:
    if isinstance(value, str):
        return cut(value, OLD_ARGUMENT)
    if isinstance(value, Mapping):
        return {name: _cut_texts(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cut_texts(inner) for inner in value]
    return value


MARK = 64
"""Bytes of the mark between what stays, its number included."""


def cut_bytes(text: str, size: int) -> str:
    """The text, or its beginning and its end with a mark between them, in that many bytes; the mark takes `MARK`."""
    if weight(text) <= size:
        return text
    data = text.encode("utf-8", "surrogatepass")
    half = max(0, size - MARK) // 2
    head = data[:half].decode("utf-8", "ignore")
    tail = data[len(data) - half :].decode("utf-8", "ignore")
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"


# ---- after a cycle ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCycle:
    """What stays of a cycle that is over."""

    cycle: int
    since: int
    """The seq of the message that began it."""
    request: str
    """The beginning of the message that began it."""
    done: tuple[str, ...]
    """The last word on each of its phases: `execute: executor: wrote a.py`."""
    ended: str = field(default="", compare=False)
    """How it ended, as the end of a sentence about it; "" in older snapshots."""


def remembered(
    past: tuple[PastCycle, ...],
    cycle: int,
    messages: Sequence[Message],
    turns: Sequence[OrchestratorTurn],
    ended: str = "",
) -> tuple[PastCycle, ...]:
    """What is known of the past when a cycle is over: bounded, and made of what agents wrote to be handed on.

    A cycle in which no one worked leaves nothing; of reflection the lessons stay, and they are kept elsewhere.
    """
    last = {turn.phase: turn.summary for turn in turns if turn.phase is not Phase.REFLECTION and turn.summary}
    if not last:
        return past
    since, request = (messages[0].seq, messages[0].text) if messages else (turns[0].seq, "")
    done = tuple(f"{phase}: {in_a_line(summary, PAST_CHARACTERS)}" for phase, summary in last.items())
    newest = PastCycle(cycle=cycle, since=since, request=in_a_line(request, PAST_CHARACTERS), done=done, ended=ended)
    return (*past, newest)[-PAST_CYCLES:]


def in_a_line(text: str, limit: int) -> str:
    """A text on one line, its end left out where it is longer; reads no more of it than it gives."""
    start = text[: 2 * limit]  # runs of spaces and line ends fall away
    line = " ".join(start.split())
    return line if len(line) <= limit and len(start) == len(text) else f"{line[: limit - 2]} …"
