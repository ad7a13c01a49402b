"""What a person reads who is asked to allow a call.

The first line is all that a lock screen shows, so it is the whole question. Then comes the call as it would run: every
argument by name, in the one form that no other value has (`shown_values`), a change of a file as its lines. Each line
has a mark before it, so that no text of a call can pass for a line of the daemon's. A call that does not fit, into the
first line or below it, is said to be cut; then a picture is no answer, since it would allow what was not seen.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenex.core.config import ToolRule
from tenex.core.ids import ConversationId, Millis
from tenex.core.text.amounts import duration
from tenex.core.work.tool_names import SERVER_MARK, server_of

from .places import host_of
from .rules import COMMAND, SHELLS, Judgement
from .shown_values import shown_line, shown_name, shown_value, visible
from .state import AskedCall, Outcome, Request

SHOWN: Final = 1_000
"""Characters of a call that are shown whole."""
SHOWN_LINES: Final = 40
"""Lines of a call that are shown whole."""
PART: Final = 400
"""Characters of the beginning and of the end of a longer one."""
LINE: Final = 140
"""Characters of a call in a line: lock screens show two or three lines of sixty."""
SAID: Final = 200
"""Characters of what the agent says about it."""
ABOUT: Final = 100
"""Characters of what a server says about its tool."""
FILES: Final = 3
"""Files of a call that are named."""
SHORT_ID: Final = 8
"""Characters by which a conversation is named."""
EDIT: Final = "edit_file"
WRITE: Final = "write_file"
"""Our tools whose calls are shown as the lines that they change."""
_MARK: Final = "│ "

ENDINGS: Final[Mapping[str, str]] = {
    "yes": "allowed",
    "no": "refused",
    "expired": "refused, since no answer had come in time",
    "unattended": "refused, since no one is there to be asked",
    "parts": "allowed in part",
    "over": "over, with the work that it was for",
}


def call_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """The arguments of a call, in a form that no other call of the tool has: each in a line, by its name.

    A change of a file is shown as the lines that it takes away and puts in.
    """
    change = _change(tool, arguments)
    if change is not None:
        return "\n".join([f"path: {shown_value(arguments['path'])}", *change])
    return "\n".join(_named(arguments)) or "(no arguments)"


def call_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in a line, cut."""
    words = _whole_line(tool, arguments)
    return words if len(words) <= LINE else f"{words[: LINE - 1]}…"


def is_shown_whole(tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether the message shows all of a call, and its first line says what it is."""
    text = call_text(tool, arguments)
    return len(text) <= SHOWN and text.count("\n") < SHOWN_LINES and len(_whole_line(tool, arguments)) <= LINE


def _whole_line(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in a line: the command of a shell, a summary of a change, and of every other call its arguments."""
    change = _change(tool, arguments)
    if change is not None:
        noun = "change" if tool == EDIT else "line"
        count = len(arguments["edits"] if tool == EDIT else change)
        return f"{tool} {shown_value(arguments['path'])}, {count} {noun}{'' if count == 1 else 's'}"
    if tool in SHELLS and isinstance(arguments.get(COMMAND), str):
        others = {name: value for name, value in arguments.items() if name != COMMAND}
        return ", ".join([shown_value(arguments[COMMAND]), *_named(others)])
    return f"{visible(tool)} {', '.join(_named(arguments))}".rstrip()


def _named(arguments: Mapping[str, Any]) -> list[str]:
    return [f"{shown_name(str(name))}: {shown_value(value)}" for name, value in arguments.items()]


def _change(tool: str, arguments: Mapping[str, Any]) -> list[str] | None:
    """The lines that a call takes away from a file and puts in; None for another tool, or arguments of another form."""
    if tool == WRITE and arguments.keys() == {"path", "content"} and _are_texts(arguments.values()):
        return _marked("+", *arguments["content"].split("\n"))
    edits = arguments.get("edits")
    if tool != EDIT or arguments.keys() != {"path", "edits"} or not isinstance(edits, list | tuple) or not edits:
        return None
    lines: list[str] = []
    for number, edit in enumerate(edits, start=1):
        if not isinstance(edit, Mapping) or not {"old", "new"} <= edit.keys() <= {"old", "new", "all"}:
            return None
        if not _are_texts((arguments["path"], edit["old"], edit["new"])):
            return None
        everywhere = f", all: {shown_value(edit['all'])}" if "all" in edit else ""
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
        *_marked(" ", *before[:head]),
        *_marked("-", *before[head : len(before) - tail]),
        *_marked("+", *after[head : len(after) - tail]),
        *_marked(" ", *before[len(before) - tail :]),
    ]


def _marked(mark: str, *lines: str) -> list[str]:
    return [mark + shown_line(line) for line in lines]


