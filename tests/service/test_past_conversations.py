"""`search_conversation` in a daemon: what has left an agent's window, and what others wrote elsewhere."""

from pathlib import Path

from tenex.nostr.keys import SecretKey
from tests.fakes.modelprotocol import Answer, Json, Reply
from tests.fakes.modelscripts import Asked, calls
from tests.fakes.modelserver import model_server

from .kit import Folder
from .loopback import QUICK, folder_with_model, serving, settled

SETTINGS = f"""
[conversations]
agent = "executor"
{QUICK}
"""
FACT = "The code of the gate is heliotrope."
FILLING = tuple(f"{word} " * 1_200 for word in ("filling", "another", "onemore", "log"))
"""Messages of 10,000 characters: three of them fill a window of 8,000 tokens, so that older ones are cut."""


def model(request: Json) -> Reply:
    """An agent that looks for the gate's code where it is asked for it, and answers with what it has found."""
    asked = Asked(request)
    if "What is the code" not in asked.words.rsplit("<message", 1)[-1]:
        return Answer(text="Noted.")
    if "search_conversation" not in asked.results:
        assert "search_conversation" in asked.tools
        return calls(("search_conversation", {"query": "code of the gate"}))
    return Answer(text=f"I found: {asked.results['search_conversation'][-1]}")


async def ask(folder: Folder, name: str, by: SecretKey | None, messages: int) -> str:
    """The agent's answer to the question for the code."""
    await folder.write("What is the code?", to=name, by=by)
    state = await settled(folder, name, "waiting", messages=messages)
    return str(state.recent[-1].text)


async def test_an_agent_finds_what_has_left_its_window_and_no_guest_reads_it(tmp_path: Path, relay: str) -> None:
    guest = SecretKey.generate()
    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server, SETTINGS)
        file = folder.file.read_text()
        folder.file.write_text(file.replace("[people]\n", "[people]\nopen = true\n"))
        async with serving(folder, server, TENEX_MODELS__CONTEXT_TOKENS="8000") as process:
            old = await folder.write("hello")
            for number, text in enumerate(("hello again", f"{FILLING[-1]}{FACT} {FILLING[-1]}", *FILLING), start=2):
                await settled(folder, old, "waiting", messages=number - 1)
                await folder.write(text, to=old)
            await settled(folder, old, "waiting", messages=7)
            answer = await ask(folder, old, None, 8)
            shown = [exchange.request["messages"] for exchange in server.exchanges]
            assert FACT not in str(shown[-2]), "it was still in the window"
            assert FACT in answer
            assert "In this conversation:" in answer

            new = await folder.write("hello")
            await settled(folder, new, "waiting", messages=1)
            answer = await ask(folder, new, None, 2)
            assert f'In {old[:12]} "hello"' in answer
            assert FACT in answer

            strange = await folder.write("hello", by=guest)
            await settled(folder, strange, "waiting", messages=1)
            answer = await ask(folder, strange, guest, 2)
            assert "heliotrope" not in answer
            assert old[:12] not in answer
        assert not [log for log in process.logs if log["level"] in ("error", "critical")]
