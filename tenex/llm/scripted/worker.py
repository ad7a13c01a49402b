"""One step of an agent: the rules of its phase give tool calls, or the end of its run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelRequest, ModelStep
from tenex.core.phases import Phase
from tenex.core.state.agent_tools import APPEND, SET

from .requests import FILE, CannotApply, Task, intent_of, short
from .transcript import LEARNED, Transcript

SELF = "I am tenex's offline model: I follow fixed rules and cannot think."
NOTHING_DONE = "Nothing was changed"
"""How the summary of a run without changes begins; the router does not go on to verification then."""
UNDERSTOOD = "Understood:"
"""How chat answers a request; the router goes on to execute."""
ABILITIES = (
    "I can write files (“Create notes.txt with milk and eggs”) and programs (“Create hello.py that prints hello”), add "
    "functions (“Add a function add(a, b) that returns a + b to calc.py”), append (“Append bread to notes.txt”), "
    "replace words (“Change milk to tea in notes.txt”), and show files (“Read notes.txt”, “List the files”)."
)
VERIFIED = "Verified:"
CONFIGURE = "For anything that needs thought, set a model: `models.default` in tenex.toml."
_RAN = re.compile(r"exit status|still running|by signal")  # else `check` was refused
_MOST_STEPS = 12  # ask, list, read, write, complete are 5; more for messages that come meanwhile

Calls = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedFinish:
    """The end of a run: the arguments of `complete`."""

    response: str
    summary: str = ""
    verdict: str = ""
    issues: str = ""


_SMALL_TALK = (
    (r"(?:hi|hello|hey|good (?:morning|day|evening))\b", f"Hello. {SELF} Try: “Create hello.py that prints hello”."),
    (r"(?:thanks|thank you|thx|cheers|great|nice|perfect|well done)\b", "You are welcome. Write when you need more."),
    (r"(?:bye|goodbye|see you)\b", "Goodbye. The files stay in the workspace; write here when you need more."),
    (
        r"(?:no|no thanks|never mind|not now|nothing)\W*\Z",
        "All right, I change nothing. Write when you need something.",
    ),
)


def small_talk(text: str) -> str:
    """The answer to a greeting, thanks, a goodbye or a refusal; empty where the message is more than that."""
    if len(text.split()) > 5 or re.search(FILE, text[:60]):
        return ""
    return next((answer for pattern, answer in _SMALL_TALK if re.match(pattern, text.strip(), re.IGNORECASE)), "")


def answer_work(request: ModelRequest) -> ModelStep:
    """The next step of an agent; an unknown phase is treated as chat."""
    seen = Transcript(request)
    move = _workflow_calls(seen) or _state_calls(seen, request) or _PHASES.get(request.phase, _chat)(seen)
    if not isinstance(move, ScriptedFinish) and seen.steps >= _MOST_STEPS - 1:
        refused = [done.content for done in seen.done if not done.ok]
        why = f" The last refusal: {short(refused[-1], 200)}" if refused else ""
        move = ScriptedFinish(
            response=f"I stop after {seen.steps} steps without an end.{why}",
            summary="Stopped without an end",
            verdict="issues",
            issues="The offline model ran out of steps.",
        )
    calls = _complete(move, seen, request) if isinstance(move, ScriptedFinish) else move
    requested = (
        CallRequest(id=CallId(f"offline-{seen.steps + 1}-{number}"), tool=tool, arguments=arguments)
        for number, (tool, arguments) in enumerate(calls, start=1)
    )
    if isinstance(move, ScriptedFinish) and ("complete" not in seen.offered or seen.calls("complete")):
        return ModelStep(text=calls[0][1]["response"])  # a `complete` that was refused once would be refused again
    return ModelStep(calls=tuple(requested))


def _complete(finish: ScriptedFinish, seen: Transcript, request: ModelRequest) -> Calls:
    """A call of `complete`, with the fields it has in this phase."""
    response = finish.response
    if unused := [f"`{tool.name}`" for tool in request.tools if tool.name in request.methods]:
        notice = f"This agent has tools of its own that I cannot use: {', '.join(unused)}. {CONFIGURE}"
        response = f"{response.removesuffix(CONFIGURE).rstrip()}\n\n{notice}"
    if seen.later:
        quoted = ", ".join(f"“{short(text)}”" for text in seen.later)
        response = f"{response}\n\nI have read what you wrote in the meantime: {quoted}."
    fields = {"response": response, "summary": finish.summary}
    if request.phase == Phase.VERIFICATION:
        fields = {"response": response, "verdict": finish.verdict, "issues": finish.issues}
    return [("complete", {name: value for name, value in fields.items() if value})]


def _cannot(why: str) -> ScriptedFinish:
    return ScriptedFinish(
        response=f"{SELF} {why}\n\n{ABILITIES} {CONFIGURE}", summary=f"{NOTHING_DONE}: {short(why, 200)}"
    )


def _hand_over(seen: Transcript, here: str) -> Calls | None:
    """A call of `hand_over` where the newest message leads to another phase; None where the talk goes on."""
    if "hand_over" not in seen.offered or seen.calls("hand_over"):  # one that was refused would be refused again
        return None
    tasks, intent = seen.tasks(), intent_of(seen.newest)
    if intent in ("assent", "chat"):
        intent = "execute" if tasks else "plan" if (intent, here) == ("assent", "brainstorm") else "chat"
    if intent == here or (here == "chat" and small_talk(seen.newest)):
        return None
    wanted = " and ".join(f"`{task.path or 'a file'}` {task.describe()}" for task in tasks)
    reason = f"{UNDERSTOOD} {wanted}." if wanted else f"“{short(seen.newest)}” leads to {intent}"
    return [("hand_over", {"phase": intent, "reason": reason})]


def _chat(seen: Transcript) -> Calls | ScriptedFinish:
    if handed_over := _hand_over(seen, "chat"):
        return handed_over
    text = seen.newest
    if answer := small_talk(text):
        return ScriptedFinish(response=answer, summary="Answered small talk")
    if tasks := seen.tasks():
        wanted = " and ".join(f"`{task.path or 'a file'}` {task.describe()}" for task in tasks)
        return ScriptedFinish(response=f"{UNDERSTOOD} {wanted}.", summary=f"Wanted: {short(wanted, 200)}")
    file = re.search(FILE, text[:5_000])
    asks = f"What shall `{file['path']}` hold or print?" if file else "Which file shall I make or change, and how?"
    why = f"I do not understand {f'“{short(text)}”' if text.strip() else 'an empty message'}. {asks}"
    return ScriptedFinish(response=f"{SELF} {why}\n\n{ABILITIES} {CONFIGURE}", summary="Asked what is wanted")


def _brainstorm(seen: Transcript) -> Calls | ScriptedFinish:
    if handed_over := _hand_over(seen, "brainstorm"):
        return handed_over
    words = re.findall(r"\w{5,}", seen.newest[:5_000])
    subject = max((word for word in words if not word.lower().startswith("brainstorm")), key=len, default="this")
    return ScriptedFinish(
        response=f"{SELF} So I have no ideas of my own about “{subject}”, but three questions help with most: what is "
        f"its smallest useful form, who needs it most, and what would you do without it? Which one shall we follow? "
        f"{CONFIGURE}",
        summary=f"Three questions about {subject}; the user chooses",
    )


def _plan(seen: Transcript) -> ScriptedFinish:
    tasks = seen.tasks()
    steps = [f"Write `{task.path or 'the file'}`, so that it {task.describe()}." for task in tasks]
    steps += [f"Run `python {task.path}` and compare what it prints." for task in tasks if task.kind == "program"]
    if not tasks:
        steps = [
            "Describe in one sentence what it must do.",
            "Name its parts.",
            "Make the smallest part.",
            "Test after each.",
        ]
    steps.append("Tidy up, and report what changed.")
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    note = "" if tasks else f"\n\nThese steps fit most work. {CONFIGURE}"
    return ScriptedFinish(response=f"{SELF} The plan:\n\n{numbered}{note}", summary=short(" ".join(steps), 400))


def _execute(seen: Transcript) -> Calls | ScriptedFinish:
    """Look at what exists, read the files that will change, write them, report."""
    tasks = seen.tasks()
    if not tasks:
        return _cannot("I do not understand this request.")
    if any(task.kind != "list" and not task.path for task in tasks):
        if "ask" in seen.offered and not seen.calls("ask"):
            return [("ask", {"question": "Which name shall the file have?"})]
        return _cannot("I need a name for the file.")
    if "list_files" in seen.offered and not seen.calls("list_files"):
        return [("list_files", {})]
    listed = {path for done in seen.calls("list_files") for path in done.content.split()}
    unread = {task.path for task in tasks if task.path in listed and not seen.calls("read_file", task.path)}
    if unread and "read_file" in seen.offered:
        return [("read_file", {"path": path}) for path in sorted(unread)]
    shown = [_shown(seen, task) for task in tasks if task.kind in ("read", "list")]
    if not (changes := _changes(tasks)):
        return ScriptedFinish(response="\n\n".join(shown), summary=f"{NOTHING_DONE}: showed what was asked for")
    if "write_file" not in seen.offered:
        return _cannot("I have no tool here that writes files.")
    return _write(seen, changes, shown)


def _write(seen: Transcript, changes: Mapping[str, Sequence[Task]], shown: Sequence[str]) -> Calls | ScriptedFinish:
    good, bad, writes = [], [], []
    for path, tasks in changes.items():
        old, written = seen.before(path), seen.calls("write_file", path)
        try:
            new = _applied(tasks, old, seen.is_partial(path))
        except CannotApply as reason:
            bad.append(f"I did not change `{path}`: {reason}.")
            continue
        if written and not written[-1].ok:
            bad.append(f"I could not write `{path}`: {short(written[-1].content, 300)}")
        elif not written or written[-1].arguments.get("content") != new:
            writes.append(("write_file", {"path": path, "content": new}))
        else:
            verb = "Created" if old is None else "Kept" if old == new else "Changed"
            good.append(f"{verb} `{path}`: it {_describe(tasks)}.")
    if writes:
        return writes
    if not good:
        return _cannot(" ".join(bad))
    return ScriptedFinish(response="\n".join([*shown, *good, *bad]), summary=" ".join([*good, *bad]))


def _describe(tasks: Sequence[Task]) -> str:
    return " and ".join(task.describe() for task in tasks)


def _changes(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    """The tasks of each file that change it; what writes it whole leaves nothing of those before."""
    changes: dict[str, list[Task]] = {}
    for task in tasks:
        if task.kind in ("write", "program"):
            changes[task.path] = [task]
        elif task.kind not in ("read", "list"):
            changes.setdefault(task.path, []).append(task)
    return changes


def _applied(tasks: Sequence[Task], content: str | None, is_partial: bool = False) -> str:
    if is_partial and tasks[0].kind not in ("write", "program"):
        raise CannotApply("it is longer than what I am shown of a file")
    for task in tasks:
        content = task.apply(content)
    return content or ""


def _shown(seen: Transcript, task: Task) -> str:
    done = seen.calls("read_file", task.path) if task.path else seen.calls("list_files")
    content = done[0].content if done else "not found"
    return f"{f'`{task.path}`' if task.path else 'The files'}:\n\n{content}"


def _verify(seen: Transcript) -> Calls | ScriptedFinish:
    """Read what was changed, run programs, and see that carrying out the request again would change nothing."""
    changes = {path: list[Task]() for path in seen.changed} | _changes(seen.tasks())
    if unread := [path for path in changes if "read_file" in seen.offered and not seen.calls("read_file", path)]:
        return [("read_file", {"path": path}) for path in unread]
    programs = [path for path in changes if path.endswith(".py") and seen.before(path) is not None]
    if unchecked := [path for path in programs if "check" in seen.offered and not seen.calls("check", path)]:
        return [("check", {"path": path}) for path in unchecked]
    faults = [fault for path, tasks in changes.items() if (fault := _fault(seen, path, tasks))]
    if not changes:
        faults = ["I found no file to verify"]
    if faults:
        listed = "\n".join(f"- {fault}" for fault in faults)
        return ScriptedFinish(
            response=f"Issues:\n{listed}", summary=short(listed, 300), verdict="issues", issues=listed
        )
    ran = {path for path in changes for run in seen.calls("check", path) if run.ok}
    listed = "\n".join(
        f"- {f'ran `python {path}`' if path in ran else f'read `{path}`'}: it {_describe(tasks) or 'can be read'}"
        for path, tasks in changes.items()
    )
    return ScriptedFinish(response=f"{VERIFIED}\n{listed}", summary=short(listed, 300), verdict="verified")


def _fault(seen: Transcript, path: str, tasks: Sequence[Task]) -> str:
    """What is wrong with a file; empty where nothing is."""
    content, runs = seen.before(path), seen.calls("check", path)
    if content is None:
        return f"`{path}` cannot be read"
    if runs and not runs[0].ok and _RAN.search(runs[0].content):
        return f"`python {path}` fails: {short(runs[0].content[-300:], 300)}"
    if runs and runs[0].ok and tasks and tasks[-1].kind == "program":
        is_right = f"\n{tasks[-1].text}\n" in f"\n{runs[0].content}\n"
        return "" if is_right else f"`python {path}` does not print “{short(tasks[-1].text)}”"
    try:
        is_right = _applied(tasks, content).rstrip() == content.rstrip() if tasks else True
    except CannotApply as reason:
        return f"`{path}`: {reason}"
    return "" if is_right else f"`{path}` is not so that it {_describe(tasks)}"


def _chores(seen: Transcript) -> Calls | ScriptedFinish:
    """Look through the files of this cycle; what the model wrote needs no tidying."""
    if unread := [path for path in seen.changed if "read_file" in seen.offered and not seen.calls("read_file", path)]:
        return [("read_file", {"path": path}) for path in unread]
    looked = ", ".join(f"`{path}`" for path in seen.changed) or "the workspace"
    text = f"Looked through {looked}: I found nothing to tidy."
    return ScriptedFinish(response=text, summary=text)


def _reflect(seen: Transcript) -> Calls | ScriptedFinish:
    """Record one lesson."""
    request = seen.request() or "nothing in words"
    proof = next((text for text in reversed(seen.texts) if text.startswith(VERIFIED)), "")
    proof = short(proof.removeprefix(VERIFIED).strip(" -\n"), 200)
    outcome = f"verified by this: {proof}" if proof else "it was not verified"
    lesson = f"Asked for “{request}”; {outcome}."
    tries = seen.calls("learn")
    if "learn" in seen.offered and not tries:
        return [("learn", {"title": short(request, 50), "lesson": lesson})]
    if tries and not tries[-1].ok:
        return ScriptedFinish(response=f"I could not record my lesson ({short(tries[-1].content, 150)}): {lesson}")
    return ScriptedFinish(response=f"{LEARNED} {lesson}")


_PHASES = {
    "brainstorm": _brainstorm,
    "plan": _plan,
    "execute": _execute,
    "verification": _verify,
    "chores": _chores,
    "reflection": _reflect,
}

_AGENT = r"(?:(?<![@\w-])(?P<agent>[a-z0-9-]+)(?:,| should| must| shall)?\s+)?"
_WORKFLOW = (
    ("handoff", re.compile(rf"{_AGENT}hands?\s+(?:off|over)\s+to\s+@?(?P<target>[a-z0-9-]+)", re.IGNORECASE)),
    ("set_context", re.compile(rf"{_AGENT}sets?\s+`?(?P<key>\w+)`?\s+to\s+`?(?P<value>[\w.-]*\w)`?", re.IGNORECASE)),
    ("finish", re.compile(rf"{_AGENT}finish(?:es)?\s+the\s+workflow\b", re.IGNORECASE)),
)
_FILLERS = frozenset(("please", "then", "and", "to", "now", "you"))
_VALUES: dict[str, Any] = {"true": True, "false": False, "none": None, "null": None}


def _workflow_calls(seen: Transcript) -> Calls | ScriptedFinish | None:
    """What a speaker of a workflow is asked for, once: by name, as `planner hands off to executor`, or as the first."""
    if "handoff" not in seen.offered:
        return None
    calls: list[tuple[str, dict[str, Any]]] = []
    text = "\n".join(message for _, group in seen.groups for message in group)
    has_spoken = any(text.startswith(f"This is {seen.agent}.") for text in seen.texts)
    for tool, pattern in _WORKFLOW:
        for found in pattern.finditer(text):
            name = (found["agent"] or "").lower()
            is_named = name not in _FILLERS | {""}
            is_meant = name == seen.agent and not has_spoken if is_named else not seen.texts
            if is_meant and not seen.calls(tool) and found.groupdict().get("target") != seen.agent:
                calls.append((tool, _arguments(tool, found)))
                break
    if calls:
        return calls
    done = [done.content.rstrip(".") for done in seen.done if done.tool in ("handoff", "finish", "set_context")]
    return (
        ScriptedFinish(response=f"This is {seen.agent}. As you asked: {short('; '.join(done), 400)}.") if done else None
    )


def _arguments(tool: str, found: re.Match[str]) -> dict[str, Any]:
    if tool == "handoff":
        return {"target": found["target"].lower(), "reason": "the user asked for it"}
    if tool == "finish":
        return {"summary": "The user asked for the end.", "reason": "asked"}
    word = found["value"]
    return {"key": found["key"], "value": int(word) if word.isdecimal() else _VALUES.get(word.lower(), word)}


_FIELD = re.compile(r"`(?P<name>\w+)` \((?P<kind>\w+)")  # as the tool's description lists the fields


def _state_calls(seen: Transcript, request: ModelRequest) -> Calls | None:
    """Fill an agent's own state once in a run, texts before lists, so that it goes through its own phases."""
    descriptions = {tool.name: tool.description for tool in request.tools}
    text = short(seen.newest, 200) or "(no words)"
    fields = _FIELD.finditer(descriptions.get(SET, "") if not seen.calls(SET) else "")
    if calls := [(SET, {"field": found["name"], "value": text}) for found in fields if found["kind"] == "text"]:
        return calls
    item = f"the offline model has looked nothing up about “{short(text, 80)}”"
    lists = _FIELD.finditer(descriptions.get(APPEND, "") if not seen.calls(APPEND) else "")
    return [(APPEND, {"field": found["name"], "value": f"{n}: {item}"}) for found in lists for n in (1, 2, 3)]
