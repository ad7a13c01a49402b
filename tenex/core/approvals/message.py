"""What a person reads who is asked to allow a call.

The first line is all that a lock screen shows, so it is the whole question. Then comes the call as it would run. What
could hide or turn around a part of it is shown as an escape, and each of its lines has a mark before it, so that no
text of a call can pass for a line of the daemon's. A long call is shown by its beginning and its end, with its length;
then a picture is no answer, since the message does not show what it would allow.
"""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenex.core.amounts import duration
from tenex.core.ids import ConversationId, Millis
from tenex.core.text import CONTROL, INVISIBLE
from tenex.core.tool_names import server_of

from .rules import COMMAND, SHELLS
from .state import AskedCall, Outcome, Request

SHOWN: Final = 1_000
"""Characters of a call that are shown whole."""
PART: Final = 400
"""Characters of the beginning and of the end of a longer one."""
LINE: Final = 110
"""Characters of a call in a line: lock screens show two lines of sixty."""
SAID: Final = 200
"""Characters of what the agent says about it."""
SHORT_ID: Final = 8
"""Characters by which a conversation is named."""
EDIT: Final = "edit_file"
WRITE: Final = "write_file"
"""Our tools whose calls are shown as the lines that they change."""
_MARK: Final = "│ "
_OF_COMMANDS: Final = (COMMAND, "cwd", "timeout")
"""Arguments of a shell of ours that are not listed behind its command line."""

ENDINGS: Final[Mapping[str, str]] = {
    "yes": "allowed",
    "no": "refused",
    "expired": "refused, since no answer had come in time",
    "unattended": "refused, since no one is there to be asked",
    "parts": "allowed in part",
    "over": "over, with the work that it was for",
}


def call_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as it is shown; what is invisible as escapes.

    The line of a shell is shown as it is, a change of a file as the lines that it takes away and puts in, and of every
    other call all arguments by name.
    """
    line = _shell_line(tool, arguments)
    if line is not None:
        others = {name: value for name, value in arguments.items() if name not in _OF_COMMANDS}
        return "\n".join([visible(line), *_named(others)])
    change = _change(tool, arguments)
    if change is not None:
        return "\n".join([f"{tool} {_value(arguments['path'])}", *change])
    return "\n".join([visible(tool), *_named(arguments)])


def call_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in a line, cut."""
    line = _shell_line(tool, arguments)
    if line is not None:
        words = visible(line)
    elif tool == EDIT and _change(tool, arguments) is not None:
        count = len(arguments["edits"])
        words = f"{tool} {_value(arguments['path'])}, {count} change{'s' if count > 1 else ''}"
    else:
        words = f"{visible(tool)} {', '.join(map(_value, arguments.values()))}"
    words = words.rstrip().replace("\n", " ⏎ ")
    return words if len(words) <= LINE else f"{words[: LINE - 1]}…"


def _shell_line(tool: str, arguments: Mapping[str, Any]) -> str | None:
    """The command line of a shell of ours: of another tool `command` is an argument like its others."""
    line = arguments.get(COMMAND) if tool in SHELLS else None
    return line if isinstance(line, str) else None


def _change(tool: str, arguments: Mapping[str, Any]) -> list[str] | None:
    """The lines that a call takes away from a file and puts in; None for another tool, or arguments of another form."""
    if tool == WRITE and arguments.keys() == {"path", "content"} and _are_texts(arguments.values()):
        return _marked("+ ", arguments["content"])
    edits = arguments.get("edits")
    if tool != EDIT or arguments.keys() != {"path", "edits"} or not isinstance(edits, list | tuple) or not edits:
        return None
    lines: list[str] = []
    for number, edit in enumerate(edits, start=1):
        if not isinstance(edit, Mapping) or not {"old", "new"} <= edit.keys() <= {"old", "new", "all"}:
            return None
        if not _are_texts((arguments["path"], edit["old"], edit["new"])):
            return None
        everywhere = " in every place" if edit.get("all") else ""
        if everywhere or len(edits) > 1:
            lines.append(f"@@ {number} of {len(edits)}{everywhere} @@")
        lines += _difference(edit["old"], edit["new"])
    return lines


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _difference(old: str, new: str) -> list[str]:
    """The lines of a passage before and after; the same lines at its beginning and its end once."""
    before = old.split("\n")
    after = new.split("\n")
    most = min(len(before), len(after))
    head = next((count for count in range(most) if before[count] != after[count]), most)
    rest = most - head
    tail = next((count for count in range(rest) if before[-1 - count] != after[-1 - count]), rest)
    return [
        *_marked("  ", *before[:head]),
        *_marked("- ", *before[head : len(before) - tail]),
        *_marked("+ ", *after[head : len(after) - tail]),
        *_marked("  ", *before[len(before) - tail :]),
    ]


def _marked(mark: str, *texts: str) -> list[str]:
    return [mark + line for text in texts for line in visible(text).split("\n")]


def is_shown_whole(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the message shows all of a call."""
    return len(call_text(tool, arguments)) <= SHOWN


def visible(text: str) -> str:
    """A text in which nothing is hidden: control, direction and invisible characters, and odd spaces, as escapes."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(char if _is_visible(char) else char.encode("unicode_escape").decode("ascii") for char in text)


def _is_visible(char: str) -> bool:
    if char in "\n ":
        return True
    return not (CONTROL.match(char) or INVISIBLE.match(char) or unicodedata.category(char)[0] in "CZ")


def _named(arguments: Mapping[str, Any]) -> list[str]:
    return [f"{visible(str(name))}: {_value(value)}" for name, value in arguments.items()]


def _value(value: Any) -> str:
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))


