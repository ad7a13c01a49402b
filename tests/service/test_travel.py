"""Going back and branching off with the real program: beside a daemon, without one, with files, and through a kill."""

from pathlib import Path
from typing import Any

import pytest

from tenex.core import records as r
from tenex.core.phases import Phase
from tenex.core.rollback.whole import ConversationForked, RolledBack

from . import person
from .kit import FULL_CYCLE, Folder, daemon, of_kind, ordered, phases, tenex_here


async def did(folder: Folder, *words: str | Path) -> Any:
    """The result of a command about conversations with `--json`."""
    return await folder.facts("conversations", *words)


async def is_whole(folder: Folder) -> None:
    """Every journal and every view is as it should be."""
    for verdict in await did(folder, "verify"):
        assert verdict["faults"] == [], verdict


def before_verification(folder: Folder, name: str) -> int:
    """The last record before verification was entered for the first time."""
    moves = of_kind(folder.records(name), r.PhaseTransition, lambda move: move.to is Phase.VERIFICATION)
    return int(moves[0].seq) - 2


def in_workspace(folder: Folder) -> dict[str, str]:
    """Every file there, with its content."""
    return {
        path.relative_to(folder.workspace).as_posix(): path.read_text()
        for path in sorted(folder.workspace.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and ".pytest_cache" not in path.parts
    }


async def ended(folder: Folder, name: str) -> None:
    """A conversation has come to its end, and every delivery is on record."""
    await folder.until(name, "ended")
    await folder.delivered(name)


async def test_a_conversation_goes_back_with_its_files_and_comes_to_its_end_again(folder: Folder) -> None:
    async with daemon(folder):
        name = await folder.write("Create hello.py that prints hello")
        await ended(folder, name)
        (folder.workspace / "notes.txt").write_text("mine\n")
        there = in_workspace(folder)
        to = before_verification(folder, name)
        at_end = folder.state(name)
        words = ("conversations", "rollback", name, "--to", str(to), "--data", folder.data)
        code, out, errors = await tenex_here(*words)
        assert (code, out) == (2, "")
        assert all(part in errors for part in ("Nothing was done. Add `--yes`", "undone: turn-2"))
        code, out, errors = await tenex_here(*words, "--files")
        assert (code, out) == (2, "")
        assert "left as they are: notes.txt (changed by somebody else)" in errors
        assert folder.state(name) == at_end
        done = await did(folder, "rollback", name, "--to", str(to), "--files", "--yes", "--reason", "test it again")
        assert (done["phase"], done["status"]) == ("execute", "waiting")
        assert done["files"]["why"] == {"notes.txt": "changed by somebody else"}
        assert "notes.txt" in in_workspace(folder)
        state = folder.state(name)
        gates = (Phase.VERIFICATION, Phase.CHORES, Phase.REFLECTION)
        assert (state.cycle.phase, state.cycle.status, state.unmet_gates) == (Phase.EXECUTE, "waiting", gates)
        assert state.totals.usage == at_end.totals.usage

        undone = await did(folder, "rollback", name, "--to", str(done["undo"]), "--files", "--yes")
        assert in_workspace(folder) == there, "going back can itself be undone"
        assert (undone["status"], undone["phase"]) == ("ended", "reflection")
        await did(folder, "rollback", name, "--to", str(to), "--files", "--yes")

        await folder.write("Go on and verify it", to=name)
        await ended(folder, name)
    await is_whole(folder)
    view = folder.view(name)
    assert phases(view) == [*FULL_CYCLE, *FULL_CYCLE[1:]]
    first, second, third = view["rollbacks"]
    assert (first["to"], first["by"], first["reason"]) == (to, "The operator", "test it again")
    assert first["undone"] == third["undone"] == [turn["turnId"] for turn in view["orchestratorTurns"]][1:4]
    assert second["undone"] == []
    assert sum("test it again" in event["content"] for event in await folder.sent()) == 1
    stats = await did(folder, "stats", name)
    assert stats["usage"]["inputTokens"] == view["usage"]["inputTokens"]
    assert (await did(folder, "replay", name, "--to", str(to)))["phase"] == "execute"


@pytest.mark.soak
async def test_a_kill_right_after_the_record_loses_nothing_and_publishes_once(folder: Folder) -> None:
    async with daemon(folder) as process:
        name = await folder.write("Create hello.py that prints hello")
        await ended(folder, name)
    to = before_verification(folder, name)
    async with ordered(folder, "appended", 1) as process:  # the first append of this life is the rollback's
        code, out, errors = await tenex_here(
            "conversations", "rollback", name, "--to", str(to), "--yes", "--data", folder.data
        )
        assert (code != 0, out) == (True, ""), errors
        await process.ended()
    (back,) = of_kind(folder.records(name), RolledBack)
    assert back.to == to
    async with daemon(folder) as process:
        await folder.delivered(name)
        assert folder.state(name).cycle.phase is Phase.EXECUTE
        assert sum("went back" in event["content"] for event in await folder.sent()) == 1
        await folder.write("Go on and verify it", to=name)
        await ended(folder, name)
    await is_whole(folder)


async def test_a_fork_is_a_conversation_of_its_own(folder: Folder) -> None:
    async with daemon(folder):
        name = await folder.write("Create hello.py that prints hello")
        await ended(folder, name)
        at = before_verification(folder, name)
        records = folder.records(name)
        made = await did(folder, "fork", name, "--to", str(at))
        other = made["id"]
        assert made["forkedFrom"] == {"id": name, "seq": at}
        root = await published(folder, other)
        assert root["kind"] == 1
        assert ["q", name] in [tag[:2] for tag in root["tags"]]
        assert ["p", folder.owner.public] in root["tags"]
        assert not [tag for tag in root["tags"] if tag[0] == "e"]
        assert folder.records(name) == records, "the original is as it was"
        await folder.write("Go on and verify it", to=other)
        await ended(folder, other)
    assert folder.records(name) == records
    begins = folder.records(other)[0]
    assert isinstance(begins, ConversationForked)
    assert await folder.sent(_e=[other]), "answers are in the thread of the fork"
    view = folder.view(other)
    assert phases(view) == FULL_CYCLE
    assert view["forkedFrom"] == {"id": name, "seq": at, "title": folder.view(name)["title"]}
    assert view["title"] == f"Fork of {folder.view(name)['title']}"
    await is_whole(folder)
    rows = {row["id"]: row for row in await did(folder, "list")}
    assert (rows[other]["status"], rows[other]["title"]) == ("ended", view["title"])
    stats = await did(folder, "stats", other)
    assert stats["usage"]["inputTokens"] == view["usage"]["inputTokens"]
    assert {p: s["visits"] for p, s in stats["phases"].items()} == dict.fromkeys(FULL_CYCLE, 1)


async def published(folder: Folder, event: str) -> person.Wire:
    """An event, once the relay has it."""
    await folder.delivered(event)
    (found,) = await person.stored(folder.url, ids=[event])
    return found


@pytest.mark.soak
async def test_a_fork_without_a_daemon_and_in_a_thread_is_answered_by_the_next_one(folder: Folder) -> None:
    """Kind 11 has titles, and its comments name their root."""
    root = person.note(
        folder.owner, "Create hello.py that prints hello", ["title", "Hello"], ["p", folder.project.public], kind=11
    )
    async with daemon(folder):
        await person.publish(folder.url, root)
        name = str(root["id"])
        await ended(folder, name)
    at = before_verification(folder, name)
    other = (await did(folder, "fork", name, "--to", str(at)))["id"]
    assert folder.view(other)["undelivered"] >= 1
    async with daemon(folder):
        event = await published(folder, other)
        assert (event["kind"], ["title", "Fork of Hello"] in event["tags"]) == (11, True)
        ours = [other, folder.url, folder.project.public]
        thread = (["E", *ours], ["K", "11"], ["e", *ours], ["k", "11"], ["p", folder.project.public])
        reply = person.note(folder.owner, "Go on and verify it", *thread, kind=1111)
        await person.publish(folder.url, reply)
        await ended(folder, other)
    await is_whole(folder)


async def test_the_files_of_the_last_work_are_listed_and_then_put_back(folder: Folder) -> None:
    """Not what somebody else has changed since; and the file that was there before is as it was, with its mode."""
    kept = folder.workspace / "notes.txt"
    async with daemon(folder):
        name = await folder.write("Create hello.py that prints hello")
        await ended(folder, name)
        first = in_workspace(folder)
        kept.write_text("mine\n")
        await folder.write("Create other.py that prints other", to=name)
        await folder.until(name, "ended", cycle=2)
        assert in_workspace(folder).keys() == first.keys() | {"other.py", "notes.txt"}

        await folder.write("/undo", to=name)
        await answered(folder, name, "1 file changed since before turn-")
        assert in_workspace(folder).keys() == first.keys() | {"other.py", "notes.txt"}, "a list changes nothing"
        await folder.write("/undo yes", to=name)
        await answered(folder, name, "Files are as before turn-")
        assert in_workspace(folder) == {**first, "notes.txt": "mine\n"}

        (folder.workspace / "hello.py").write_text("print('by hand')\n")
        await folder.write("/undo cycle", to=name)
        await answered(folder, name, "Left as they are: hello.py (changed by somebody else too)")
        (folder.workspace / "hello.py").write_text(first["hello.py"])
        await folder.write("/undo cycle", to=name)
        await answered(folder, name, "since before cycle 1: hello.py. `/undo yes`")
        await folder.write("/undo yes", to=name)
        await answered(folder, name, "Put back: hello.py. What they held")  # not as before: there are the notes
        assert in_workspace(folder) == {"notes.txt": "mine\n"}
        await folder.write("/undo", to=name)
        await answered(folder, name, "There is nothing to undo.")
    await is_whole(folder)


async def answered(folder: Folder, name: str, words: str) -> None:
    """Wait until the newest message of ours holds these words."""

    def holds() -> bool:
        sent = of_kind(folder.records(name), r.MessageSent, lambda _: True)
        return bool(sent) and words in sent[-1].text

    try:
        await person.until(holds)
    except TimeoutError:
        print("LAST", of_kind(folder.records(name), r.MessageSent, lambda _: True)[-1].text)
        raise
