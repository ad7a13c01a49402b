"""docs/tutorial.md, typed by a shell from the first block to the last, with a phone, a relay and a model on loopback.

Left out is what the release check does: the installation, for which `~/tenex-venv` leads to the tests' own programs.
"""

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path

import pytest

from tenex.nostr.embedded import embedded_relay
from tenex.nostr.keys import SecretKey, parse_public_key
from tests.fakes.forkserver import run
from tests.fakes.modelprotocol import Answer, Call, Json
from tests.fakes.modelserver import model_server
from tests.service.kit import PATIENCE, ROOT, TENEX, environment
from tests.service.person import note, publish, stored

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
INSTALLATION = re.compile(r"^(python3 -m venv .*|~/tenex-venv/bin/pip install .*)\n", re.MULTILINE)
END = "=== end of a block ==="
STEP = 4 * PATIENCE
"""Seconds for one block: up to three programs are started, and one of them is the demo."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TUTORIAL, re.MULTILINE | re.DOTALL)


class Shell:
    """One shell for all blocks, as in a terminal: what one exports, the next has."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def type(self, block: str) -> str:
        """Run a block and return what it printed; a command that fails fails the test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"set -e\n{block}\nset +e; echo '{END}'\n".encode())
        printed: list[str] = []
        async with asyncio.timeout(STEP):
            while (line := (await self._process.stdout.readline()).decode()) != f"{END}\n":
                assert line, f"the shell ended within:\n{block}\n{''.join(printed)}"
                printed.append(line)
        return "".join(printed)


def answers(request: Json) -> Answer:
    """A model that knows pancakes, and the two questions of `tenex doctor --probe`."""
    words = json.dumps(request["messages"])
    if "Call the tool `complete`" in words:
        return Answer(calls=(Call(tool="complete", arguments={"response": "OK"}),))
    if "Answer with the JSON object" in words:
        return Answer(text='{"agents": ["USER"], "reason": "a test"}')
    return Answer(text="Three eggs (pancakes.md).")


class Phone:
    """A client with the owner's key, as step 6 has it."""

    def __init__(self, home: Path, url: str, address: str) -> None:
        self._key = SecretKey.from_nsec((home / "tenex" / "keys" / "owner.nsec").read_text().strip())
        self._address, self._url = address.split()[0], url

    async def ask(self, words: str) -> str:
        """Write a note that mentions the project, and wait for a reply of somebody else; returns its text."""
        question = note(self._key, f"nostr:{self._address} {words.strip()}", ["p", parse_public_key(self._address)])
        await publish(self._url, question)
        async with asyncio.timeout(STEP):
            while not (answers := await self._answers(question["id"])):
                await asyncio.sleep(0.1)
        return "\n".join(answers)

    async def _answers(self, question: str) -> list[str]:
        below = await stored(self._url, _e=[question], kinds=[1])
        return [event["content"] for event in below if event["pubkey"] != self._key.public]


@pytest.mark.timeout(900)  # about twenty programs are started: 45 s on a machine with other work, minutes on a full one
async def test_the_tutorial_works_as_it_is_typed(tmp_path: Path) -> None:
    programs = tmp_path / "tenex-venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "tenex").write_text(f'#!/bin/sh\nexec {sys.executable} -m tenex.main "$@"\n')
    (programs / "tenex").chmod(0o755)
    env = environment(HOME=str(tmp_path), OPENAI_API_KEY="sk-loopback", PYTHONSAFEPATH="1")
    async with embedded_relay() as url, model_server(answers) as server:
        shell_process = await asyncio.create_subprocess_exec(
            "bash", stdin=PIPE, stdout=PIPE, stderr=STDOUT, env=env, cwd=tmp_path
        )
        shell = Shell(shell_process)
        try:
            printed = []
            *steps, stop = blocks("sh")
            for block in steps:
                text = INSTALLATION.sub("", block).replace("wss://relay.example.com", url)
                if "openai" in text:  # the vendor's server is on loopback here
                    settings = f'[models.providers.openai]\nbase_url = "{server.url}"\n'
                    with (tmp_path / "tenex" / "tenex.toml").open("a") as file:
                        file.write(f"\n{settings}")
                printed.append(await shell.type(text))
                if "tenex address" in block:
                    phone = Phone(tmp_path, url, printed[-1])
                    assert "250 g of flour" in await phone.ask(*blocks("text"))
            whole = "".join(printed)
            assert "\nhello\n" in whole  # the program of the demo
            assert "Librarian" in whole  # the conversation, shown
            assert "FAULT" not in whole  # of `tenex doctor`
            assert "Three eggs" in await phone.ask("How many eggs do I need for two pancakes?")
            assert "Stopped" in await shell.type(stop)
        finally:
            shell_process.terminate()
            await shell_process.wait()
            if (tmp_path / "tenex").exists():  # a test that failed in the middle has left a daemon
                await asyncio.to_thread(run, [*TENEX, "stop", "--data", str(tmp_path / "tenex")], env, ROOT)
