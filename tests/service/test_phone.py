"""A day of requests of every kind, and how often a phone rings for each, by the rules of three clients.

The rules are those of their sources: notepush (what Damus is sent), Amethyst's feed of notifications, Primal's server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tenex.core.ids import PublicKey
from tenex.nostr.direct import GIFT_WRAP
from tenex.nostr.keys import npub
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, complete, straight
from tests.kits.daemon_approvals import UNCONFINED, react, runs
from tests.kits.direct_messages import encrypted, listening

from . import person
from .chats import Chat
from .kit import Folder
from .loopback import at_work

URL = "https://example.com/herons"
CHANGES = {"a note that wants a file", "a reply that wants another", "a thumb for that"}
"""Notes on which files change: what was checked comes after their answer, without a p tag."""


# ---- what rings ------------------------------------------------------------------------------------------------------


class Phone:
    """One person's phone: what it has been told of, and the events that it knows."""

    def __init__(self, owner: PublicKey) -> None:
        self.owner = owner
        self.known: dict[str, person.Wire] = {}
        self.rung: set[str] = set()

    def rings(self, event: person.Wire) -> Mapping[str, bool]:
        """Which clients notify of an event."""
        names = [tag[1] for tag in event["tags"] if tag[0] in ("e", "E", "q") and len(tag) > 1]
        is_named = ["p", self.owner] in [tag[:2] for tag in event["tags"]]
        is_on_theirs = any(self.known.get(name, {}).get("pubkey") == self.owner for name in names)
        kind = event["kind"]
        rung = {
            # kinds of Apple's push service; who was notified of an event is notified of what names it
            "Damus": kind in (1, 4, 6, 7, 16) and (is_named or not self.rung.isdisjoint(names)),
            "Amethyst": is_named and (kind not in (1, 1111) or is_on_theirs or npub(self.owner) in event["content"]),
            # a reply to a note of theirs counts also without a p tag
            "Primal": (kind == 1 and (is_named or is_on_theirs)) or (kind == 4 and is_named),
        }
        if rung["Damus"]:
            self.rung.add(event["id"])
        return rung


# ---- who answers -----------------------------------------------------------------------------------------------------


def routes(question: Json) -> Json:
    """An orchestrator that has what is said answered in chat, and what is wanted done."""
    newest = question["messages"][-1]["text"]
    turns = question["turns"]
    is_talk = not any(word in newest for word in ("write", "Publish", "Paint"))
    if question["phase"] == "chat" and is_talk:
        is_answered = bool(turns) and question["messages"][-1]["after_turn"] != turns[-1]["turn"]
        return {"agents": ["USER"] if is_answered else ["project-manager"], "reason": "a talk"}
    if question["phase"] == "chat":
        return {"phase": "execute", "agents": ["executor"], "reason": "the request is clear"}
    return dict(straight(question))


def works(asked: Asked) -> Reply:
    newest = asked.words.rsplit("<message", 1)[-1]
    if asked.phase == "chat" and "write" in newest:
        return calls(("hand_over", {"phase": "execute", "reason": "a file is wanted"}))
    if asked.phase == "chat":
        return Answer(text="Herons fish at dawn.")
    if asked.phase == "reflection":
        return complete(response="Nothing was learnt.")
    if asked.phase == "verification" and "Publish" in asked.words:
        if "read_file" not in asked.results:
            return calls(("read_file", {"path": "ran.txt"}))
        return complete(response="It has run.", verdict="verified")
    if asked.phase == "execute" and "Publish" in asked.words:
        return runs()(asked)
    if asked.phase == "execute" and "Paint" in asked.words:
        if "ask" not in asked.results:
            return calls(("ask", {"question": "Which colour?"}))
        return complete(response="It is blue.", summary="painted")
    return brisk(asked)


# ---- the day ---------------------------------------------------------------------------------------------------------


@dataclass
class Day:
    """The person at their phone, and what came of each request."""

    folder: Folder
    chat: Chat
    phone: Phone

    async def ours(self) -> list[person.Wire]:
        """What our keys have said so far, and the wraps to the person; not profiles and lists."""
        keys = sorted(self.folder.public_keys)
        public = await person.stored(self.folder.url, authors=keys, kinds=[1, 4, 9, 24, 1111])
        return [*public, *(await person.stored(self.folder.url, kinds=[GIFT_WRAP], _p=[self.folder.owner.public]))]

    async def write(self, text: str, *tags: list[str], kind: int = 1) -> person.Wire:
        event = person.note(self.folder.owner, text, *tags, kind=kind)
        self.phone.known[event["id"]] = event
        await person.publish(self.folder.url, event)
        return event

    async def answers(self, request: Callable[[], Awaitable[object]], *, parked: bool = False) -> list[person.Wire]:
        """What comes of a request until all rests; where it is `parked`, until something came and is delivered."""
        before = {event["id"] for event in await self.ours()}
        await request()

        def rests() -> bool:
            states = [self.folder.state(name) for name in self.folder.names]
            is_over = parked or all(
                state.cycle.status in ("waiting", "ended") and not state.work.turn for state in states
            )
            return is_over and not any(state.delivery.outbox for state in states)

        async with asyncio.timeout(90):
            while True:
                await person.until(rests, within=90)
                new = [event for event in await self.ours() if event["id"] not in before]
                if new and rests():
                    self.phone.known.update({event["id"]: event for event in new})
                    return new


