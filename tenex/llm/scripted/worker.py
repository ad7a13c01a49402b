"""One step of an agent: the rules of its phase make tool calls, and end its run."""

import re
from collections.abc import Sequence
from typing import Any

from tenex.core.agent_phases.tools import APPEND, SET
from tenex.core.ids import CallId
from tenex.core.messages import CallRequest, CallResult, ModelRequest, ModelStep
from tenex.core.text.prose import fenced

from .agent_run import LEARNED, AgentRun, NextStep, text_of, without_numbers
from .requests import SELF, CannotApply, Task, intent_of, short, small_talk

NOTHING_DONE = "Nothing was changed"
"""How the summary of a run without changes begins; the router waits for the user then."""
UNDERSTOOD = "Understood:"
"""How chat answers a request; the router goes on to execute."""
ABILITIES = (
    "I can write files (“Create notes.txt with milk and eggs”) and programs (“Create hello.py that prints hello”), "
    "replace words (“Change milk to tea in notes.txt”), and show files (“Read notes.txt”, “List the files”)."
)
VERIFIED = "Verified:"
CONFIGURE = (
    "For anything that needs thought, name a model: `models.default` in tenex.toml, or `--model openai:gpt-5-mini` of "
    "a demo."
)

End = dict[str, str]
"""The arguments of `complete`, which ends a run."""


def answer_work(request: ModelRequest) -> ModelStep:
    """The next step of an agent; an unknown phase is treated as chat."""
    run = AgentRun(request)
    try:
        _fill_state(run)
        end = _speak(run) or _PHASES.get(request.phase, _chat)(run)
        if run.unused:
            notice = f"This agent has tools of its own that I cannot use: {', '.join(run.unused)}. {CONFIGURE}"
            end["response"] = f"{end['response'].removesuffix(CONFIGURE).rstrip()}\n\n{notice}"
        run.call("complete", end)
    except NextStep as step:
        tool, each = step.args
        calls = (
            CallRequest(id=CallId(f"offline-{run.steps + 1}-{number}"), tool=tool, arguments=arguments)
            for number, arguments in enumerate(each, start=1)
        )
        return ModelStep(calls=tuple(calls))
    return ModelStep(text=end["response"])  # `complete` is not offered, or was refused


def _cannot(why: str) -> End:
    response = f"{SELF} {why}\n\n{ABILITIES} {CONFIGURE}"
    return {"response": response, "summary": f"{NOTHING_DONE}: {short(why, 200)}"}


def _hand_over(run: AgentRun, here: str) -> str:
    """Hand over where the newest message leads to another phase; what is understood, where that is refused."""
    phase = intent_of(run.newest, here, is_asked=bool(run.tasks))
    is_understood = run.tasks and phase in ("plan", "execute")
    understood = f"{UNDERSTOOD} {' and '.join(map(_aim, run.tasks))}." if is_understood else ""
    if phase != here:
        run.call("hand_over", {"phase": phase, "reason": understood or f"“{short(run.newest)}” leads to {phase}"})
    return understood


def _chat(run: AgentRun) -> End:
    """Talk; in other phases, where nothing is understood."""
    if understood := _hand_over(run, "chat"):
        return {"response": understood}
    if answer := small_talk(run.newest):
        return {"response": answer, "summary": f"{NOTHING_DONE}: small talk"}
    return _cannot(f"I do not understand “{short(run.newest)}”. Which file shall I make or change, and how?")


def _brainstorm(run: AgentRun) -> End:
    _hand_over(run, "brainstorm")
    return _cannot("I have no ideas of my own, so tell me which one to follow.")


def _plan(run: AgentRun) -> End:
    if not run.tasks:
        return _chat(run)
    steps = [f"Write the file, so that {_aim(task)}." for task in run.tasks]
    steps += ["Run or read what was written, and compare.", "Tidy up, and report what changed."]
    numbered = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    return {"response": f"{SELF} The plan:\n\n{numbered}", "summary": short(" ".join(steps), 400)}


