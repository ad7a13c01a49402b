"""A wrong key that is corrected while the daemon runs: a reload is enough, no message need be sent again."""

import signal
from pathlib import Path

from tests.fakes.modelscripts import Team, straight, swift
from tests.fakes.modelserver import model_server

from . import person
from .kit import daemon
from .loopback import MODEL, folder_with_model, settled

PATIENT = """
[limits]
retry_delays = []
hold_for = 3600
"""


async def test_held_work_goes_on_as_soon_as_the_right_key_has_been_read(tmp_path: Path, relay: str) -> None:
    async with model_server(Team(straight, swift)) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, PATIENT)
        stored = folder.data / "keys" / "local.api-key"
        stored.touch(0o600)
        stored.write_text("sk-a-wrong-one")
        async with daemon(folder, TENEX_MODELS__DEFAULT=MODEL) as process:
            name = await folder.write("Write note-01.txt.")
            await person.until(lambda: (question := folder.state(name).question) and question.retry)
            stored.write_text(f"{server.key}\n")
            process.signal(signal.SIGHUP)
            await settled(folder, name)
            assert await process.stop() == 0
        assert (folder.workspace / "note-01.txt").exists()
