"""A data folder that is moved, replaced or removed while its daemon runs: no second one comes into being."""

import json
import shutil

import pytest

from .kit import Folder, daemon

NOTHING_LEFT = ("moved", "removed", "replaced")


def moved(folder: Folder) -> Folder:
    """The same folder at its new place, as the operator names it."""
    there = folder.data.parent / "there"
    folder.data.rename(there)
    folder.data = there
    return folder


@pytest.mark.parametrize("is_known", [False, True])
async def test_work_waits_for_a_folder_that_was_moved_and_goes_on_once_it_is_back(
    folder: Folder, is_known: bool
) -> None:
    place = folder.data
    async with daemon(folder) as process:
        name = await folder.write("Create hello.py that prints hello")
        await folder.until(name, "ended")
        await folder.delivered(name)
        moved(folder)
        asked = await folder.write("Create bye.py that prints bye", to=name if is_known else "")
        suspended = await process.until("conversation.suspended")
        assert f"{place}/conversations was moved to {folder.data}/conversations" in suspended["reason"]
        assert "Free some space" not in suspended["reason"]
        report = await folder.facts("status")
        assert [one["why"] for one in report["conversations"]["suspended"]] == [suspended["reason"]]
        assert not place.exists()
        folder.data.rename(place)
        folder.data = place
        await folder.until(name if is_known else asked, "ended", cycle=2 if is_known else 1)
    assert (folder.workspace / "bye.py").exists()


@pytest.mark.parametrize("what", NOTHING_LEFT)
async def test_a_daemon_writes_nothing_where_its_folder_was(folder: Folder, what: str) -> None:
    place = folder.data
    async with daemon(folder) as process:
        name = await folder.write("Create hello.py that prints hello")
        await folder.until(name, "ended")
        await folder.delivered(name)
        copy = place.parent / "copy"
        shutil.copytree(place, copy, ignore=shutil.ignore_patterns("*.sock"))
        if what == "removed":
            shutil.rmtree(place)
        else:
            moved(folder)
        if what == "replaced":
            copy.rename(place)
        before = sorted(path.name for path in place.rglob("*"))
        asked = await folder.write("Create bye.py that prints bye")
        assert what.replace("replaced", "moved") in (await process.until("conversation.suspended"))["reason"]
        await process.die()
        assert sorted(path.name for path in place.rglob("*")) == before
    if what != "moved":
        return
    async with daemon(folder):
        await folder.until(asked, "ended")
        await folder.delivered(asked)
    texts = [json.dumps(event) for event in await folder.sent()]
    assert sum("bye.py" in text for text in texts) >= 1
    assert len(await folder.replies(name)) == len({event["id"] for event in await folder.replies(name)})


async def test_the_person_reads_what_keeps_the_message(folder: Folder) -> None:
    async with daemon(folder) as process:
        place = folder.data
        moved(folder)
        asked = await folder.write("Create bye.py that prints bye")
        assert (await process.until("user.notified"))["failure"] == "folder"
        folder.data.rename(place)
        folder.data = place
        await folder.until(asked, "ended")
        assert any("The data folder was moved" in event["content"] for event in await folder.sent())
