"""Agents that others made, from npm in fixed versions, with their models on loopback."""

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.features.acp_agents.scripted_vendors import Turn, Use
from tests.interop.scripts import install

_COMMAND = re.compile(r"shell command `([^`]+)`")
NPM = Path(__file__).parent / "npm"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealAgent:
    """How one is started, and how its model runs a command."""

    name: str
    program: str
    entry: str
    """The file of its packages that the program is a link to, as npm makes it."""
    arguments: tuple[str, ...] = ()
    version: str
    mode: str
    """The one in which it asks before it runs a command."""
    run: Callable[[str], Use]
    """What its model calls to run a command."""
    variables: Callable[[str, Path], Mapping[str, str]]
    """Its environment, by the address of the models and its HOME; it may write files there."""
    goes_on_after_no: bool
    """Whether its model is asked again after a no; else the turn ends."""

    @property
    def folder(self) -> Path:
        """The folder of its program; the sandbox shows `lib` beside a folder of the path."""
        return NPM / self.name / "bin"

    def install(self) -> None:
        """Install it; skips the test where that cannot be done."""
        install(NPM / self.name / "lib")
        self.folder.mkdir(exist_ok=True)
        link = self.folder / self.program
        with suppress(FileExistsError):
            link.symlink_to(Path("..", "lib", "node_modules", self.entry))

    @property
    def start(self) -> list[str]:
        """How it is started without a sandbox."""
        return [str(self.folder / self.program), *self.arguments]

    def environment(self, url: str, home: Path) -> dict[str, str]:
        """All that its process has."""
        return {"PATH": os.environ["PATH"], "HOME": str(home), **self.variables(url, home)}

    def script(self, turn: Turn) -> str | Use:
        """A model that runs the command that the message names, once, and says what it gave."""
        if turn.results:
            return f"It gave: {turn.results[-1][:60]}"
        commands = _COMMAND.findall(turn.text)
        return self.run(commands[-1]) if commands else "Hello."


def _claude(url: str, home: Path) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
        "ENABLE_TOOL_SEARCH": "false",
    }


def _opencode(url: str, home: Path) -> Mapping[str, str]:
    models = {"scripted": {"name": "scripted", "limit": {"context": 100_000, "output": 10_000}}}
    options = {"baseURL": f"{url}/v1", "apiKey": "none"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "tenex", "options": options, "models": models}
    settings = {
        "provider": {"tenex": provider},
        "model": "tenex/scripted",
        "small_model": "tenex/scripted",
        "enabled_providers": ["tenex"],
        "permission": {"*": "ask"},
        "autoupdate": False,
        "share": "disabled",
    }
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(settings), "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _codex(url: str, home: Path) -> Mapping[str, str]:
    folder = home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(
        f"""model = "scripted"
model_provider = "tenex"
[model_providers.tenex]
name = "tenex"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "TENEX_KEY"
"""
    )
    return {"TENEX_KEY": "none"}


CLAUDE = RealAgent(
    name="claude",
    program="claude-agent-acp",
    entry="@agentclientprotocol/claude-agent-acp/dist/index.js",
    version="0.101",
    mode="default",
    run=lambda command: Use("Bash", {"command": command, "description": "run it"}),
    variables=_claude,
    goes_on_after_no=True,
)
OPENCODE = RealAgent(
    name="opencode",
    program="opencode",
    entry="opencode-linux-x64/bin/opencode",
    arguments=("acp",),
    version="1.18",
    mode="build",
    run=lambda command: Use("bash", {"command": command, "description": "run it"}),
    variables=_opencode,
    goes_on_after_no=False,
)
CODEX = RealAgent(
    name="codex",
    program="codex-acp",
    entry="@agentclientprotocol/codex-acp/dist/index.js",
    version="2.6",
    mode="workspace-write",
    run=lambda command: Use(
        "exec_command", {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "it needs more"}
    ),
    variables=_codex,
    goes_on_after_no=False,
)
