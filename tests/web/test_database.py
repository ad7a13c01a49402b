"""Pages of conversations in a database: also those of which this folder has no file."""

import shutil
from pathlib import Path

from tenex.core.ids import ConversationId
from tenex.operations.copying import copy_all
from tenex.store.disk import Disk
from tenex.store.postgres.conversations import PostgresConversations
from tenex.store.repository import ConversationFolder
from tests.cli.journals import ONE, TWO
from tests.fakes import postgres
from tests.kits.live_pages import opened, split
from tests.store.kit import StillClock

from .kit import served


async def test_pages_show_and_follow_what_any_daemon_of_the_database_writes(data: Path, tmp_path: Path) -> None:
    _, goes_on = split(TWO)
    root = data / "conversations"
    disk = Disk()
    with postgres.schema() as url:
        connected = PostgresConversations.connected(url, tmp_path / "other", disk, StillClock(), worker="other")
        async with connected as store:
            await copy_all(ConversationFolder(root, disk, StillClock()), store)
            shutil.rmtree(root)
            root.mkdir()
            file = data / "tenex.toml"
            file.write_text(f"store = '{url}'\n{file.read_text()}")
            async with served(data) as pages:
                listed = await pages.get("/conversations")
                for name in (ONE, TWO):
                    assert any(f"/c/{name}" in link.attributes.get("href", "") for link in listed.all("a"))
                    shown = await pages.get(f"/c/{name}")
                    assert shown.all("main")
                whole = await pages.get(f"/c/{ONE}?around=1")
                assert whole.all("main")
                await pages.get("/agents")
                await pages.get("/usage")
                address = shown.all("body")[0].attributes["data-stream"].removeprefix(pages.site.base)
                async with opened(pages, address) as stream:
                    await stream.until("daemon")  # the journal is followed
                    journal, _ = await store.open(ConversationId(TWO))
                    await journal.append(goes_on)
                    entry = await stream.until("entry")
                    await stream.until_seq(goes_on[-1][-1].seq)
                assert "blue" in entry.data
    disk.close()
