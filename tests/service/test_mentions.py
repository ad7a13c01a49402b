"""A note that names the project in its text alone, as some clients write it."""

from . import person
from .kit import Folder, daemon


async def test_an_owner_who_names_the_project_in_the_text_is_answered(folder: Folder) -> None:
    """A relay cannot be asked for a text's content; so the notes of those who may talk here are read."""
    async with daemon(folder):
        word = f"nostr:{folder.project.npub} create hello.py that prints hello"
        note = person.note(folder.owner, word)
        other = person.note(folder.owner, "Good morning, everybody")
        await person.publish(folder.url, other, note)
        await folder.until(note["id"], "ended")
        view = folder.view(note["id"])
        assert (view["title"], view["messages"][0]["text"]) == ("create hello.py that prints hello",) * 2
        assert not folder.conversation(other["id"]).exists()
