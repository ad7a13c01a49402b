"""Files in rooms of a relay with a store on its own host: byte for byte both ways, by keys that are members."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from tenex.core import records as r
from tests.fakes.modelprotocol import Answer, Reply
from tests.fakes.modelscripts import Asked, Team, calls
from tests.fakes.modelserver import model_server
from tests.kits.blossom_server import blossom_server
from tests.kits.daemon_approvals import UNCONFINED
from tests.kits.room_person import room_person
from tests.kits.room_relay import Raw, Rules, room_relay
from tests.service.kit import of_kind
from tests.service.loopback import MODEL, folder_with_model, serving

SEES = {"TENEX_MODELS__VISION": f'["{MODEL}"]'}
WORDS = "Here is what you asked for."


def picture(size: int) -> bytes:
    """A PNG of noise."""
    rows = b"".join(b"\0" + sha256(bytes([row % 251])).digest()[:size] for row in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


PICTURE = picture(32)
PDF = b"%PDF-1.7\n of a receipt\0\xff"


def attaching(path: str) -> Callable[[Asked], Reply]:
    def work(asked: Asked) -> Reply:
        if asked.phase == "execute" and "attach" not in asked.results:
            return calls(("attach", {"path": path, "caption": "The [first] plan"}))
        return Answer(text=WORDS if asked.phase == "execute" else "Done.")

    return work


def imeta(event: Raw) -> dict[str, str]:
    (tag,) = [tag for tag in event["tags"] if tag[0] == "imeta"]
    return dict(part.split(" ", 1) for part in tag[1:])


def loaded(url: str) -> str:
    return url.rpartition("/")[2]


async def test_a_picture_goes_into_the_room_and_a_file_comes_out_of_it(tmp_path: Path) -> None:
    async with room_relay(Rules()) as relay, model_server(Team(worker=attaching("plan.png"))) as server:
        folder = folder_with_model(tmp_path / "data", relay.url, server, UNCONFINED)
        folder.workspace.mkdir(parents=True, exist_ok=True)
        (folder.workspace / "plan.png").write_bytes(PICTURE)
        (folder.workspace / "notes.bin").write_bytes(PDF)
        photo = picture(24)
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        address = relay.store.keep(PDF, "application/pdf")
        described = [
            "imeta",
            f"url {address}",
            "m application/pdf",
            f"x {sha256(PDF).hexdigest()}",
            "filename receipt.pdf",
        ]
        async with room_person(relay, folder.owner, room) as owner, serving(folder, server, **SEES):
            text = f"Draw the plan of this\n\n[receipt.pdf]({address})"
            drawn_by_hand = relay.store.keep(photo, "image/png")
            shown_by = ["imeta", f"url {drawn_by_hand}", "m image/png"]
            name = await owner.say(room, text, ["p", folder.project.public], described, shown_by)
            answer = await owner.until(lambda event: WORDS in event["content"], 60)
            await owner.say(room, "/show notes.bin", ["e", name, "", "reply"])
            shown = await owner.until(lambda event: "notes.bin" in event["content"])

        received, seen = of_kind(folder.records(name), r.MessageRecorded)[0].files
        assert (received.name, received.fault, received.media_type) == ("receipt.pdf", "", "application/pdf")
        assert Path(seen.path).read_bytes() == photo, "without a sandbox the path is that on disk"
        assert (seen.unseen, seen.address) == ("", f"{drawn_by_hand}#{sha256(photo).hexdigest()}")
        assert b64encode(photo).decode() in str([each.request for each in server.exchanges])
        assert (folder.conversation(name) / "inbox" / "receipt.pdf").read_bytes() == PDF
        assert {key for key, _ in relay.store.reads} <= set(folder.public_keys)

        drawn = imeta(answer)
        assert relay.store.read(drawn["url"]) == PICTURE
        assert drawn["url"].startswith(f"{relay.store.url}/media/")
        assert (drawn["m"], drawn["x"], drawn["size"]) == ("image/png", sha256(PICTURE).hexdigest(), str(len(PICTURE)))
        assert answer["content"].endswith(rf"![The \[first\] plan]({drawn['url']})")
        assert (answer["pubkey"], drawn["x"]) in relay.store.uploads, "the key that speaks has uploaded it"
        assert relay.store.read(imeta(shown)["url"]) == PDF
        assert relay.store.refused == []


async def test_a_relay_without_a_store_is_asked_once_and_the_servers_of_the_settings_take_the_files(
    tmp_path: Path,
) -> None:
    files = ("one.bin", "two.bin")
    with blossom_server() as blossom:
        async with room_relay(Rules(store=False)) as relay, model_server(Team()) as server:
            settings = f'{UNCONFINED}[files]\nservers = ["{blossom.url}"]\n'
            folder = folder_with_model(tmp_path / "data", relay.url, server, settings)
            folder.workspace.mkdir(parents=True, exist_ok=True)
            for file in files:
                (folder.workspace / file).write_bytes(PDF + file.encode())
            room = relay.make("room", folder.owner.public, *folder.public_keys)
            async with room_person(relay, folder.owner, room) as owner, serving(folder, server):
                for file in files:
                    await owner.say(room, f"/show {file}", ["p", folder.project.public])
                    shown = await owner.until(lambda event, file=file: file in event["content"])  # type: ignore[misc]
                    assert blossom.read(imeta(shown)["url"]) == PDF + file.encode()
            assert relay.store.asked == [("PUT", "/upload", True)]
            relay.store.is_there = True


async def test_a_file_of_a_stranger_host_gets_no_authorization_and_a_redirect_carries_none(tmp_path: Path) -> None:
    async with room_relay(Rules()) as relay, room_relay(Rules()) as other, model_server(Team()) as server:
        folder = folder_with_model(tmp_path / "data", relay.url, server, UNCONFINED)
        room = relay.make("room", folder.owner.public, *folder.public_keys)
        other.make("room", *folder.public_keys)
        theirs = other.store.keep(PDF, "application/pdf")
        relay.store.redirects_to = theirs
        ours = relay.store.keep(PDF, "application/pdf")
        async with room_person(relay, folder.owner, room) as owner, serving(folder, server):
            tags = [["imeta", f"url {address}", "m application/pdf"] for address in (ours, theirs)]
            name = await owner.say(room, "Look at these", ["p", folder.project.public], *tags)
            await owner.until(lambda event: "I could not load" in event["content"])
        (received,) = of_kind(folder.records(name), r.MessageRecorded)[0].files
        assert received.fault == "127.0.0.1 answers HTTP 302"
        assert other.store.asked == [], "an address of another host by http is none"
        assert [path for _, path, _ in relay.store.asked] == [f"/media/{loaded(ours)}"]
