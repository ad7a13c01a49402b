"""A real daemon: what agents make has the rights of the umask it was started with, what it keeps is private."""

import asyncio
import os
import stat
from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, straight
from tests.fakes.modelserver import model_server
from tests.programs import needs_bubblewrap, needs_git

from .kit import TENEX, of_kind, running
from .loopback import MODEL, folder_with_model, settled

COMMAND = "mkdir by && echo > by/shell && echo 'print()' > by/m.py && python3 -m compileall -q by"


def maker(asked: Asked) -> Reply:
    """An agent that makes files with each tool that can."""
    if asked.phase != "execute" or "shell" in asked.results:
        return brisk(asked)
    return calls(
        ("write_file", {"path": "new/by/write", "content": "text\n"}),
        ("write_file", {"path": "draft", "content": "text\n"}),
        ("move_file", {"path": "draft", "to": "other/by/move"}),
        ("shell", {"command": COMMAND}),
    )


@needs_git
@needs_bubblewrap
async def test_files_of_agents_have_the_rights_of_the_umask_the_daemon_was_started_with(
    tmp_path: Path, relay: str
) -> None:
    project = tmp_path / "shared" / "project"
    async with model_server(Team(straight, maker)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, f'[paths]\nworkspace = "{project}"\n')
        words = [*TENEX, "run", "--data", str(folder.data)]
        before = await asyncio.to_thread(os.umask, 0o002)
        try:
            async with running(words, TENEX_MODELS__DEFAULT=MODEL, LOCAL_KEY=server.key) as process:
                await process.until("runtime.ready")
                name = await folder.write("Make note-01.txt.")
                await settled(folder, name, "waiting")
        finally:
            os.umask(before)
    failed = of_kind(folder.records(name), r.ToolCallCompleted, lambda call: not call.ok)
    assert [call.content for call in failed] == []

    modes = {
        path.relative_to(tmp_path).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in [*project.parents[:1], project, *project.rglob("*")]
    }
    (compiled,) = (path for path in modes if path.endswith(".pyc"))
    assert modes == {
        "shared": 0o775,
        "shared/project": 0o775,
        **{f"shared/project/{path}": 0o775 for path in ("new", "new/by", "other", "other/by", "by", "by/__pycache__")},
        **{
            f"shared/project/{path}": 0o664
            for path in ("note-01.txt", "new/by/write", "other/by/move", "by/shell", "by/m.py")
        },
        compiled: 0o664,
    }
    kept = [path for path in folder.data.rglob("*") if not path.is_symlink()]
    assert len(kept) > 10
    assert [str(path) for path in kept if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
