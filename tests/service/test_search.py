"""`tenex conversations search`: beside a daemon at work, after one that was killed, and when the index was lost."""

import json
from typing import Any

from . import person
from .kit import Folder, daemon, ordered, tenex_here


async def search(folder: Folder, *words: str) -> list[dict[str, Any]]:
    """What a search finds; its stderr must be empty."""
    code, out, err = await tenex_here("conversations", "search", *words, "--json", "--data", folder.data)
    assert (code, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)
    return found


def index_files(folder: Folder) -> list[str]:
    return sorted(path.name for path in (folder.data / "conversations").glob("index.*"))


async def test_words_are_found_while_the_daemon_works_and_when_it_has_stopped(folder: Folder) -> None:
    async with ordered(folder, "model", 2, hold=True):
        name = await folder.write("Create zebra.py that prints xylophone")
        await person.until((folder.marks / "held").exists)
        (found,) = await search(folder, "xylophone", "--status", "active", "--phase", "execute")
        assert (found["id"], found["status"]) == (name, "active")
        assert "xylophone" in found["messages"][0]["excerpt"]
        assert await search(folder, "xylophone", "--agent", "planner") == []
        (folder.marks / "go").touch()
        state = await folder.until(name, "ended")
        (found,) = await search(folder, "verified", "--was-in", "verification", "--agent", "executor")
        assert "executor" in {message["from"].lower() for message in found["messages"]}
        assert found["cycle"] == state.cycle
    assert index_files(folder) == ["index.sqlite"]
    assert [one["id"] for one in await search(folder, "xylophone", "--since", "1 hour ago")] == [name]
    assert await search(folder, "xylophone", "--until", "1 hour ago") == []
    assert index_files(folder) == ["index.sqlite"], "a look leaves nothing behind"


async def test_an_index_deleted_beside_a_running_daemon_comes_back_with_everything_in_it(folder: Folder) -> None:
    async with daemon(folder) as process:
        old = await folder.write("Create zebra.py that prints xylophone")
        await folder.until(old, "ended")
        for name in index_files(folder):
            (folder.data / "conversations" / name).unlink()
        assert [one["id"] for one in await search(folder, "xylophone")] == [old], "without one the journals are read"
        new = await folder.write("Create okapi.py that prints glockenspiel")
        await folder.until(new, "ended")
        await process.until("index.caught_up")
        assert [one["id"] for one in await search(folder, "xylophone")] == [old]
        assert [one["id"] for one in await search(folder, "glockenspiel")] == [new]
        await folder.write("Create gnu.py that prints vuvuzela", to=old)
        await folder.until(old, "ended", cycle=2)
    assert (folder.data / "conversations" / "index.sqlite").stat().st_mode & 0o777 == 0o600
    assert [one["id"] for one in await search(folder, "vuvuzela")] == [old]
    async with daemon(folder) as process:
        assert await process.stop() == 0
        assert "index.caught_up" not in process.events(), "it lacked nothing"
    assert "index.sqlite" in index_files(folder)