def _execute(run: AgentRun) -> End:
    """Look at what exists, read the files that will change, write them, report."""
    tasks = run.tasks
    if not tasks:
        return _chat(run)
    if any(task.kind != "list" and not task.path for task in tasks):
        run.call("ask", {"question": "Which name shall the file have?"})
        return _cannot("I need a name for the file.")
    (files,) = run.call("list_files", {})
    listed = set(files.content.split() if files else ())
    read = run.call_on("read_file", sorted(listed & {task.path for task in tasks}))
    shown = [_shown(task.path, read.get(task.path) if task.path else files) for task in tasks if not task.is_change]
    changes = _changes(tasks)
    new = dict[str, str]()
    good = list[str]()
    bad = list[str]()
    for path, todo in changes.items():
        try:
            new[path] = _applied(todo, text_of(read.get(path)))
        except CannotApply as reason:
            bad.append(f"I did not change `{path}`: {reason}.")
    written = run.call("write_file", *({"path": path, "content": content} for path, content in new.items()))
    for path, done in zip(new, written, strict=True):
        if done and done.ok:
            verb = "Created" if path not in read else "Kept" if text_of(read[path]) == new[path] else "Changed"
            good.append(f"{verb} `{path}`: it {_describe(changes[path])}.")
        else:
            bad.append(f"I could not write `{path}`: {short(done.content, 300) if done else 'I have no tool for it.'}")
    if bad and not good:
        return _cannot(" ".join(bad))
    summary = " ".join([*good, *bad]) or f"{NOTHING_DONE}: showed what was asked for"
    return {"response": "\n\n".join([*shown, *good, *bad]), "summary": summary}


def _aim(task: Task) -> str:
    return f"`{task.path or 'a file'}` {task.describe()}"


def _describe(tasks: Sequence[Task]) -> str:
    return " and ".join(task.describe() for task in tasks)


