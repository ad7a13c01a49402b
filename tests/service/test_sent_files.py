"""A real daemon, relay, Blossom server and server of models: files of the workspace reach the person."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2

from tenex.core import records as r
from tenex.nostr.direct import GIFT_WRAP
from tenex.nostr.encrypted_file import decrypt
from tenex.nostr.threading.direct import CHAT
from tenex.nostr.threading.files import FILE
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelscripts import Asked, Team, calls
from tests.fakes.modelserver import model_server
from tests.kits.blossom_server import BlossomServer, blossom_server
from tests.kits.direct_messages import began, listening, sdk, theirs

from . import person
from .chats import Chat
from .kit import Folder, of_kind
from .loopback import at_work, folder_with_model, serving, settled
from .web_kit import free_port, link

MINUTES = "# Minutes\n\n" + "We decided to ship it.\n" * 400
WORDS = "The minutes are ready to mail."
PATH = "minutes-2026-03-11.md"


def attaching(path: str = PATH, caption: str = "") -> Team:
    """An executor that attaches a file and answers."""

    def work(asked: Asked) -> Answer:
        if asked.phase == "execute" and "attach" not in asked.results:
            return calls(("attach", {"path": path, **({"caption": caption} if caption else {})}))
        return Answer(text=WORDS if asked.phase == "execute" else "Done.")

    return Team(worker=work)


def with_server(server: BlossomServer, more: str = "") -> str:
    return f'\n[files]\nservers = ["{server.url}"]\n{more}'


def prepared(folder: Folder, path: str = PATH, content: bytes = MINUTES.encode()) -> None:
    place = folder.workspace / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


async def loaded(url: str) -> bytes:
    async with httpx2.AsyncClient() as client:
        answer = await client.get(url)
    assert answer.status_code == 200
    return answer.content


def results(folder: Folder, name: str, tool: str = "attach") -> list[Any]:
    return of_kind(folder.records(name), r.ToolCallCompleted, lambda record: record.tool == tool)


def imeta(event: person.Wire) -> list[dict[str, str]]:
    return [dict(part.split(" ", 1) for part in tag[1:]) for tag in event["tags"] if tag[0] == "imeta"]


async def test_an_attached_file_goes_with_the_answer_as_an_address_and_its_description(
    tmp_path: Path, relay: str
) -> None:
    with blossom_server() as server:
        async with at_work(tmp_path, relay, attaching(caption="Minutes of March"), with_server(server)) as (folder, _):
            prepared(folder)
            name = await folder.write("Send me the minutes of March 11.")
            await settled(folder, name)
            await folder.delivered(name)
            answers = [event for event in await folder.replies(name) if WORDS in event["content"]]
            project = folder.project.public
    assert len(answers) == 1, "one note, not two"
    verified = sdk.Event.from_json(json.dumps(answers[0]))
    assert verified.verify()
    digest = sha256(MINUTES.encode()).hexdigest()
    url = f"{server.url}/{digest}.md"
    assert answers[0]["content"].endswith(f"\n\n{PATH}: Minutes of March\n{url}")
    (described,) = imeta(answers[0])
    assert described == {
        "url": url,
        "m": "text/markdown",
        "x": digest,
        "size": str(len(MINUTES)),
        "name": PATH,
        "alt": "Minutes of March",
    }
    assert server.read(url) == MINUTES.encode()
    assert server.refused == []
    assert server.authors == [project]
    (result,) = results(folder, name)
    assert result.ok
    assert result.content == f"Uploaded: {PATH} (9 kB) goes to the person with your answer."


async def test_in_direct_messages_the_file_is_encrypted_and_a_message_of_its_own(tmp_path: Path, relay: str) -> None:
    with blossom_server() as server:
        async with at_work(tmp_path, relay, attaching(), with_server(server)) as (folder, _):
            prepared(folder)
            me = Chat(folder.owner, relay, folder.project.public)
            await listening(folder)
            await me.write("Send me the minutes of March 11.")
            name = await began(folder, 2)
            await settled(folder, name)
            await folder.delivered(name)
            received = await me.received()
            wraps = await person.stored(relay, kinds=[GIFT_WRAP], _p=[me.key.public])
            stored = json.dumps(await person.stored(relay))
    gifts = [sdk.UnwrappedGift.from_gift_wrap(theirs(me.key), sdk.Event.from_json(json.dumps(wrap))) for wrap in wraps]
    rumors = [json.loads(gift.rumor().as_json()) for gift in gifts]
    (sent,) = [rumor for rumor in rumors if rumor["kind"] == FILE]
    assert sent["pubkey"] == folder.project.public
    tags = {tag[0]: tag[1] for tag in sent["tags"]}
    assert tags["file-type"] == "text/markdown"
    assert tags["encryption-algorithm"] == "aes-gcm"
    assert tags["p"] == folder.owner.public
    assert tags["name"] == PATH
    uploaded = server.read(sent["content"])
    assert sha256(uploaded).hexdigest() == tags["x"]
    assert tags["size"] == str(len(uploaded))
    assert MINUTES.encode() not in uploaded
    content = decrypt(uploaded, tags["decryption-key"], tags["decryption-nonce"])
    assert content == MINUTES.encode()
    assert sha256(content).hexdigest() == tags["ox"]
    (words,) = [event for event in received if event.kind == CHAT and WORDS in event.content]
    assert server.url not in words.content
    assert server.url not in stored, "the relay knows no address of it"


async def test_a_daemon_killed_between_upload_and_record_sends_the_file_once(tmp_path: Path, relay: str) -> None:
    with blossom_server("slow") as server:
        async with model_server(attaching()) as model:
            folder = folder_with_model(tmp_path / "data", relay, model, with_server(server))
            prepared(folder)
            async with serving(folder, model) as process:
                name = await folder.write("Send me the minutes of March 11.")
                await person.until(lambda: server.blobs)
                await process.die()
            assert results(folder, name) == [], "the server has it, and the journal does not"
            server.fault = ""
            async with serving(folder, model):
                await settled(folder, name)
                await folder.delivered(name)
                replies = await folder.replies(name)
        digest = sha256(MINUTES.encode()).hexdigest()
        assert server.uploads == [digest], "it is not uploaded again"
    assert sum(digest in event["content"] for event in replies) == 1
    assert len([event for event in replies if imeta(event)]) == 1


async def test_what_no_server_takes_is_text_in_the_answer_and_the_agent_knows(tmp_path: Path, relay: str) -> None:
    with blossom_server("413") as server:
        async with at_work(tmp_path, relay, attaching(), with_server(server)) as (folder, _):
            prepared(folder)
            name = await folder.write("Send me the minutes of March 11.")
            await settled(folder, name)
            (answer,) = [event for event in await folder.replies(name) if WORDS in event["content"]]
    reason = "127.0.0.1 answers HTTP 413: no room"
    (result,) = results(folder, name)
    assert result.content.startswith(f"Not sent as a file ({reason}")
    begin, _, rest = answer["content"].partition(f"{PATH}, the first 4 kB of 9 kB:\n\n")
    assert begin.startswith(f"{WORDS}\n\n")
    assert rest.startswith("Minutes\n\nWe decided to ship it."), "Markdown is shown as in the rest of the answer"
    assert f"[The rest was not sent: {reason}" in rest
    assert rest.endswith(f"It is in the workspace: {PATH}.]")
    assert imeta(answer) == []


async def test_what_no_server_takes_is_loaded_from_the_page_of_the_conversation(tmp_path: Path, relay: str) -> None:
    web = f"\n[web]\nenabled = true\nport = {free_port()}\n"
    async with model_server(attaching()) as model:
        folder = folder_with_model(tmp_path / "data", relay, model, web)
        prepared(folder)
        async with serving(folder, model) as process:
            await process.until("pages.served")
            name = await folder.write("Send me the minutes of March 11.")
            await settled(folder, name)
            await folder.delivered(name)
            (answer,) = [event for event in await folder.replies(name) if WORDS in event["content"]]
            base, _, token = (await link(folder)).partition("/login#")
            async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
                origin = "/".join(base.split("/")[:3])
                await client.post(f"{base}/login", data={"token": token}, headers={"origin": origin})
                page = await client.get(f"{base}/c/{name}")
                saved = await client.get(f"{base}/c/{name}/files/files/{PATH}")
    rest = "The rest was not sent: no file server is set (`files.servers`)"
    assert answer["content"].endswith(f"[{rest}. It can be loaded from the page of this conversation (`tenex web`).]")
    assert f"/c/{name}/files/files/{PATH}" in page.text
    assert saved.content == MINUTES.encode()
    assert saved.headers["content-disposition"] == f'attachment; filename="{PATH}"'


async def test_people_are_shown_files_and_folders(tmp_path: Path, relay: str) -> None:
    png = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (64).to_bytes(4, "big") + (48).to_bytes(4, "big") + b"\0"
    with blossom_server() as server:
        async with at_work(tmp_path, relay, Team(), with_server(server)) as (folder, _):
            prepared(folder, "notes/today.md", b"# Today\n")
            prepared(folder, "chart.png", png)
            prepared(folder, "long.txt", b"words\n" * 10_000)
            prepared(folder, ".env", b"TOKEN=1")
            (folder.workspace / "out").symlink_to(tmp_path)
            name = await folder.write("/show")

            async def shown(path: str) -> person.Wire:
                before = len(of_kind(folder.records(name), r.FileShown))
                await folder.write(f"/show {path}", to=name)
                await person.until(lambda: len(of_kind(folder.records(name), r.FileShown)) > before)
                return (await folder.replies(name))[-1]

            await person.until(lambda: of_kind(folder.records(name), r.FileShown))
            assert (await folder.replies(name))[-1]["content"].splitlines() == [
                "In the workspace:",
                "notes/",
                "out/",
                ".env",
                "chart.png",
                "long.txt",
            ]
            assert (await shown("notes"))["content"] == "In notes/:\ntoday.md"
            assert (await shown("`notes/today.md`"))["content"] == "notes/today.md:\n\n# Today"
            chart = await shown("chart.png")
            assert chart["content"] == f"chart.png (25 bytes)\n\nchart.png\n{imeta(chart)[0]['url']}"
            assert imeta(chart)[0]["dim"] == "64x48"
            assert await loaded(imeta(chart)[0]["url"]) == png
            long = await shown("long.txt")
            assert await loaded(imeta(long)[0]["url"]) == b"words\n" * 10_000
            assert "never sent" in (await shown(".env"))["content"]
            assert "leads outside the workspace" in (await shown("out/data/keys/owner.nsec"))["content"]
            assert "contains `..`" in (await shown("../data/tenex.toml"))["content"]
            assert (await shown("gone.md"))["content"] == "There is no file gone.md; `/show` shows what there is."
            assert len(server.uploads) == 2
        restored = folder.state(name)
    assert not restored.delivery.shows
    assert restored.cycle.messages == (), "a command is no message"
