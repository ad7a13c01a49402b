"""An owner who is added by a command may write at once, and one who is removed no longer."""

from tenex.nostr.keys import SecretKey

from .kit import Folder, daemon, tenex_here

NEW = SecretKey(bytes([51]) * 32)


async def test_a_running_daemon_knows_a_new_owner_at_once_and_forgets_one_who_is_removed(folder: Folder) -> None:
    async with daemon(folder) as process:
        code, _, err = await tenex_here("owner", "add", NEW.npub, "--data", folder.data)
        assert (code, "The running daemon has read it." in err) == (0, True), err
        name = await folder.write("Are you there now?", by=NEW)
        await folder.until(name, "waiting")
        code, _, err = await tenex_here("owner", "remove", NEW.npub, "--data", folder.data)
        assert (code, "The running daemon has read it." in err) == (0, True), err
        await folder.write("And now?", by=NEW)
        last = await folder.write("And I?")
        await folder.until(last, "waiting")
        assert sorted(folder.names) == sorted([name, last])
        assert not process.errors