def us(day: Day) -> list[str]:
    return ["p", day.folder.project.public]


def reply(to: person.Wire, root: person.Wire, day: Day) -> list[list[str]]:
    url = day.folder.url
    return [["e", root["id"], url, "root"], ["e", to["id"], url, "reply"], ["p", to["pubkey"]]]


async def all_requests(day: Day) -> dict[str, list[person.Wire]]:
    """What came of each of twenty requests."""
    came: dict[str, list[person.Wire]] = {}
    asked: dict[str, person.Wire] = {}

    async def note(name: str, text: str, *tags: list[str], kind: int = 1, parked: bool = False) -> None:
        async def write() -> None:
            asked[name] = await day.write(text, *tags, kind=kind)

        came[name] = await day.answers(write, parked=parked)

    async def direct(name: str, text: str) -> None:
        came[name] = await day.answers(lambda: day.chat.write(text))

    folder, to_us, url = day.folder, us(day), day.folder.url
    await note("a note", "What do herons eat?", to_us)
    await note("a reply to the answer", "And at dawn?", *reply(came["a note"][0], asked["a note"], day))
    await note("a note that wants a file", "Please write note-01.txt", to_us)
    await note(
        "a reply that wants another",
        "Please write note-02.txt",
        *reply(came["a note that wants a file"][-1], asked["a note that wants a file"], day),
    )
    await note("a thread (11)", "What do herons eat?", ["title", "Herons"], to_us, kind=11)
    thread = [["E", asked["a thread (11)"]["id"]], ["K", "11"], ["P", folder.owner.public]]
    await note("a comment in it", "And storks?", *thread, ["e", asked["a thread (11)"]["id"]], ["k", "11"], kind=1111)
    await note(
        "a comment that wants a file",
        "Please write note-03.txt",
        *thread,
        ["e", came["a comment in it"][0]["id"]],
        ["k", "1111"],
        kind=1111,
    )
    own = await day.write("I saw a heron.")
    on_note = [["E", own["id"], url], ["K", "1"], ["P", folder.owner.public], ["e", own["id"], url], ["k", "1"]]
    await note("a comment on a note", "What is it?", *on_note, to_us, kind=1111)
    await note(
        "a comment on a page", "What is it?", ["I", URL], ["K", "web"], ["i", URL], ["k", "web"], to_us, kind=1111
    )
    article = f"30023:{folder.owner.public}:herons"
    on_article = [["A", article], ["K", "30023"], ["P", folder.owner.public], ["a", article], ["k", "30023"]]
    await note("a comment on an article", "What is it?", *on_article, to_us, kind=1111)
    await note("a chat (9)", "What do herons eat?", to_us, kind=9)
    await note("a chat in a group", "What do herons eat?", ["h", "kitchen"], to_us, kind=9)
    await direct("a direct message", "What do herons eat?")
    await direct("one that wants a file", "Please write note-04.txt")
    text = encrypted(folder.owner, folder.project.public, "And you?")
    came["a direct message (4)"] = await day.answers(lambda: person.publish(url, text))
    await note("a request that asks back", "Paint it", to_us, parked=True)
    question = came["a request that asks back"][0]
    await note("the answer to that", "blue", *reply(question, asked["a request that asks back"], day))
    await note("a request that needs permission", "Publish it", to_us, parked=True)
    request = came["a request that needs permission"][0]
    came["a thumb for that"] = await day.answers(lambda: react(folder, request, "👍"))
    await note("/status", "/status", *reply(came["a note"][0], asked["a note"], day))
    await note("a picture", "What is this?", to_us, ["imeta", "url https://example.com/a.png"], kind=20)
    return came


@pytest.mark.soak
async def test_a_request_rings_once_for_its_answer(tmp_path: Path, relay: str) -> None:
    async with at_work(tmp_path, relay, Team(router=routes, worker=works), UNCONFINED) as (folder, _):
        await listening(folder)
        day = Day(folder, Chat(folder.owner, relay, folder.project.public), Phone(folder.owner.public))
        came = await all_requests(day)
    rung: dict[str, dict[str, int]] = {}
    for request, events in came.items():
        each: list[Any] = [day.phone.rings(event) for event in events]
        rung[request] = {client: sum(one[client] for one in each) for client in ("Damus", "Amethyst", "Primal")}
        print(f"{request:32} {len(events)} messages   {rung[request]}")
    totals = {client: sum(counts[client] for counts in rung.values()) for client in ("Damus", "Amethyst", "Primal")}
    print(f"{len(came)} requests, {sum(map(len, came.values()))} messages, {totals}")
    more = {(request, client) for request, counts in rung.items() for client in counts if counts[client] > 1}
    assert more <= {(request, "Primal") for request in CHANGES}, "Primal counts a reply to a note without a p tag too"
    assert all(counts["Amethyst"] for counts in rung.values()), "every client of all forms is notified of each answer"
