"""What commands do in each phase, with the real daemon: a person's files stay theirs, and `/undo` says what it did."""

from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, straight
from tests.programs import needs_bubblewrap, needs_git

from . import person
from .kit import of_kind
from .loopback import at_work, settled

PAUSE = "touch {0}.begun; while [ ! -e {0}.done ]; do sleep 0.02; done"
COMMANDS = {
    "execute": f"{PAUSE.format('execute')}; echo made > made.txt; mv .env env; rm execute.begun execute.done",
    "verification": "mv .env2 env2; mv nm nm2; rm -rf src; echo x > README.md; cat made.txt; "
    "touch /tmp/begun; while [ ! -e /tmp/done ]; do sleep 0.02; done; "
    "python3 -c \"assert open('made.txt').read() == 'made\\\\n'\"",
    "chores": "echo tidy >> README.md; echo tidy >> src/app.py; cat README.md",
}


def careless(asked: Asked) -> Reply:
    """An agent that runs one command in each phase, whatever it does there."""
    command = COMMANDS.get(asked.phase)
    if command is not None and "shell" not in asked.results:
        return calls(("shell", {"command": command}))
    return brisk(asked)


@needs_git
@needs_bubblewrap
async def test_a_persons_files_stay_theirs_in_every_phase(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(straight, careless)) as (folder, _):
        root = folder.workspace
        for path, text in {
            ".gitignore": ".env\n.env2\nnm/\n*.begun\n*.done\n",
            ".env": "secret",
            ".env2": "secret",
            "nm/m.js": "1",
            "src/app.py": "app\n",
            "README.md": "read me\n",
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        name = await folder.write("Tidy note-01.txt.")

        await person.until(lambda: (root / "execute.begun").exists() or None, 60)
        (root / "src/app.py").write_text("by hand\n")
        (root / "novel.txt").write_text("a night of work\n")
        (root / "execute.done").touch()
        (begun,) = await person.until(lambda: list((folder.data / "views").glob("*/tmp/begun")) or None, 60)
        (root / "README.md").write_text("by hand\n")
        (begun.parent / "done").touch()
        await settled(folder, name)

        results = of_kind(folder.records(name), r.ToolCallCompleted)
        first = next(record for record in results if "made.txt" in record.touched)
        assert first.touched == ("env", "made.txt")
        assert "Changed by somebody else while it ran: novel.txt, src/app.py." in first.content
        found = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
        assert {path: found.get(path) for path in (".env", "env", ".env2", "nm/m.js", "src/app.py", "novel.txt")} == {
            ".env": None,
            "env": "secret",
            ".env2": "secret",
            "nm/m.js": "1",
            "src/app.py": "by hand\n",
            "novel.txt": "a night of work\n",
        }
        assert found["README.md"] == "by hand\ntidy\n", "what chores permit was applied"
        assert list((folder.data / "views").iterdir()) == []

        await folder.write("/undo cycle", to=name)
        await person.until(lambda: of_kind(folder.records(name), r.FilesUndone) or None)
        await folder.write("/undo yes", to=name)
        await person.until(lambda: of_kind(folder.records(name), r.FilesUndone)[1:] or None)
        await folder.delivered(name)
        undone = of_kind(folder.records(name), r.FilesUndone)
        assert len(undone) == 2
        assert ".env" in undone[0].left
        assert undone[0].left == undone[1].left, "named before and after, in the same words"
        assert (root / "env").read_text() == "secret", "the only copy stays"
        assert (root / "src/app.py").read_text() == "by hand\n"
        assert (root / "novel.txt").exists()
        texts = [event["content"] for event in await folder.sent()]
        assert not any("Files are as before" in text for text in texts)
        assert any(".env" in text and "Left as they are" in text for text in texts)
