"""Two daemons whose agents name each other: they stop by themselves, say so once, and answer a person as before."""

from contextlib import AsyncExitStack
from itertools import takewhile
from pathlib import Path

from tenex.core import records as r
from tenex.core.inbox.decide import MACHINES
from tenex.nostr.keys import npub
from tests.fakes.modelprotocol import Answer, Json
from tests.fakes.modelscripts import Asked
from tests.fakes.modelserver import ModelScript, model_server
from tests.kits.single_agent import ALONE

from . import person
from .kit import Folder, of_kind
from .loopback import folder_with_model, serving

SAID = "Agents have written here"


def calling(other: list[str]) -> ModelScript:
    """An agent that names the other daemon in each answer, unless a person asks it to be quiet."""

    def answer(request: Json) -> Answer:
        if "be quiet" in Asked(request).words:  # also where a message of the other has come after it
            return Answer(text="I am quiet.")
        return Answer(text=f"nostr:{other[0]}, what do you think?")

    return answer


def texts(folder: Folder, name: str) -> list[str]:
    return [sent.text for sent in of_kind(folder.records(name), r.MessageSent)]


async def test_two_daemons_that_mention_each_other_stop_and_say_it_once(tmp_path: Path, relay: str) -> None:
    others: tuple[list[str], list[str]] = ([], [])
    async with AsyncExitStack() as stack:
        folders = []
        for number, other in enumerate(others):
            server = await stack.enter_async_context(model_server(calling(other)))
            folder = folder_with_model(tmp_path / f"data-{number}", relay, server, ALONE)
            folder.edit("[people]\n", "[people]\nopen = true\n")
            await stack.enter_async_context(serving(folder, server))
            folders.append(folder)
        mine, theirs = folders
        others[0].append(npub(theirs.project.public))
        others[1].append(npub(mine.project.public))
        projects = (["p", folder.project.public] for folder in folders)
        note = person.note(mine.owner, "What do you two think?", *projects)
        await person.publish(relay, note)
        name = str(note["id"])
        # where two messages were answered by one, the other has received fewer than its limit
        await person.until(lambda: any(SAID in text for folder in folders for text in texts(folder, name)))

        await mine.write("be quiet", to=name)
        await person.until(lambda: "I am quiet." in texts(mine, name))
        for folder in folders:
            recorded = of_kind(folder.records(name), r.MessageRecorded)
            alone = list(takewhile(lambda message: message.text != "be quiet", recorded))
            by_machine = sum(message.by_machine for message in alone)
            said = sum(SAID in text for text in texts(folder, name))
            assert by_machine <= MACHINES
            assert said <= (by_machine == MACHINES)  # once, and not before
