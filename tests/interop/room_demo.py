"""`make demo-room`: two people and three agents in a room of a relay with the rules of Buzz's.

Alice owns the project, Bob is a member of the room. A question of an agent is answered by a reaction, and the relay is
away while another works. What is printed is what the room has then. Everything is on this machine, the models
are scripts, and the folder is removed at the end.
"""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Final

from tenex.nostr.keys import SecretKey
from tests.fakes.modelprotocol import Answer, Reply
from tests.fakes.modelscripts import Asked, Team, brisk, calls, complete
from tests.kits.daemon_approvals import UNCONFINED
from tests.kits.room_person import room_person
from tests.kits.room_relay import Raw
from tests.kits.room_work import Workplace, workplace
from tests.service import person
from tests.service.loopback import QUICK, serving

WIDTH: Final = 100
AWAY: Final = 3.0
"""Seconds for which the relay is away."""
COMMAND: Final = "wc -w notes-10.txt"


def worker(asked: Asked) -> Reply:
    """The three agents."""
    match asked.agent, asked.phase:
        case "planner", "chat":
            return Answer(text="1. Write `notes-10.txt`.\n2. Count its words.\n3. Have the security expert read it.")
        case "security-expert", "chat":
            return Answer(text="`notes-10.txt` names no key and no address: it is safe.", delay=1.0)
        case _, "execute" if "write_file" not in asked.results:
            return calls(("write_file", {"path": "notes-10.txt", "content": "Release 1.0\n"}))
        case _, "execute" if "shell" not in asked.results:
            return calls(("shell", {"command": COMMAND}))
        case _, "execute":
            return complete(response="`notes-10.txt` is written: two words.", summary="released")
        case _:
            return brisk(asked)


class Demo:
    """What is said and shown."""

    def __init__(self, place: Workplace, alice: SecretKey, bob: SecretKey) -> None:
        self.place = place
        self.alice = alice
        self.bob = bob
        self.shown: set[str] = set()

    @property
    def names(self) -> dict[str, str]:
        """Names by key: the people's, and those of the profiles that the agents have published."""
        profiles = {event["pubkey"]: json.loads(event["content"])["name"] for event in self.place.relay.accepted(0)}
        return {**profiles, self.alice.public: "Alice", self.bob.public: "Bob"}

    def show(self, event: Raw) -> None:
        """Print a message of the room, set in where it is in a thread."""
        self.shown.add(event["id"])
        lead = "    " if any(tag[0] == "e" for tag in event["tags"]) else ""
        text = f"{self.names[event['pubkey']]}: {event['content']}"
        lines = [part for line in text.splitlines() for part in wrap(line, WIDTH - len(lead) - 2) or [""]]
        print(lead + lines[0], *(f"{lead}  {line}".rstrip() for line in lines[1:]), sep="\n", flush=True)

    async def say(self, who: SecretKey, text: str, *tags: Sequence[str]) -> str:
        """Have a person write in the room, and show it."""
        async with room_person(self.place.relay, who) as client:
            event_id = await client.say(self.place.room, text, *tags)
        self.show(next(event for event in self.place.relay.accepted(9) if event["id"] == event_id))
        return event_id

    async def answer(self, root: str, words: str = "") -> Raw:
        """Wait until the room has an answer with these words in a thread; show what is new there."""

        def answers() -> list[Raw]:
            new = [event for event in self.place.relay.accepted(9, e=root) if event["id"] not in self.shown]
            return new if any(words in event["content"] for event in new) else []

        new: list[Raw] = await person.until(answers)
        for event in new:
            self.show(event)
        return new[-1]


def explain(text: str) -> None:
    print(f"\n— {text}", flush=True)


async def play(demo: Demo) -> None:
    """Everything that happens."""
    relay, folder, server, _ = demo.place
    keys = {name: key for key, name in demo.names.items()}

    explain("Bob, a member of the room, mentions an agent, which answers in the thread.")
    plan = await demo.say(demo.bob, "@Planner What is left before release 1.0?", ["p", keys["Planner"]])
    await demo.answer(plan)

    explain("Bob goes on in the thread, without a mention.")
    await demo.say(demo.bob, "/status", ["e", plan, "", "reply"])
    await demo.answer(plan)

    explain("Alice, who owns the project, asks for work. The agent asks before it runs a command.")
    mention = ["p", folder.project.public]
    work = await demo.say(demo.alice, "@tenex Write notes-10.txt and count its words", mention)
    wanted = await demo.answer(work, "Allow ")

    explain("Alice reacts to that question with 👍.")
    async with room_person(relay, demo.alice) as client:
        await client.react(wanted["id"], "👍")
    await demo.answer(work, "Done.")

    explain(f"Alice asks a third agent. The relay goes away for {AWAY:g} s, and the answer is made meanwhile.")
    read = await demo.say(demo.alice, "@Security Expert Is notes-10.txt safe?", ["p", keys["Security Expert"]])
    await server.until(lambda each: each.at_once)
    await relay.stop()
    print("  (the relay is away)")
    await asyncio.sleep(AWAY)
    await relay.start()
    print("  (the relay is back)")
    await demo.answer(read)

    ours = folder.public_keys
    answers = [event["content"] for event in relay.accepted(9) if event["pubkey"] in ours]
    explain(f"The room has {len(answers)} answers, each of them once: {len(set(answers))} different ones.")


async def main() -> None:
    """Make everything, play, remove everything."""
    print("A relay, a daemon and scripted models start on this machine.", flush=True)
    with tempfile.TemporaryDirectory(prefix="tenex-room-") as name:
        async with workplace(Path(name) / "data", Team(worker=worker), f"{UNCONFINED}{QUICK}") as place:
            demo = Demo(place, place.folder.owner, SecretKey.generate())
            place.relay.add(place.room, demo.bob.public)
            async with serving(place.folder, place.server):
                await person.until(lambda: len(demo.names) == len(place.folder.public_keys) + 2)
                await play(demo)


if __name__ == "__main__":
    asyncio.run(main())
