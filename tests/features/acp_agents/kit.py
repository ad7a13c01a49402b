"""A daemon whose executor is a scripted program that speaks ACP (`scripted_agent`), in the sandbox."""

import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.fakes.modelprotocol import Answer
from tests.fakes.modelscripts import Router, Team, brisk, straight
from tests.fakes.modelserver import ModelScript, ModelServer, model_server
from tests.service.kit import Folder, Process
from tests.service.loopback import folder_with_model, serving

Turn = Sequence[tuple[str, Any]]

AGENT = """---
name: Claude
role: does the work
kind: worker
use_when: there is work to do
{head}acp:
  command: [scripted-agent]
{more}  env:
    SCRIPT: {script}
{env}---
You do the work.
"""


def agent_file(turns: Sequence[Turn], *, more: str = "", env: Mapping[str, str] | None = None, head: str = "") -> str:
    variables = "".join(f"    {name}: {json.dumps(value)}\n" for name, value in (env or {}).items())
    return AGENT.format(head=head, more=more, script=json.dumps(json.dumps(turns)), env=variables)


def put_agent(folder: Folder, text: str, slug: str = "executor") -> None:
    """Have an agent of the folder be the scripted program."""
    programs = folder.data.parent / "programs"
    programs.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("scripted_agent.py"), programs / "scripted-agent")
    (folder.data / "agents").mkdir(exist_ok=True)
    (folder.data / "agents" / f"{slug}.md").write_text(text)


def once(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """An orchestrator that has the executor work once, and then waits for the person."""
    if question["turns"]:
        return {"agents": ["USER"], "reason": "the person has the word"}
    return straight(dict(question))


def models(router: Router = once, worker: Callable[..., Any] = brisk) -> ModelScript:
    """A team, and a word for what the program asks its model by itself."""
    team = Team(router=router, worker=worker)

    def answer(request: Any) -> Any:
        return Answer(text="Hello to you.") if len(request["messages"]) == 1 else team(request)

    return answer


@asynccontextmanager
async def working(
    place: Path,
    relay: str,
    *turns: Turn,
    router: Router = once,
    worker: Callable[..., Any] = brisk,
    settings: str = "",
    more: str = "",
    env: Mapping[str, str] | None = None,
    slug: str = "executor",
    head: str = "",
) -> AsyncIterator[tuple[Folder, Process, ModelServer]]:
    """A daemon on a new folder whose executor carries out these turns."""
    async with model_server(models(router, worker)) as server:
        folder = folder_of(place, relay, server, settings)
        put_agent(folder, agent_file(turns, more=more, env=env, head=head), slug)
        async with serving(folder, server) as process:
            yield folder, process, server


def folder_of(place: Path, relay: str, server: ModelServer, settings: str = "") -> Folder:
    programs = place / "programs"
    return folder_with_model(place / "data", relay, server, f'\n[workspace]\npath = ["{programs}"]\n{settings}')


def home(folder: Folder, name: str, slug: str = "executor") -> Path:
    """The home folder of the agent in a conversation."""
    return folder.data / "acp" / name / slug / "home"


def noted(folder: Folder, name: str, what: str, slug: str = "executor") -> list[Any]:
    """What the program has noted in its home folder."""
    try:
        lines = (home(folder, name, slug) / f"{what}.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


def processes_of(place: Path) -> list[str]:
    """The command lines of all that runs of scripted programs of a test folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "scripted-agent" in line and str(place) in line:
            found.append(line)
    return found