def wish_of(rule: ToolRule, arguments: Mapping[str, Any], judgement: Judgement) -> str:
    """What an agent wants and why it is asked about, as the end of a sentence that begins with its name."""
    server = server_of(rule.name)
    if server:
        what = f"`{visible(rule.name.partition(SERVER_MARK)[2])}` of the server {visible(server)}"
        if judgement.is_by_default and rule.why:
            what += f", which {rule.why}"
        about = " ".join(visible(rule.about).replace("“", "'").replace("”", "'").split())
        what += f": “{about[:ABOUT]}{'…' if len(about) > ABOUT else ''}”" if about else ""
    elif rule.address:
        host = host_of(arguments.get(rule.address))
        what = f"`{visible(rule.name)}` to {visible(host) or 'an address in an odd form'}"
    else:
        folder = arguments.get("cwd")
        is_named = isinstance(folder, str) and bool(folder)
        what = f"`{visible(rule.name)}` in {shown_value(folder) if is_named else 'the workspace'}"
    why = "" if server and judgement.is_by_default else f" It asks because {reason_of(rule, judgement)}."
    return f"wants {what}.{why}"


def reason_of(rule: ToolRule, judgement: Judgement) -> str:
    """Why a call is asked about, as what follows “because”."""
    if not judgement.is_by_default:
        return f"of {judgement.rule}"
    if server_of(rule.name):
        return f"its server {rule.why or 'has tools of others'}"
    if judgement.needs:
        return f"it wants to {judgement.needs}"
    return rule.why or "this tool always asks"


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
    (first, arguments), *others = calls
    more = f" and {len(others)} more" if others else ""
    wish = f"{'Still waiting: allow' if is_reminder else 'Allow'} {first.line}{more}?"
    lines = [f"{wish}{' 👍 👎' if is_whole else ' Write yes or no.'}", ""]
    if len(_whole_line(first.tool, arguments)) > LINE:
        lines[1:] = ["The line above is cut.", ""]
    for count, (asked, arguments) in enumerate(calls, start=1):
        numbered = f"{count}. " if others else ""
        if asked.changed:
            lines.append(f"{numbered}Asked again: {_listed(asked.changed)} changed after the question before.")
            numbered = ""
        lines += [f"{numbered}{name} {asked.wish or f'wants `{visible(asked.tool)}`.'}"]
        lines += [*_shown(asked, arguments, number)]
        if asked.files:
            lines.append(f"If {_listed(asked.files)} changes before it runs, you are asked again.")
        lines.append("")
    if said.strip():
        words = " ".join(visible(said).split())
        lines += [f"{name} says: “{words[:SAID]}{'…' if len(words) > SAID else ''}”", ""]
    react = "React or reply" if is_whole else "Reply with a written answer (a reaction does not count)"
    remembered = scope(first)
    servers = dict.fromkeys(visible(server_of(asked.tool)) for asked, _ in calls)
    by_server = "" if "" in servers else f" “always all” allows every tool of {', '.join(servers)} here."
    by_number = ""
    if others:
        react = f"{react} for all"
        remembered = "; ".join(f"{count}: {scope(asked)}" for count, (asked, _) in enumerate(calls, start=1))
        by_number = " To answer each by itself, reply with their numbers: “1 yes, 2 no: REASON”."
    lines.append(
        f"{react}: yes, no, “no: REASON”, “always” ({remembered}; in this conversation) or “20 min”."
        f"{by_server}{by_number} Without an answer it is refused in {duration(expires_in / 1000)}. "
        f"Its number is {number}."
    )
    return "\n".join(lines)


def _shown(asked: AskedCall, arguments: Mapping[str, Any], number: str) -> list[str]:
    text = call_text(asked.tool, arguments)
    if len(text) <= SHOWN and text.count("\n") < SHOWN_LINES:
        return [_MARK + line for line in text.split("\n")]
    beginning = "\n".join(text[:PART].split("\n")[: SHOWN_LINES // 2])
    end = "\n".join(text[-PART:].split("\n")[-SHOWN_LINES // 2 :])
    left = f"{len(text) - len(beginning) - len(end):,} of {len(text):,}"
    return [
        *(_MARK + line for line in beginning.split("\n")),
        f"[Cut: {left} characters are left out here. All of it: `tenex approvals show {number}`]",
        *(_MARK + line for line in end.split("\n")),
    ]


def _listed(files: Iterable[str]) -> str:
    """Files by name, the first few."""
    names = [f"`{shown_value(name)}`" for name in files]
    more = len(names) - FILES
    return ", ".join(names[:FILES]) + (f" or one of {more} more" if more > 0 else "")


def scope(asked: AskedCall) -> str:
    """What `always` allows, in words."""
    if asked.is_exact:
        return f"exactly this, as long as {_listed(asked.files)} stays as it is" if asked.files else "exactly this"
    wants = " and ".join(asked.needs)
    if asked.prefixes:
        commands = ", ".join(f"`{visible(' '.join(words))} …`" for words in asked.prefixes)
        folder = "in the same folder" if asked.others else "in any folder"
        return f"{commands} with harmless options{wants and f' and {wants}'}, {folder}"
    unchanged = ", as long as its definition is the same" if asked.definition else ""
    if asked.host:
        return f"every call of {visible(asked.tool)} to {visible(asked.host)}{unchanged}"
    return f"every call of {visible(asked.tool)}, whatever its arguments{wants and f', with {wants}'}{unchanged}"


def permitted_by_server(asked: AskedCall) -> str:
    """What `always all` has allowed, in words."""
    unchanged = ", as long as the definitions of all are the same" if asked.of_server else ""
    return f"every tool of the server {visible(server_of(asked.tool))}{unchanged}"


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
