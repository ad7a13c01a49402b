"""`tenex chat` in a real terminal, beside a daemon with an agent that speaks by states: thoughts are seen live."""

import sys
from pathlib import Path

from tests.fakes.modelprotocol import Answer, Breaks, Json, Reply
from tests.fakes.modelscripts import Asked, decision
from tests.fakes.modelserver import model_server

from . import test_terminal
from .loopback import folder_with_model, serving
from .test_output_states import call, critique, put
from .test_terminal import Terminal

pytestmark = test_terminal.pytestmark
terminal = test_terminal.terminal

WHOLE = critique("all is well now") + call("complete", response="The answer is 42.", summary="done")


def model(request: Json) -> Reply:
    """An executor that answers, then falls silent within its thought, until a user asks it to carry on."""
    asked = Asked(request)
    if asked.question is not None:
        turns = len(asked.question["turns"])
        if turns == len(asked.question["messages"]):
            return decision(request, {"agents": ["USER"], "reason": "the person has the word"})
        phase = {} if turns else {"phase": "execute"}
        return decision(request, {**phase, "agents": ["executor"], "reason": "it is wanted"})
    if "carry on" in asked.words:
        return Answer(text=WHOLE)
    if "six times seven" not in asked.words:
        return Answer(text=critique("no question yet") + call("complete", response="Ask me.", summary="asked"))
    return Breaks(answer=Answer(text=critique("it may " + "take long " * 10)), after=12, stall=True)


async def test_thoughts_are_seen_as_they_are_written_and_go_when_they_are_stopped(
    terminal: Terminal, tmp_path: Path, relay: str
) -> None:
    async with model_server(model) as server:
        folder = folder_with_model(tmp_path / "data", relay, server)
        put(folder)
        async with serving(folder, server) as process:
            terminal.start(sys.executable, "-m", "tenex.cli.main", "chat", "--data", str(folder.data))
            await terminal.shows("Connected to", "you ›")
            terminal.type("Good morning")  # what a model writes is streamed once its first answer is known whole
            await terminal.shows("Ask me.")
            terminal.type("What is six times seven?")
            await terminal.shows("executor 🔍 Critique … ", "take long take long")
            terminal.type("/stop")
            await terminal.until(lambda screen: "Stopped: Executor" in screen and "Critique …" not in screen)
            terminal.type("carry on")
            screen = await terminal.shows("🔍 Critique  executor", "all is well now", "The answer is 42.")
            assert screen.index("all is well now") < screen.index("The answer is 42.")
            terminal.press("C-d")
            await terminal.shows("ended 0")
            assert await process.stop() == 0
