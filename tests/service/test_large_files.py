"""Files that no checkpoint holds: what the model and the person read where a real command has lost or moved one."""

from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, straight
from tests.programs import needs_bubblewrap, needs_git

from .kit import of_kind, tenex_here
from .loopback import at_work, settled

LARGE = b"row\n" * (11 * 1024 * 1024 // 4)
COMMANDS = {"execute": "echo tiny > b.csv; mv a.csv moved.csv", "verification": "cat a.csv b.csv moved.csv | wc -c"}


def careless(asked: Asked) -> Reply:
    """An agent that overwrites one large file, and renames another."""
    command = COMMANDS.get(asked.phase)
    if command is not None and "shell" not in asked.results:
        return calls(("shell", {"command": command}))
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
        assert "No checkpoint has what was there before: a.csv, b.csv.]" in results[0].content
        words = ("conversations", "rollback", name, "--to", "2", "--files", "--yes", "--data", folder.data)
        code, out, errors = await tenex_here(*words)
        assert code == 0, errors
        assert "  left as they are: a.csv, b.csv (was 12 MB and is not in the checkpoints)\n" in out
        assert "  left as they are: moved.csv (new; may hold what was a.csv)\n" in out
        assert (folder.workspace / "moved.csv").read_bytes() == LARGE
        assert (folder.workspace / "b.csv").read_text() == "tiny\n"
        await folder.delivered(name)
        (note,) = [event["content"] for event in await folder.sent() if "went back" in event["content"]]
        assert (
            "Left as they are: a.csv, b.csv (was 12 MB and is not in the checkpoints); moved.csv (new; may hold" in note
        )