def _changes(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    """The tasks of each file that change it; what writes it whole leaves nothing of those before."""
    changes: dict[str, list[Task]] = {}
    for task in tasks:
        if task.kind in ("write", "program"):
            changes[task.path] = [task]
        elif task.is_change:
            changes.setdefault(task.path, []).append(task)
    return changes


def _applied(tasks: Sequence[Task], content: str | None) -> str:
    for task in tasks:
        content = task.apply(content)
    return content or ""


def _shown(path: str, result: CallResult | None) -> str:
    head = f"`{path}`:" if path else "The files:"
    if result is None or not result.ok:
        return f"{head} {result.content if result else 'not found'}"
    return f"{head}\n\n{fenced(without_numbers(result.content) if path else result.content)}"


def _verify(run: AgentRun) -> End:
    """Read what was changed, run programs, and see that carrying out the request again would change nothing."""
    changes = {path: list[Task]() for path in run.changed} | _changes(run.tasks)
    read = run.call_on("read_file", changes)
    ran = run.call_on("check", [path for path in run.changed if path.endswith(".py")])
    faults = []
    lines = []
    for path, tasks in changes.items():
        how = f"ran `python {path}`" if ran.get(path) else f"read `{path}`"
        lines.append(f"- {how}: it {_describe(tasks) or 'can be read'}")
        try:
            _check(tasks, read[path], ran.get(path))
        except CannotApply as reason:
            faults.append(f"- `{path}`: {reason}")
    if faults or not changes:
        issues = "\n".join(faults) or "- I found no file to verify"
        return {"response": f"Issues:\n{issues}", "verdict": "issues", "issues": issues}
    summary = "; ".join(line.removeprefix("- ") for line in lines)
    return {"response": "\n".join([VERIFIED, *lines]), "summary": summary, "verdict": "verified"}


def _check(tasks: Sequence[Task], read: CallResult | None, ran: CallResult | None) -> None:
    """Raise `CannotApply` where a file is not as the tasks make it."""
    if ran and not ran.ok:
        raise CannotApply(f"it fails when it is run: {short(ran.content[-300:], 300)}")
    content = text_of(read)
    if content is None:
        raise CannotApply("it cannot be read")
    if tasks and _applied(tasks, content).rstrip() != content.rstrip():
        raise CannotApply(f"it is not so that it {_describe(tasks)}")


def _chores(run: AgentRun) -> End:
    """Look through the files of this cycle; what the model wrote needs no tidying."""
    run.call_on("read_file", run.changed)
    looked = ", ".join(f"`{path}`" for path in run.changed) or "the workspace"
    text = f"Looked through {looked}: I found nothing to tidy."
    return {"response": text, "summary": text}


def _reflect(run: AgentRun) -> End:
    """Record one lesson: of all who reflect at the same time, only those who did more than to verify the work."""
    if run.own_texts and all(text.startswith(VERIFIED) for text in run.own_texts):
        return {"response": "No lesson of my own: it worked as it was made."}
    proof = next((text for text in reversed(run.texts) if text.startswith(VERIFIED)), "")
    outcome = short(proof.replace("\n-", ""), 200) or "It was not verified."
    request = run.request or "nothing in words"
    lesson = f"Asked for “{request}”. {outcome}"
    (learned,) = run.call("learn", {"title": short(request, 50), "lesson": lesson})
    if learned and "says this already" in learned.content:
        return {"response": "No lesson: it has been recorded already."}
    if learned and not learned.ok:
        return {"response": f"I could not record my lesson ({short(learned.content, 150)}): {lesson}"}
    return {"response": f"{LEARNED} {lesson}"}


_PHASES = {
    "chat": _chat,
    "brainstorm": _brainstorm,
    "plan": _plan,
    "execute": _execute,
    "verification": _verify,
    "chores": _chores,
    "reflection": _reflect,
}

_WORKFLOW: tuple[
    tuple[str, str, dict[str, str]], ...
] = (  # tool, what asks for it, arguments beside the words of the request
    ("set_context", r"set(?P<s>s?)\s+`?(?P<key>\w+)`?\s+to\s+`?(?P<value>[\w.-]*\w)`?", {}),
    ("handoff", r"hand(?P<s>s?)\s+(?:off|over)\s+to\s+@?(?P<target>[a-z0-9-]+)", {"reason": "the user asked for it"}),
    ("finish", r"finish(?P<s>(?:es)?)\s+the\s+workflow\b", {"summary": "The user asked for it.", "reason": "asked"}),
)
_SUBJECT = r"(?:(?<![@\w-])(?P<agent>[a-z0-9-]+)\s+)?"
_VALUES: dict[str, Any] = {"true": True, "false": False, "none": None, "null": None}


def _speak(run: AgentRun) -> End | None:
    """Do what a speaker of a workflow is asked for, by name, as `planner hands off to executor`, or as the first."""
    done: list[str] = []
    has_spoken = any(text.startswith(f"This is {run.agent}.") for text in run.texts)
    for tool, sentence, arguments in _WORKFLOW if "handoff" in run.tools else ():
        for found in re.finditer(_SUBJECT + sentence, "\n".join(run.messages), re.IGNORECASE):
            words: dict[str, Any] = found.groupdict()
            agent = words.pop("agent")
            is_meant = agent == run.agent and not has_spoken if words.pop("s") and agent else not run.texts
            if is_meant and words.get("target") != run.agent:
                if word := words.get("value"):
                    words["value"] = int(word) if word.isdecimal() else _VALUES.get(word.lower(), word)
                done += [result.content.rstrip(".") for result in run.call(tool, {**words, **arguments}) if result]
                break
    return {"response": f"This is {run.agent}. As you asked: {short('; '.join(done), 400)}."} if done else None


_FIELD = re.compile(r"`(?P<name>\w+)` \((?P<kind>\w+)")  # as the tool's description lists the fields


def _fill_state(run: AgentRun) -> None:
    """Fill an agent's own state, texts before lists, so that it goes through its own phases."""
    text = short(run.newest, 200) or "(no words)"
    fields = [found["name"] for found in _FIELD.finditer(run.tools.get(SET, "")) if found["kind"] == "text"]
    run.call(SET, *({"field": name, "value": text} for name in fields))
    item = f"the offline model has looked nothing up about “{short(text, 80)}”"
    lists = [found["name"] for found in _FIELD.finditer(run.tools.get(APPEND, ""))]
    run.call(APPEND, *({"field": name, "value": f"{n}: {item}"} for name in lists for n in (1, 2, 3)))
