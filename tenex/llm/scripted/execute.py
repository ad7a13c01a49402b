"""Execute: look at what is there, read it, write what was asked, and say what was done."""

from collections.abc import Sequence
from dataclasses import dataclass

from .marks import file_names
from .moves import NOTHING_DONE, SELF, Finish, Move, act, cannot
from .request import expected, files_changed, understood
from .tasks import WHOLE_FILE, Lines, Program, Task, Unable, describe, short
from .transcript import Transcript
from .writing import CannotWrite, fold

_TRIES = 2  # a write is refused once for a file that was not read; a second refusal is final


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One file of the request: what it held, what it shall hold, and what stands in the way."""

    path: str
    tasks: tuple[Task, ...]
    old: str | None
    new: str
    obstacle: str = ""


def build(seen: Transcript) -> Move:
    """Decide the next step of an agent that builds."""
    asked = understood(seen)
    if asked.question and "ask" in seen.offered and not seen.calls("ask") and seen.reply_to(asked.question) is None:
        return act(("ask", {"question": asked.question}))
    tasks = expected(seen)
    if not tasks:
        return cannot()
    if "write_file" not in seen.offered:
        return cannot("I was given no tool that writes files here.")
    if "list_files" in seen.offered and not seen.calls("list_files"):
        return act(("list_files", {}))
    grouped = by_path(tasks, taken=_taken(seen))
    unread = [path for path in grouped if _must_read(seen, path)]
    if unread and "read_file" in seen.offered:
        return act(*(("read_file", {"path": path}) for path in unread))
    files = [_prepared(seen, path, group) for path, group in grouped.items()]
    missing = [file for file in files if _must_write(seen, file)]
    if missing:
        return act(*(("write_file", {"path": file.path, "content": file.new}) for file in missing))
    return _report(seen, files)


def by_path(tasks: Sequence[Task], taken: frozenset[str] = frozenset()) -> dict[str, tuple[Task, ...]]:
    """The tasks of each file in order; a file nobody named gets a name that is not taken."""
    grouped: dict[str, tuple[Task, ...]] = {}
    named = {task.path for task in tasks}
    for task in tasks:
        path = task.path or _free(task.name_hint, taken | grouped.keys() | {name for name in named if name})
        # what is written whole leaves nothing of what was asked for before
        before = () if isinstance(task, WHOLE_FILE) else grouped.get(path, ())
        grouped[path] = (*before, task)
    return grouped


def _free(hint: str, taken: frozenset[str]) -> str:
    stem, _, suffix = (hint or "file.txt").rpartition(".")
    names = [f"{stem}.{suffix}", *(f"{stem}_{number}.{suffix}" for number in range(2, 100))]
    return next((name for name in names if name not in taken), names[0])


def _listed(seen: Transcript) -> frozenset[str]:
    listing = seen.calls("list_files")
    return frozenset(file_names(listing[0].content)) if listing and listing[0].ok else frozenset()


def _taken(seen: Transcript) -> frozenset[str]:
    """Files of others: those that were there, but for what an earlier run of this conversation made."""
    return _listed(seen) - {name for text in seen.said for name in file_names(text)}


def _must_read(seen: Transcript, path: str) -> bool:
    own = [done for done in seen.done if done.path == path]
    reads = [done for done in own if done.tool == "read_file"]
    refused = [done for done in own if done.tool == "write_file" and not done.ok]
    if refused and len(refused) < _TRIES:
        return own[-1] is refused[-1]
    listing = seen.last("list_files")
    is_known_absent = listing is not None and listing.ok and path not in _listed(seen)
    return not reads and not seen.calls("write_file", path) and not is_known_absent


def _prepared(seen: Transcript, path: str, tasks: tuple[Task, ...]) -> _File:
    """What a file shall hold, reckoned from what it held before this run wrote to it."""
    first = next(
        (at for at, done in enumerate(seen.done) if done.tool == "write_file" and done.path == path and done.ok), None
    )
    reads = [done for done in seen.done[:first] if done.tool == "read_file" and done.path == path]
    old = reads[-1].text if reads and reads[-1].ok else None
    is_whole = old is None or reads[-1].is_whole
    done: list[Task] = []
    new, obstacles = old, []
    for task in tasks:
        if not is_whole and not isinstance(task, WHOLE_FILE | Unable):
            obstacles.append(f"{path} is longer than what I am shown of a file, so I do not rewrite it")
            continue
        try:
            new = fold((task,), new)
            done.append(task)
        except CannotWrite as reason:
            obstacles.append(str(reason))
    return _File(path=path, tasks=tuple(done), old=old, new=new or "", obstacle="; ".join(obstacles))


def _must_write(seen: Transcript, file: _File) -> bool:
    writes = seen.calls("write_file", file.path)
    written = [done for done in writes if done.ok]
    if not file.tasks or len([done for done in writes if not done.ok]) >= _TRIES:
        return False
    if written:
        return written[-1].arguments.get("content") != file.new
    # a program that is there already is written once more: `check` runs only what this cycle has changed
    return file.old is None or file.old != file.new or (_is_program(file) and file.path not in files_changed(seen))


def _is_program(file: _File) -> bool:
    return file.path.endswith(".py") and any(isinstance(task, Program) for task in file.tasks)


def _report(seen: Transcript, files: Sequence[_File]) -> Finish:
    good, bad, tries = [], [], []
    for file in files:
        writes = seen.calls("write_file", file.path)
        if file.obstacle:
            bad.append(f"{file.obstacle}.")
        if not file.tasks:
            continue
        does = " and ".join(_does(task) for task in file.tasks)
        if any(done.ok for done in writes) and file.old == file.new:
            good.append(f"`{file.path}` was already as you asked; I wrote it again: it {does}.")
        elif any(done.ok for done in writes):
            former = " What it held before is replaced." if file.old and isinstance(file.tasks[0], WHOLE_FILE) else ""
            good.append(f"{'Created' if file.old is None else 'Changed'} `{file.path}`: it {does}.{former}")
        elif writes:
            bad.append(f"I could not write `{file.path}`: {short(writes[-1].content, 300)}")
            continue
        else:
            good.append(f"`{file.path}` is already as you asked: it {does}.")
        if _is_program(file):
            tries.append(f"`python {file.path}`")
    if not good:
        return cannot(" ".join(bad))
    response = "\n".join(good) + (f"\nTry it: {', '.join(tries)}." if tries else "")
    if bad:
        response += f"\n\n{SELF} This I did not do: {' '.join(bad)}"
    is_nothing = not any(done.ok for done in seen.calls("write_file")) and bad
    summary = " ".join([*([f"{NOTHING_DONE}."] if is_nothing else []), *good, *bad])
    return Finish(response=response, summary=summary + (f" Try it: {', '.join(tries)}." if tries else ""))


def _does(task: Task) -> str:
    return f"also {describe(task)}" if isinstance(task, Lines) else describe(task)
