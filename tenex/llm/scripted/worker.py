"""One step of an agent: the rules of its phase give tool calls, or the end of its run."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, ModelRequest, ModelStep
from tenex.core.state.agent_tools import APPEND, SET

from .requests import FILE, SELF, CannotApply, Task, intent_of, short, small_talk
from .transcript import LEARNED, Calls, Transcript

NOTHING_DONE = "Nothing was changed"
"""How the summary of a run without changes begins; the router waits for the user then."""
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


def answer_work(request: ModelRequest) -> ModelStep:
    """The next step of an agent; an unknown phase is treated as chat."""
    seen = Transcript(request)
    calls = _workflow_calls(seen) or _state_calls(seen) or _PHASES.get(request.phase, _chat)(seen)
    tool, arguments = calls[0]
    if tool == "complete" and not seen.may_call(tool):  # one that was refused once would be refused again
        return ModelStep(text=arguments["response"])
    return ModelStep(
        calls=tuple(
            CallRequest(id=CallId(f"offline-{seen.steps + 1}-{number}"), tool=tool, arguments=arguments)
            for number, (tool, arguments) in enumerate(calls, start=1)
        )
    )


def _end(seen: Transcript, response: str, summary: str = "", **fields: str) -> Calls:
    """A call of `complete`, which ends the run."""
    if seen.unused:
        notice = f"This agent has tools of its own that I cannot use: {', '.join(seen.unused)}. {CONFIGURE}"
        response = f"{response.removesuffix(CONFIGURE).rstrip()}\n\n{notice}"
    fields = {"response": response, "summary": summary, **fields}
    return [("complete", {name: value for name, value in fields.items() if value})]


def _cannot(seen: Transcript, why: str) -> Calls:
    return _end(seen, f"{SELF} {why}\n\n{ABILITIES} {CONFIGURE}", f"{NOTHING_DONE}: {short(why, 200)}")


def _hand_over(seen: Transcript, here: str) -> Calls | None:
    """A call of `hand_over` where the newest message leads to another phase; None where the talk goes on."""
    phase = intent_of(seen.newest, here, is_asked=bool(seen.tasks))
    if phase == here or not seen.may_call("hand_over"):  # one that was refused would be refused again
        return None
    return [("hand_over", {"phase": phase, "reason": f"“{short(seen.newest)}” leads to {phase}"})]


def _chat(seen: Transcript) -> Calls:
    if handed_over := _hand_over(seen, "chat"):
        return handed_over
    text = seen.newest
    if answer := small_talk(text):
        return _end(seen, answer, "Answered small talk")
    if seen.tasks:
        return _end(seen, f"{UNDERSTOOD} {' and '.join(map(_aim, seen.tasks))}.")
    file = re.search(FILE, text[:5_000])
    asks = f"What shall `{file['path']}` hold or print?" if file else "Which file shall I make or change, and how?"
    return _cannot(seen, f"I do not understand {f'“{short(text)}”' if text.strip() else 'an empty message'}. {asks}")


def _brainstorm(seen: Transcript) -> Calls:
    response = (
        f"{SELF} So I have no ideas of my own, but three questions help with most: what is its smallest useful form, "
        f"who needs it most, and what would you do without it? Which one shall we follow? {CONFIGURE}"
    )
    return _hand_over(seen, "brainstorm") or _end(seen, response, "Three questions; the user chooses")


def _plan(seen: Transcript) -> Calls:
    if not seen.tasks:
        return _cannot(seen, "I can plan only what I understand.")
    steps = [f"Write the file, so that {_aim(task)}." for task in seen.tasks]
    steps += ["Run or read what was written, and compare.", "Tidy up, and report what changed."]
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    return _end(seen, f"{SELF} The plan:\n\n{numbered}", short(" ".join(steps), 400))


def _aim(task: Task) -> str:
    return f"`{task.path or 'a file'}` {task.describe()}"


def _execute(seen: Transcript) -> Calls:
    """Look at what exists, read the files that will change, write them, report."""
    tasks = seen.tasks
    if not tasks:
        return _cannot(seen, "I do not understand this request.")
    if any(task.kind != "list" and not task.path for task in tasks):
        if seen.may_call("ask"):
            return [("ask", {"question": "Which name shall the file have?"})]
        return _cannot(seen, "I need a name for the file.")
    if seen.may_call("list_files"):
        return [("list_files", {})]
    listed = {path for done in seen.calls("list_files") for path in done.content.split()}
    if reads := seen.first_calls("read_file", sorted(listed & {task.path for task in tasks})):
        return reads
    shown = [_shown(seen, task) for task in tasks if task.kind in ("read", "list")]
    good, bad, writes = [], [], []
    for path, changes in _changes(tasks).items():
        written = seen.calls("write_file", path)
        try:
            old = seen.before(path)
            new = _applied(changes, old)
        except CannotApply as reason:
            bad.append(f"I did not change `{path}`: {reason}.")
            continue
        if written and not written[-1].ok:
            bad.append(f"I could not write `{path}`: {short(written[-1].content, 300)}")
        elif not written or written[-1].arguments.get("content") != new:
            writes.append(("write_file", {"path": path, "content": new}))
        else:
            verb = "Created" if old is None else "Kept" if old == new else "Changed"
            good.append(f"{verb} `{path}`: it {_describe(changes)}.")
    if writes:
        return writes
    if bad and not good:
        return _cannot(seen, " ".join(bad))
    summary = " ".join([*good, *bad]) or f"{NOTHING_DONE}: showed what was asked for"
    return _end(seen, "\n\n".join([*shown, *good, *bad]), summary)


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


def _applied(tasks: Sequence[Task], content: str | None) -> str:
    for task in tasks:
        content = task.apply(content)
    return content or ""


def _shown(seen: Transcript, task: Task) -> str:
    done = seen.calls("read_file", task.path) if task.path else seen.calls("list_files")
    content = done[0].content if done else "not found"
    return f"{f'`{task.path}`' if task.path else 'The files'}:\n\n{content}"


def _verify(seen: Transcript) -> Calls:
    """Read what was changed, run programs, and see that carrying out the request again would change nothing."""
    changes = {path: list[Task]() for path in seen.changed} | _changes(seen.tasks)
    programs = [path for path in changes if path.endswith(".py")]
    if calls := seen.first_calls("read_file", changes) or seen.first_calls("check", programs):
        return calls
    faults = [f"`{path}` {fault}" for path, tasks in changes.items() if (fault := _fault(seen, path, tasks))]
    if faults or not changes:
        listed = "\n".join(f"- {fault}" for fault in faults) or "- I found no file to verify"
        return _end(seen, f"Issues:\n{listed}", verdict="issues", issues=listed)
    ran = {path for path in programs for run in seen.calls("check", path) if run.ok}
    listed = "\n".join(
        f"- {f'ran `python {path}`' if path in ran else f'read `{path}`'}: it {_describe(tasks) or 'can be read'}"
        for path, tasks in changes.items()
    )
    return _end(seen, f"{VERIFIED}\n{listed}", verdict="verified")


def _fault(seen: Transcript, path: str, tasks: Sequence[Task]) -> str:
    """What is wrong with a file; empty where nothing is."""
    if failed := next((run for run in seen.calls("check", path) if not run.ok and _RAN.search(run.content)), None):
        return f"fails when it is run: {short(failed.content[-300:], 300)}"
    try:
        content = seen.before(path)
        if content is None:
            return "cannot be read"
        is_right = not tasks or _applied(tasks, content).rstrip() == content.rstrip()
    except CannotApply as reason:
        return f"could not be verified: {reason}"
    return "" if is_right else f"is not so that it {_describe(tasks)}"


def _chores(seen: Transcript) -> Calls:
    """Look through the files of this cycle; what the model wrote needs no tidying."""
    looked = ", ".join(f"`{path}`" for path in seen.changed) or "the workspace"
    text = f"Looked through {looked}: I found nothing to tidy."
    return seen.first_calls("read_file", seen.changed) or _end(seen, text, text)


def _reflect(seen: Transcript) -> Calls:
    """Record one lesson."""
    proof = next((text for text in reversed(seen.texts) if text.startswith(VERIFIED)), "")
    proof = short(proof.removeprefix(VERIFIED).strip(" -\n"), 200)
    outcome = f"verified by this: {proof}" if proof else "it was not verified"
    lesson = f"Asked for “{seen.request or 'nothing in words'}”; {outcome}."
    if seen.may_call("learn"):
        return [("learn", {"title": short(seen.request, 50) or "Nothing in words", "lesson": lesson})]
    if failed := [done.content for done in seen.calls("learn") if not done.ok]:
        return _end(seen, f"I could not record my lesson ({short(failed[-1], 150)}): {lesson}")
    return _end(seen, f"{LEARNED} {lesson}")


_PHASES = {
    "brainstorm": _brainstorm,
    "plan": _plan,
    "execute": _execute,
    "verification": _verify,
    "chores": _chores,
    "reflection": _reflect,
}

_WORKFLOW = tuple(  # tool, what asks for it, arguments beside the words of the request
    (tool, re.compile(rf"(?:(?<![@\w-])(?P<agent>[a-z0-9-]+)\s+)?{words}", re.IGNORECASE), arguments)
    for tool, words, arguments in (
        (
            "handoff",
            r"hand(?P<s>s?)\s+(?:off|over)\s+to\s+@?(?P<target>[a-z0-9-]+)",
            {"reason": "the user asked for it"},
        ),
        ("set_context", r"set(?P<s>s?)\s+`?(?P<key>\w+)`?\s+to\s+`?(?P<value>[\w.-]*\w)`?", {}),
        (
            "finish",
            r"finish(?P<s>(?:es)?)\s+the\s+workflow\b",
            {"summary": "The user asked for the end.", "reason": "asked"},
        ),
    )
)
_VALUES: dict[str, Any] = {"true": True, "false": False, "none": None, "null": None}


def _workflow_calls(seen: Transcript) -> Calls | None:
    """What a speaker of a workflow is asked for, once: by name, as `planner hands off to executor`, or as the first."""
    if "handoff" not in seen.tools:
        return None
    calls: list[tuple[str, Mapping[str, Any]]] = []
    has_spoken = any(text.startswith(f"This is {seen.agent}.") for text in seen.texts)
    for tool, pattern, arguments in _WORKFLOW:
        for found in pattern.finditer("\n".join(seen.messages)):
            words = found.groupdict()
            agent = words.pop("agent")
            is_meant = agent == seen.agent and not has_spoken if words.pop("s") and agent else not seen.texts
            if is_meant and not seen.calls(tool) and words.get("target") != seen.agent:
                if "value" in words:
                    word = words["value"]
                    words["value"] = int(word) if word.isdecimal() else _VALUES.get(word.lower(), word)
                calls.append((tool, {**words, **arguments}))
                break
    if calls:
        return calls
    done = [done.content.rstrip(".") for tool, _, _ in _WORKFLOW for done in seen.calls(tool)]
    return _end(seen, f"This is {seen.agent}. As you asked: {short('; '.join(done), 400)}.") if done else None


_FIELD = re.compile(r"`(?P<name>\w+)` \((?P<kind>\w+)")  # as the tool's description lists the fields


def _state_calls(seen: Transcript) -> Calls:
    """Fill an agent's own state once in a run, texts before lists, so that it goes through its own phases."""
    text = short(seen.newest, 200) or "(no words)"
    fields = _FIELD.finditer(seen.tools[SET] if seen.may_call(SET) else "")
    if calls := [(SET, {"field": found["name"], "value": text}) for found in fields if found["kind"] == "text"]:
        return calls
    item = f"the offline model has looked nothing up about “{short(text, 80)}”"
    lists = _FIELD.finditer(seen.tools[APPEND] if seen.may_call(APPEND) else "")
    return [(APPEND, {"field": found["name"], "value": f"{n}: {item}"}) for found in lists for n in (1, 2, 3)]