# ---- the message ----


def question(
    calls: Sequence[tuple[AskedCall, Mapping[str, Any]]],
    *,
    name: str,
    said: str,
    expires_in: int,
    number: str,
    is_reminder: bool = False,
) -> str:
    """The message that asks about the calls of a step.

    Args:
        calls: what is asked about, with its arguments.
        name: the agent.
        said: the agent's own words in that step.
        expires_in: ms.
        number: by which the request is named on the command line.
        is_reminder: whether it was sent before.
    """
    is_whole = all(is_shown_whole(asked.tool, arguments) for asked, arguments in calls)
    (first, _), *others = calls
    more = f" and {len(others)} more" if others else ""
    wish = f"{'Still waiting: allow' if is_reminder else 'Allow'} {first.line}{more}?"
    lines = [f"{wish}{' 👍 👎' if is_whole else ' Write yes or no.'}", ""]
    for count, (asked, arguments) in enumerate(calls, start=1):
        if others:
            lines.append(f"{count}. {visible(asked.tool)}")
        lines += _shown(asked, arguments, number)
        lines += [f"{visible(asked.tool)}{_place(asked.tool, arguments)}. It asks because of {asked.rule}.", ""]
    if said.strip():
        words = " ".join(visible(said).split())
        lines += [f"{name} says: “{words[:SAID]}{'…' if len(words) > SAID else ''}”", ""]
    react = "React or reply" if is_whole else "Reply with a written answer (a reaction does not count)"
    remembered = scope(first)
    by_number = ""
    if others:
        react = f"{react} for all"
        remembered = "; ".join(f"{count}: {scope(asked)}" for count, (asked, _) in enumerate(calls, start=1))
        by_number = " To answer each by itself, reply with their numbers: “1 yes, 2 no: REASON”."
    lines.append(
        f"{react}: yes, no, “no: REASON”, “always” ({remembered}; in this conversation) or “20 min”.{by_number} "
        f"Without an answer it is refused in {duration(expires_in / 1000)}. Its number is {number}."
    )
    return "\n".join(lines)


def _shown(asked: AskedCall, arguments: Mapping[str, Any], number: str) -> list[str]:
    text = call_text(asked.tool, arguments)
    if len(text) <= SHOWN:
        return [_MARK + line for line in text.split("\n")]
    left = f"{len(text) - 2 * PART:,} of {len(text):,}"
    return [
        *(_MARK + line for line in text[:PART].split("\n")),
        f"[{left} characters are left out here. All of it: `tenex approvals show {number}`]",
        *(_MARK + line for line in text[-PART:].split("\n")),
    ]


def _place(tool: str, arguments: Mapping[str, Any]) -> str:
    """Where a call runs; "" for a tool of a server, of which that is not known."""
    if server_of(tool):
        return ""
    folder = arguments.get("cwd")
    shown = visible(folder).replace("\n", "\\n") if isinstance(folder, str) and folder else "the workspace"
    return f", in {shown}"


def scope(asked: AskedCall) -> str:
    """What `always` allows, in words."""
    if asked.is_exact:
        return "exactly this"
    wants = f" with {' and '.join(asked.needs)}" if asked.needs else ""
    if asked.prefixes:
        commands = ", ".join(f"`{visible(' '.join(words))} …`" for words in asked.prefixes)
        return f"{commands} in any folder{wants}"
    return f"every call of {visible(asked.tool)}, whatever its arguments{wants}"


def permitted(asked: AskedCall) -> str:
    """What `always` has allowed, in words."""
    return f"exactly “{asked.line}”" if asked.is_exact else scope(asked)


def number_of(conversation: ConversationId, seq: int) -> str:
    """How a request, or a permission, is named by people."""
    return f"{conversation[:SHORT_ID]}-{seq}"


def call_number(conversation: ConversationId, request: Request, number: int) -> str:
    """How a call of a request is named by people: as the request where it is the only one."""
    whole = number_of(conversation, request.seq)
    return f"{whole}.{number}" if len(request.calls) > 1 else whole


def numbers_of(conversation: ConversationId, request: Request) -> dict[str, int]:
    """The names of a request and of its calls that wait, whole and without the conversation: 0 is all of them."""
    named = {call_number(conversation, request, number): number for number in request.left}
    named[number_of(conversation, request.seq)] = 0
    return named | {name.partition("-")[2]: number for name, number in named.items()}


def refusal(outcome: Outcome, *, name: str, reason: str, waited: int) -> str:
    """What the model reads of a call that was not allowed; `waited` is in ms."""
    if outcome == "no":
        why = f"{name} refused it: {reason}" if reason else f"{name} refused it, without a reason"
        return f"Not run. {why.rstrip(' .')}. Do not try the same in another way; go on without it."
    if outcome == "expired":
        return f"Not run: no answer came within {duration(waited / 1000)}. Go on, and say what is left undone."
    return "Not run: it needs the permission of a person, and no one is there to be asked. Say what is left undone."


def listed(requests: Sequence[Request], conversation: ConversationId, now: Millis) -> list[str]:
    """Open requests, a line each, and below it a line for each of several calls that wait."""
    lines: list[str] = []
    for request in requests:
        left = duration(max(0, request.expires_at - now) / 1000)
        lines.append(f"{number_of(conversation, request.seq)}  {request.name}: {request.line} ({left} left)")
        if len(request.calls) > 1:
            lines += [
                f"{call_number(conversation, request, number)}  {asked.line}" for number, asked in request.left.items()
            ]
    return lines
