"""A real daemon, a real relay, a server of models: what a model that can see is shown of a person's pictures."""

import base64
import json
from pathlib import Path
from typing import Any

from tenex.core import records as r
from tenex.store.pictures import PictureFolder
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelscripts import Team
from tests.fakes.modelserver import ModelServer

from . import person
from .kit import Folder, of_kind
from .loopback import MODEL, at_work, settled

PNG = b"\x89PNG\r\n\x1a\n of a cat"
CAT = "https://media.example/0f3c"
LOOKS = Team(worker=lambda _: Answer(text="It is a cat."))
SEES = {"TENEX_MODELS__VISION": f'["{MODEL}"]'}


def sent_pictures(server: ModelServer) -> list[bytes]:
    """The pictures in all requests."""
    contents = [message["content"] for exchange in server.exchanges for message in exchange.request["messages"]]
    parts: list[dict[str, Any]] = [part for content in contents if isinstance(content, list) for part in content]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert all(url.startswith("data:image/png;base64,") for url in urls)
    return [base64.b64decode(url.partition(",")[2]) for url in urls]


async def ask(folder: Folder, text: str) -> str:
    tags = [["imeta", f"url {CAT}", "m image/png"], ["p", folder.project.public]]
    note = person.note(folder.owner, text, *tags)
    await person.publish(folder.url, note)
    return str(note["id"])


async def test_a_model_that_sees_is_shown_the_picture_and_the_journal_its_address(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, LOOKS, **SEES) as (folder, server):
        PictureFolder(folder.data / "pictures").write(CAT, PNG)
        name = await ask(folder, f"What is on {CAT}")
        await settled(folder, name)
        assert sent_pictures(server)
        assert set(sent_pictures(server)) == {PNG}
        journal = (folder.conversation(name) / "journal.jsonl").read_bytes()
        assert CAT.encode() in journal
        assert base64.b64encode(PNG)[:-4] not in journal

        private = await ask(folder, "What is on https://127.0.0.1/cat.png")
        await settled(folder, private)
        await folder.delivered(private)
        words = [record.text for record in of_kind(folder.records(private), r.MessageSent)]
        assert "I could not load cat.png (127.0.0.1 is not at a public address)." in words


async def test_a_model_that_does_not_see_gets_the_address_and_the_person_a_word(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, LOOKS) as (folder, server):
        PictureFolder(folder.data / "pictures").write(CAT, PNG)
        name = await ask(folder, f"What is on {CAT}")
        await settled(folder, name)
        assert sent_pictures(server) == []
        assert f"{CAT} (you are not set to see pictures)" in json.dumps(server.exchanges[-1].request), "and the model"
        words = [record.text for record in of_kind(folder.records(name), r.MessageSent)]
        assert sum("No model here is set to see" in text for text in words) == 1
