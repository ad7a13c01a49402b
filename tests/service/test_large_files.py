"""Files that no checkpoint holds: what the model and the person read where a real command has lost or moved one."""

from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, complete, straight
from tests.programs import needs_bubblewrap, needs_git

from .kit import of_kind, tenex_here
from .loopback import at_work, settled

LARGE = b"row\n" * (11 * 1024 * 1024 // 4)
COMMANDS = {"execute": "echo tiny > b.csv", "verification": "cat b.csv", "chores": "mv a.csv moved.csv"}


def careless(asked: Asked) -> Reply:
    """An agent that overwrites one file, and renames another where nothing may be changed; it says what it was told."""
    command = COMMANDS.get(asked.phase)
    if command is not None and "shell" not in asked.results:
        return calls(("shell", {"command": command}))
    if asked.phase == "chores":
        return complete(response=asked.results["shell"][-1], summary="It is tidy.")
    return brisk(asked)


@needs_git
@needs_bubblewrap
async def test_the_model_and_the_person_are_told_which_files_no_checkpoint_holds(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(straight, careless)) as (folder, _):
        for name in ("a.csv", "b.csv"):
            (folder.workspace / name).write_bytes(LARGE)
        name = await folder.write("Tidy note-01.txt.")
        await settled(folder, name)
        results = of_kind(folder.records(name), r.ToolCallCompleted, lambda result: "[" in result.content)
        assert "[Changed: b.csv. No checkpoint has what was there before: b.csv.]" in results[0].content
        reason = "a.csv (was 12 MB, not in the checkpoint), moved.csv (may hold what was a.csv)"
        assert f"[Could not be put back: {reason}; name this in your response.]" in results[1].content
        assert any(reason in event["content"] for event in await folder.sent()), "the last word repeats it"
        assert (folder.workspace / "moved.csv").read_bytes() == LARGE

        words = ("conversations", "rollback", name, "--to", "2", "--files", "--yes", "--data", folder.data)
        code, out, errors = await tenex_here(*words)
        assert code == 0, errors
        assert "  left alone: a.csv, was 12 MB, not in the checkpoint\n" in out
        assert "  left alone: b.csv, was 12 MB, not in the checkpoint\n" in out
        assert "  left alone: moved.csv, 12 MB, not in the checkpoint\n" in out
        assert "changed back: b.csv" not in out
        assert (folder.workspace / "moved.csv").read_bytes() == LARGE
        assert (folder.workspace / "b.csv").read_text() == "tiny\n"
        await folder.delivered(name)
        (note,) = [event["content"] for event in await folder.sent() if "went back" in event["content"]]
        assert "Files changed back: note-01.txt. Left alone: a.csv (was 12 MB, not in the checkpoint), b.csv (" in note
