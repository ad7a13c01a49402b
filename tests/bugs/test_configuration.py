"""What went wrong between what was configured, or came from strangers, and what ran (B17, B24, B27)."""

import ast
from pathlib import Path

from tenex.nostr.embedded import embedded_relay
from tests.fakes.modelprotocol import Answer
from tests.fakes.modelserver import model_server
from tests.repository.tree import ROOT, named
from tests.service.kit import tenex
from tests.service.loopback import folder_with_model, serving, settled


async def test_b17_what_is_configured_is_what_live_conversations_meet(tmp_path: Path) -> None:
    """The queue was tied to another object than the one that served, so it never held anything back."""
    async with embedded_relay() as url, model_server(lambda request: Answer(text="no decision")) as server:
        folder = folder_with_model(tmp_path / "data", url, server, "[limits]\nrouting_attempts = 2\n")
        async with serving(folder, server) as process:
            name = await folder.write("hello")
            await settled(folder, name, "waiting")
            assert await process.stop() == 0
        assert len(server.exchanges) == 2


async def test_b24_a_model_that_is_none_stops_the_start_and_is_not_replaced(tmp_path: Path) -> None:
    """A name no one knew was answered by whatever model came first."""
    code, _, _ = await tenex("init", "--dir", tmp_path, "--json")
    assert code == 0
    code, _, message = await tenex("run", "--data", tmp_path, TENEX_MODELS__DEFAULT="acme:nothing")
    assert code == 3
    assert "acme" in message
    assert "models.default" in message
    assert "Traceback" not in message


def test_b27_no_word_of_a_stranger_reaches_a_shell() -> None:
    """A repository's address was put into a shell's command line; programs here are started from lists of words."""
    found: list[str] = []
    for path in named(".py", "tenex"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            starts = name.startswith("subprocess.") or name.endswith("Popen")
            if name.endswith(("create_subprocess_shell", "os.system", "os.popen", "getoutput")) or any(
                starts and keyword.arg == "shell" and ast.unparse(keyword.value) != "False" for keyword in node.keywords
            ):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {name}")
    assert not found
