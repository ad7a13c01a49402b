"""Verification: read what was made, run it where it can be run, and compare with what was asked."""

import re
from collections.abc import Iterator, Sequence

from .execute import by_path
from .moves import Finish, Move, act
from .python_source import functions_named
from .request import expected, files_made
from .tasks import Function, Lines, ListFile, Program, Replacement, Task, TextFile, Unable, describe, short
from .transcript import Done, Transcript

_EXIT = re.compile(r"\b(?:exit(?:ed)?(?: with)?(?: status| code)?|status)\D{0,3}(-?\d+)", re.IGNORECASE)
_CRASHED = re.compile(r"Traceback|\btimed? ?out\b|\bkilled\b|\bstill running\b|\bby signal\b", re.IGNORECASE)


def verify(seen: Transcript) -> Move:
    """Decide the next step of an agent that tests."""
    wanted = _wanted(seen)
    if not wanted:
        return Finish(
            response="I found nothing to verify: no message names a file that was made.",
            summary="Nothing to verify",
            verdict="issues",
            issues="Say which files were made, then verify again.",
        )
    unread = [path for path in wanted if not seen.calls("read_file", path)]
    if unread and "read_file" in seen.offered:
        return act(*(("read_file", {"path": path}) for path in unread))
    unchecked = [path for path in wanted if _can_run(seen, path) and not seen.calls("check", path)]
    if unchecked:
        return act(*(("check", {"path": path}) for path in unchecked))
    return _verdict(seen, wanted)


def _wanted(seen: Transcript) -> dict[str, tuple[Task, ...]]:
    """The files to look at, with what each was to become."""
    made = files_made(seen)
    tasks = [task for task in expected(seen) if not isinstance(task, Unable)]
    spare = [path for path in made if path not in {task.path for task in tasks}]
    placed: list[Task] = []
    loose: list[tuple[str, Task]] = []
    for task in tasks:
        if task.path is not None:
            placed.append(task)
        else:
            same = [path for path in spare if path.rpartition(".")[2] == task.name_hint.rpartition(".")[2]]
            path = same[0] if same else task.name_hint
            spare = [other for other in spare if other != path]
            loose.append((path, task))
    wanted = dict.fromkeys(made, ()) | by_path(placed)
    for path, wish in loose:
        wanted[path] = (*wanted.get(path, ()), wish)
    return {path: tuple(_as_replaced(wishes)) for path, wishes in wanted.items()}


def _as_replaced(tasks: Sequence[Task]) -> Iterator[Task]:
    """The tasks of one file as they look when the replacements among them have been made."""
    for at, task in enumerate(tasks):
        later = [other for other in tasks[at + 1 :] if isinstance(other, Replacement)]
        if isinstance(task, Program) and task.text is not None and later:
            text = task.text
            for replacement in later:
                text = text.replace(replacement.old, replacement.new)
            yield Program(path=task.path, text=text, name_hint=task.name_hint)
        elif isinstance(task, Program) or not later:
            yield task


def _can_run(seen: Transcript, path: str) -> bool:
    read = seen.last("read_file", path)
    return path.endswith(".py") and "check" in seen.offered and read is not None and read.ok


def _verdict(seen: Transcript, wanted: dict[str, tuple[Task, ...]]) -> Finish:
    proofs: list[str] = []
    faults: list[str] = []
    for path, tasks in wanted.items():
        read, run = seen.last("read_file", path), seen.last("check", path)
        if read is None or not read.ok:
            faults.append(f"`{path}` cannot be read: {short(read.content, 200) if read else 'I have no tool for it'}")
            continue
        wrong = [fault for task in tasks if (fault := _fault(task, path, read.text, run))]
        if run is not None and (crash := _crash(run)):
            wrong.append(f"`python {path}` fails: {crash}")
        faults.extend(wrong)
        if not wrong:
            proofs.append(_proof(path, tasks, run))
    if faults:
        reproduce = "\n".join(f"- {fault}" for fault in faults)
        return Finish(
            response=f"I found {len(faults)} issue{'s' if len(faults) != 1 else ''}:\n{reproduce}",
            summary=f"Issues: {short('; '.join(faults), 300)}",
            verdict="issues",
            issues=reproduce,
        )
    found = "\n".join(f"- {proof}" for proof in proofs)
    return Finish(response=f"Verified:\n{found}", summary=f"Verified: {'; '.join(proofs)}", verdict="verified")


def _status(run: Done) -> int | None:
    """The exit status a check tells at the end of its first line; what follows is the program's own."""
    found = _EXIT.findall(run.content.strip().partition("\n")[0])
    return int(found[-1]) if found else None


def _crash(run: Done) -> str:
    """How a run ended where it ended badly; empty where it ended well or did not take place."""
    status = _status(run)
    if status:
        return f"exit status {status}: {short(run.content[-300:], 300)}"
    return short(run.content[-300:], 300) if not run.ok and _CRASHED.search(run.content) else ""


def _did_run(run: Done | None) -> bool:
    return run is not None and (run.ok or _status(run) is not None or bool(_CRASHED.search(run.content)))


def _fault(task: Task, path: str, content: str, run: Done | None) -> str:
    """Say what is wrong with a file in the light of one task; an empty string if nothing is."""
    match task:
        case Program(text=str(text)) if run is not None and _did_run(run):
            is_right = _holds_lines(run.content, text.splitlines())
            return "" if is_right else f"run `python {path}`: it does not print “{short(text)}”"
        case Program(text=str(text), code=code):
            is_right = content == code if code is not None else all(line in content for line in text.splitlines())
            return "" if is_right else f"open `{path}`: nothing in it prints “{short(text)}”"
        case TextFile(text=text):
            is_right = content.strip() == text.strip() or (bool(text.strip()) and text.strip() in content)
            return "" if is_right else f"open `{path}`: it does not hold “{short(text)}”"
        case Lines(text=text):
            return "" if text.strip() in content else f"open `{path}`: the line “{short(text)}” is not there"
        case ListFile(items=items):
            missing = [item for item in items if item not in content]
            return f"open `{path}`: the list lacks “{short(', '.join(missing))}”" if missing else ""
        case Function(name=name):
            return "" if functions_named(content, name) else f"open `{path}`: there is no function `{name}`"
        case Replacement(old=old, new=new):
            return "" if new in content else f"open `{path}`: “{short(old)}” was not changed to “{short(new)}”"
        case _:
            return ""


def _holds_lines(output: str, lines: Sequence[str]) -> bool:
    """Whether the lines stand in the output, whole and next to each other."""
    printed = [line.rstrip() for line in output.splitlines()]
    wanted = [line.rstrip() for line in lines]
    return any(printed[at : at + len(wanted)] == wanted for at in range(len(printed) - len(wanted) + 1))


def _proof(path: str, tasks: Sequence[Task], run: Done | None) -> str:
    does = " and ".join(describe(task) for task in tasks) or "can be read"
    how = f"ran `python {path}`" if _did_run(run) else f"read `{path}`"
    if run is not None and not _did_run(run):
        how += " (I was not let run it)"
    return f"{how}: it {does}" + ("" if tasks or not _did_run(run) else " and runs without an error")
